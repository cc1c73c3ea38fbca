package localplane

import (
	"fmt"
	"net"
	"sync"
)

// reservations keeps listeners referenced for the life of the process, because an unreferenced one would be closed.
var reservations sync.Map

// reserve returns an error if a process in the same network namespace has reserved the name. A reservation is an
// abstract socket. The kernel releases it when the process ends.
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
