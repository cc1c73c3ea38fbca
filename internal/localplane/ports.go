package localplane

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports that FreePorts chooses from. They are below those that the kernel gives to outgoing connections: such a one
// could be taken between the choice and the start of the process that it is for.
const firstPort, lastPort = 20000, 32000

// FreePorts returns ports on 127.0.0.1 that are free now, and that it does not give to another process of this program:
// planes that start at the same time would take each other's.
func FreePorts(n int) ([]int, error) {
	var ports []int

	for tries := 0; len(ports) < n; tries++ {
		port := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // no secret

		err := reserve(port)
		if err == nil {
			err = probe(port)
		}

		if err == nil {
			ports = append(ports, port)
		} else if tries > 1000 {
			return nil, fmt.Errorf("failed to find a free port: %w", err)
		}
	}

	return ports, nil
}

// probe fails where something listens on the port.
func probe(port int) error {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return fmt.Errorf("failed to listen: %w", err)
	}

	return listener.Close()
}
