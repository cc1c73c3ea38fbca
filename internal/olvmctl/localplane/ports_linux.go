package localplane

import (
	"fmt"
	"net"
	"sync"
)

// reservations last as long as the process: a listener that nothing refers to would be closed.
var reservations sync.Map

// reserve fails if a process in the same network namespace has reserved what has this name. A reservation is an
// abstract socket, which the kernel takes back when the process ends.
func reserve(name string) error {
	listener, err := net.Listen("unix", "@capolvm-"+name)
	if err != nil {
		return fmt.Errorf("failed to reserve %s: %w", name, err)
	}

	reservations.Store(name, listener)

	return nil
}

// release takes a reservation of this process back.
func release(name string) {
	if listener, ok := reservations.LoadAndDelete(name); ok {
		_ = listener.(net.Listener).Close()
	}
}
