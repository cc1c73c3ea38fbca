package localplane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// FreePorts chooses from these ports. They are below the kernel's range for outgoing connections, because a connection
// could take a port in that range before the process starts.
const firstPort, lastPort = 20000, 32000

// FreePorts returns free ports on 127.0.0.1, and reserves them against other processes of this program. Otherwise,
// planes that start at the same time would choose the same ports.
func FreePorts(n int) ([]int, error) {
	var ports []int

	for tries := 0; len(ports) < n; tries++ {
		port := firstPort + rand.IntN(lastPort-firstPort) //nolint:gosec // no secret

		err := reserve(fmt.Sprintf("port-%d", port))
		if err == nil {
			err = checkPort("127.0.0.1", port)
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
// 127.20.30. It returns the preferred network, or another free network. It reserves the network until this process
// ends. A network is free if nothing listens on the given port of the given host in it. This is the control plane
// endpoint of the cluster.
func FreeNetwork(preferred string, host, port int) (string, error) {
	var problem error

	for _, network := range append([]string{preferred}, otherNetworks()...) {
		name := "network-" + network
		if problem = reserve(name); problem != nil {
			continue
		}

		if problem = checkPort(fmt.Sprintf("%s.%d", network, host), port); problem == nil {
			return network, nil
		}

		release(name)
	}

	return "", fmt.Errorf("no network 127.x.y.0/24 is free: %w", problem)
}

// otherNetworks returns the alternatives to the preferred network of FreeNetwork. Clusters of tests use 127.20.
func otherNetworks() []string {
	var out []string
	for i := 1; i < 255; i++ {
		out = append(out, fmt.Sprintf("127.21.%d", i))
	}

	return out
}

// checkPort fails if a process listens on the port of an address.
func checkPort(address string, port int) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("failed to listen: %w", err)
	}

	return listener.Close()
}
