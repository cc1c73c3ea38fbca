package localplane

import (
	"fmt"
	"net"
	"sync"
)

// reservations refers to the listeners until this process ends, because the garbage collector would close listeners
// without references.
var reservations sync.Map

// reserve returns an error if a process in the same network namespace has already reserved the name. A reservation is
// an abstract socket. The kernel releases it when the process ends.
func reserve(name string) error {
	listener, err := net.Listen("unix", "@capolvm-"+name)
	if err != nil {
		return fmt.Errorf("failed to reserve %s: %w", name, err)
	}

	reservations.Store(name, listener)

	return nil
}

// release ends a reservation of this process.
func release(name string) {
	if listener, ok := reservations.LoadAndDelete(name); ok {
		_ = listener.(net.Listener).Close()
	}
}
