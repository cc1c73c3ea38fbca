package nodes

import (
	"fmt"
	"os"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
)

// LinkPrefix returns the prefix of the names of this process's bridges.
func LinkPrefix() string { return fmt.Sprintf("n%d.", os.Getpid()) }

// connectNICs returns the network interfaces of a VM, each on the bridge of its network. An interface without a network
// has no bridge.
func (g *Guests) connectNICs(vm api.GuestVM) ([]machine.NIC, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []machine.NIC

	for _, device := range vm.Interfaces {
		bridge, err := g.ensureBridge(device)
		if err != nil {
			return nil, err
		}

		g.ports++
		out = append(out, machine.NIC{
			Name:   device.Name,
			MAC:    device.MAC,
			Bridge: bridge,
			Port:   fmt.Sprintf("p%d.%d", os.Getpid(), g.ports),
		})
	}

	return out, nil
}

// ensureBridge returns the bridge of a network. It creates a missing bridge, and gives it the router's addresses. Names
// contain the PID of this process, because other processes may have networks in the same namespace. The caller must
// hold g.mu.
func (g *Guests) ensureBridge(device api.GuestInterface) (string, error) {
	if device.Network == "" {
		return "", nil
	}

	if there := g.bridges[device.Network]; there != "" {
		return there, nil
	}

	name := fmt.Sprintf("%s%d", LinkPrefix(), len(g.bridges)+1)
	steps := [][]string{{"link", "add", name, "alias", device.Network, "type", "bridge"}}

	for _, address := range device.Router {
		steps = append(steps, []string{"address", "add", address, "dev", name, "nodad"})
	}

	for _, step := range append(steps, []string{"link", "set", name, "up"}) {
		if err := machine.IP(g.options.NetNS, step...); err != nil {
			_ = machine.IP(g.options.NetNS, "link", "delete", name) // so a retry creates it again

			return "", fmt.Errorf("network %s: %w", device.Network, err)
		}
	}

	g.bridges[device.Network] = name

	return name, nil
}
