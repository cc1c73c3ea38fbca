package terraform

import (
	"bytes"
	"os"

	"github.com/capolvm/cluster-api-provider-olvm/internal/confine"
)

// Confinement is the isolation of a run from everything outside it: the network, and files of the manager, its Pod and
// other runs. A confined executor cannot reveal any secrets, even under a hostile configuration.
type Confinement string

const (
	// Landlocked runs can use their working directory and read the executor. They can start no other program and open
	// no TCP connection. Landlock does not deny UDP, MPTCP and other Unix sockets. docs/operate/security.md describes
	// the consequences.
	Landlocked Confinement = "Landlock"
	// Unconfined runs have all rights of the manager's user, because the kernel does not support Landlock or the
	// executor is a script.
	Unconfined Confinement = "none"
)

// Confinement returns the confinement of this executor's runs.
func (x *Executor) Confinement() Confinement {
	if x.confines {
		return Landlocked
	}

	return Unconfined
}

// runConfined calls do. The processes that do starts can access only dir and the executor.
func (x *Executor) runConfined(dir string, do func() error) error {
	if !x.confines {
		return do()
	}

	return confine.Start(confine.Rules{
		Run:  append([]string{x.executable.Path}, confine.Libraries...),
		Work: []string{dir},
		// go-plugin checks with signal 0 whether the provider's process is alive. Without permission, it would stop
		// using the provider.
		Signals: true,
	}, do)
}

// isBinary reports whether a file is a binary program. A script would also need access to its interpreter, and to all
// files the interpreter reads.
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
