package localplane

import (
	"fmt"
	"net"
	"sync"
)

// reservations last as long as the process: a listener that nothing refers to would be closed.
var reservations sync.Map

// reserve fails where a process has reserved the port before, in the same network namespace. A reservation is an
// abstract socket, which the kernel takes back when the process ends.
func reserve(port int) error {
	listener, err := net.Listen("unix", fmt.Sprintf("@capolvm-port-%d", port))
	if err != nil {
		return fmt.Errorf("failed to reserve port %d: %w", port, err)
	}

	reservations.Store(port, listener)

	return nil
}
