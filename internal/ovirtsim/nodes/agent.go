package nodes

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

// agentInterval is the time between two checks of the network by the guest agent, and nodeInterval between two checks
// of the node.
const (
	agentInterval = time.Second
	nodeInterval  = 5 * time.Second
)

// runAgent reports a machine's name and network after each change, until the machine or ctx ends.
func (g *Guests) runAgent(
	ctx context.Context, vmID string, m *machine.Machine, report func(store.AgentReport),
) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go g.watchNode(ctx, vmID, m) // in another goroutine, because the kubelet's API server may respond slowly

	ticker := time.NewTicker(agentInterval)
	defer ticker.Stop()

	var last store.AgentReport

	for {
		select {
		case <-ctx.Done():
			return
		case <-m.Ended():
			return
		case <-ticker.C:
		}

		interfaces, err := queryInterfaces(ctx, m)
		if err != nil || len(interfaces) == 0 {
			continue
		}

		// Like QEMU's agent, this asks only the kernel for the name, and asks no name server for a domain.
		name, err := m.RunCommand(ctx, "hostname")
		if err != nil {
			continue
		}

		seen := store.AgentReport{FQDN: strings.TrimSpace(name), Interfaces: interfaces}
		if !reflect.DeepEqual(seen, last) {
			report(seen)
			last = seen
		}
	}
}

// watchNode updates the record of a machine's node until ctx ends.
func (g *Guests) watchNode(ctx context.Context, vmID string, m *machine.Machine) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(nodeInterval):
		}

		node := queryNode(ctx, m)

		g.mu.Lock()
		if g.running[vmID] == m {
			g.nodes[vmID] = node
		}

		g.mu.Unlock()
	}
}

// queryInterfaces returns those interfaces of a machine that have addresses, except the loopback.
func queryInterfaces(ctx context.Context, m *machine.Machine) ([]store.ReportedInterface, error) {
	output, err := m.RunCommand(ctx, "ip", "-json", "address")
	if err != nil {
		return nil, err
	}

	var found []struct {
		Name      string `json:"ifname"`
		MAC       string `json:"address"`
		Kind      string `json:"link_type"`
		Addresses []struct {
			Local string `json:"local"`
		} `json:"addr_info"`
	}
	if err := json.Unmarshal([]byte(output), &found); err != nil {
		return nil, err
	}

	var out []store.ReportedInterface

	for _, one := range found {
		if one.Kind == "loopback" || len(one.Addresses) == 0 {
			continue
		}

		reported := store.ReportedInterface{Name: one.Name, MAC: one.MAC}
		for _, address := range one.Addresses {
			reported.Addresses = append(reported.Addresses, address.Local)
		}

		out = append(out, reported)
	}

	return out, nil
}

// nodeScript prints the name of the machine's node, the address of its API server, and whether the machine runs an API
// server.
const nodeScript = `[ -f /etc/kubernetes/kubelet.conf ] || exit 0
hostname
sed -n 's|^ *server: https://||p' /etc/kubernetes/kubelet.conf
test -f /etc/kubernetes/manifests/kube-apiserver.yaml && echo yes || echo no
kubectl --kubeconfig /etc/kubernetes/kubelet.conf get node "$(hostname)" --request-timeout=2s \
  -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'`

// queryNode returns the Kubernetes node as the machine itself sees it, or nil if the machine is no node.
func queryNode(ctx context.Context, m *machine.Machine) *api.GuestNode {
	ctx, cancel := context.WithTimeout(ctx, nodeInterval)
	defer cancel()
	output, _ := m.RunCommand(ctx, "sh", "-c", nodeScript)

	return parseNode(output)
}

// parseNode parses the output of nodeScript.
func parseNode(output string) *api.GuestNode {
	lines := strings.Split(output, "\n")
	if len(lines) < 3 || lines[1] == "" {
		return nil
	}

	out := &api.GuestNode{Name: lines[0], Endpoint: lines[1], ControlPlane: lines[2] == "yes", Ready: "Unknown"}
	if len(lines) > 3 && (lines[3] == "True" || lines[3] == "False") {
		out.Ready = lines[3]
	}

	return out
}

// Node returns the VM's Kubernetes node as its agent last saw it. While the VM is off, the node's readiness is Unknown.
func (g *Guests) Node(vmID string) (api.GuestNode, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	node := g.nodes[vmID]
	if node == nil {
		return api.GuestNode{}, false
	}

	out := *node
	if g.running[vmID] == nil {
		out.Ready = "Unknown"
	}

	return out, true
}
