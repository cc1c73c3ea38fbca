package terraform

import (
	"bytes"
	"os"

	"github.com/capolvm/cluster-api-provider-olvm/internal/confine"
)

// Confinement is the isolation of a run from everything outside it: files of the manager, of its Pod and of other runs,
// and the network. With it, even an executor under a hostile configuration has nothing to reveal.
type Confinement string

const (
	// Landlocked runs can use their working directory and read the executor. They run no other program and open no TCP
	// connection. Landlock does not deny UDP, MPTCP and other Unix sockets; docs/operate/security.md describes the
	// consequences.
	Landlocked Confinement = "Landlock"
	// Unconfined runs have all rights of the manager's user, because the kernel has no Landlock or the executor is a
	// script.
	Unconfined Confinement = "none"
)

// Confinement returns the confinement of the executor's runs.
func (x *Executor) Confinement() Confinement {
	if x.confines {
		return Landlocked
	}

	return Unconfined
}

// runConfined makes do start its processes with access to dir and the executor only.
func (x *Executor) runConfined(dir string, do func() error) error {
	if !x.confines {
		return do()
	}

	return confine.Start(confine.Rules{
		Run:  append([]string{x.executable.Path}, confine.Libraries...),
		Work: []string{dir},
		// go-plugin sends signal 0 to the provider's process to see if it is alive. Without permission, it gives the
		// provider up.
		Signals: true,
	}, do)
}

// isBinary reports whether a file is a program, not a script. A script would also need access to its interpreter, and
// to all files the interpreter reads.
func isBinary(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	magic := make([]byte, 4)
	_, err = file.Read(magic)

	return err == nil && bytes.Equal(magic, []byte("\x7fELF"))
}
