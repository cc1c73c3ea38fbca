package terraform

import (
	"bytes"
	"os"

	"github.com/capolvm/cluster-api-provider-olvm/internal/confine"
)

// Confinement says what keeps a run from what is not its own: files of the manager, of its Pod and of other runs, and
// the network. Whatever a configuration makes the executor do, it has nothing to give away.
type Confinement string

const (
	// Landlocked runs can use their working directory and read the executor; they run no other program and open no TCP
	// connection. Landlock does not deny UDP, MPTCP and other Unix sockets; docs/operate/security.md says what that
	// leaves.
	Landlocked Confinement = "Landlock"
	// Unconfined runs can do what the manager's user can: the kernel has no Landlock, or the executor is a script.
	Unconfined Confinement = "none"
)

// Confinement of the executor's runs.
func (x *Executor) Confinement() Confinement {
	if x.confines {
		return Landlocked
	}

	return Unconfined
}

// confined has do start its processes where they can use dir and the executor, and nothing else.
func (x *Executor) confined(dir string, do func() error) error {
	if !x.confines {
		return do()
	}

	return confine.Start(confine.Rules{
		Run:  append([]string{x.executable.Path}, confine.Libraries...),
		Work: []string{dir},
		// go-plugin sends signal 0 to the process of the provider to see whether it lives, and gives the provider up if
		// it may not.
		Signals: true,
	}, do)
}

// isBinary reports whether a file is a program and not a script, whose interpreter would have to be allowed with all
// that it reads.
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
