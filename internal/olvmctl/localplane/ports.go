package localplane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
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

		err := reserve(fmt.Sprintf("port-%d", port))
		if err == nil {
			err = probe("127.0.0.1", port)
		}

		if err == nil {
			ports = append(ports, port)
		} else if tries > 1000 {
			return nil, fmt.Errorf("failed to find a free port: %w", err)
		}
	}

	return ports, nil
}

// FreeNetwork returns the first three bytes of a network 127.x.y.0/24 for one cluster of the simulator, such as
// 127.20.30: the preferred one, or another that is free. Until this process ends, no other one gets the same network.
// A network is free if nothing listens on a port of a host in it, which is the cluster's control plane endpoint.
func FreeNetwork(preferred string, host, port int) (string, error) {
	var problem error

	for _, network := range append([]string{preferred}, otherNetworks()...) {
		name := "network-" + network
		if problem = reserve(name); problem != nil {
			continue
		}

		if problem = probe(fmt.Sprintf("%s.%d", network, host), port); problem == nil {
			return network, nil
		}

		release(name)
	}

	return "", fmt.Errorf("no network 127.x.y.0/24 is free: %w", problem)
}

// otherNetworks are those that FreeNetwork falls back to. Clusters of tests are in 127.20.
func otherNetworks() []string {
	var out []string
	for i := 1; i < 255; i++ {
		out = append(out, fmt.Sprintf("127.21.%d", i))
	}

	return out
}

// probe fails if something listens on the port of an address.
func probe(address string, port int) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("failed to listen: %w", err)
	}

	return listener.Close()
}
