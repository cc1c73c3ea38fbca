package nodes

import (
	"fmt"
	"os"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
)

// Links is how the names of bridges begin that this process makes.
func Links() string { return fmt.Sprintf("n%d.", os.Getpid()) }

// connect are the network interfaces of a VM, on the bridges of their networks. One without a network is on none.
func (g *Guests) connect(vm api.GuestVM) ([]machine.NIC, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []machine.NIC

	for _, device := range vm.Interfaces {
		bridge, err := g.bridge(device)
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

// bridge makes the bridge of a network, on which its router is, unless it is there. Names have the number of this
// process, for others may have networks in the same namespace. g.mu is held.
func (g *Guests) bridge(device api.GuestInterface) (string, error) {
	if device.Network == "" {
		return "", nil
	}

	if there := g.bridges[device.Network]; there != "" {
		return there, nil
	}

	name := fmt.Sprintf("%s%d", Links(), len(g.bridges)+1)
	steps := [][]string{{"link", "add", name, "alias", device.Network, "type", "bridge"}}

	for _, address := range device.Router {
		steps = append(steps, []string{"address", "add", address, "dev", name, "nodad"})
	}

	for _, step := range append(steps, []string{"link", "set", name, "up"}) {
		if err := machine.IP(g.options.NetNS, step...); err != nil {
			_ = machine.IP(g.options.NetNS, "link", "delete", name) // it is made again

			return "", fmt.Errorf("network %s: %w", device.Network, err)
		}
	}

	g.bridges[device.Network] = name

	return name, nil
}
