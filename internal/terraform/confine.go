package terraform

import (
	"bytes"
	"os"
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
	if x.landlock > 0 {
		return Landlocked
	}

	return Unconfined
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
