package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inmemoryruntime "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
)

const (
	// joinTimeout is how long kubeadm join waits for the control plane and its token.
	joinTimeout = 5 * time.Minute
	// joinRetry is how often it looks.
	joinRetry = 500 * time.Millisecond
)

// Guests runs the insides of all VMs of one engine.
type Guests struct {
	log     logr.Logger
	manager inmemoryruntime.Manager
	ctx     context.Context
	cancel  context.CancelFunc

	mu       sync.Mutex
	clusters map[string]*workloadCluster // by the address of their listener
	members  map[string]*member          // by VM ID
}

// member is a VM that became a node.
type member struct {
	node    *node
	cluster *workloadCluster
}

var _ ovirtsim.Guest = &Guests{}

// New returns the guests of an engine.
func New(log logr.Logger) (*Guests, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &Guests{
		log: log, manager: inmemoryruntime.NewManager(scheme), ctx: ctx, cancel: cancel,
		clusters: map[string]*workloadCluster{}, members: map[string]*member{},
	}
	if err := g.manager.Start(ctx); err != nil {
		cancel()
		return nil, fmt.Errorf("failed to start the in-memory runtime: %w", err)
	}
	return g, nil
}

// Node is the Kubernetes node that the VM became.
func (g *Guests) Node(vmID string) (ovirtsim.GuestNode, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[vmID]
	if m == nil {
		return ovirtsim.GuestNode{}, false
	}
	out := ovirtsim.GuestNode{Name: m.node.name, Endpoint: m.node.endpoint, ControlPlane: m.node.controlPlane, Ready: string(corev1.ConditionUnknown)}
	var current corev1.Node
	if err := m.cluster.client().Get(g.ctx, client.ObjectKey{Name: m.node.name}, &current); err == nil {
		for _, condition := range current.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				out.Ready = string(condition.Status)
			}
		}
	}
	return out, true
}

// SetNodeReady changes the Ready condition of the VM's Node.
func (g *Guests) SetNodeReady(vmID, status, reason string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[vmID]
	if m == nil {
		return fmt.Errorf("VM %s is not a node", vmID)
	}
	return m.cluster.setReady(g.ctx, m.node.name, corev1.ConditionStatus(status), reason)
}

// Close stops every workload cluster.
func (g *Guests) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range g.clusters {
		c.close()
	}
	g.cancel()
}

// Boot configures the network, runs cloud-init and kubeadm. A VM that was a node before comes back as the same one.
func (g *Guests) Boot(ctx context.Context, machine ovirtsim.GuestVM, ready func([]ovirtsim.ReportedInterface)) error {
	address, err := configureNetwork(machine)
	if err != nil {
		return err
	}
	ready([]ovirtsim.ReportedInterface{{Name: machine.Interfaces[0].Name, MAC: machine.Interfaces[0].MAC, Addresses: []string{address}}})

	g.mu.Lock()
	known := g.members[machine.ID]
	g.mu.Unlock()
	if known != nil {
		return g.rejoin(ctx, known)
	}
	if machine.Ignition {
		return errors.New("the simulated guest reads cloud-config only; Ignition images do not boot yet")
	}
	if machine.UserData == "" {
		return nil // a VM without user data is just a VM
	}
	sys, err := runCloudInit(machine.UserData, machine.ID)
	if err != nil || sys.kubeadm == "" {
		return err
	}
	n, err := nodeFrom(sys)
	if err != nil {
		return err
	}
	if machine.KubernetesVersion == "" {
		return errors.New("kubeadm: command not found")
	}
	if n.init && minor(n.version) != minor(machine.KubernetesVersion) {
		return fmt.Errorf("kubeadm: this version of kubeadm (%s) does not deploy clusters with version %s", machine.KubernetesVersion, n.version)
	}
	n.version, n.address = machine.KubernetesVersion, address
	if n.name == "" {
		n.name = strings.ToLower(machine.HostName)
	}
	if n.name == "" {
		return errors.New("kubeadm: the guest has no host name")
	}
	if n.init {
		return g.initCluster(ctx, machine.ID, n)
	}
	return g.join(ctx, machine.ID, n)
}

// configureNetwork applies the engine's NIC configuration; the networks of OLVM have no DHCP.
func configureNetwork(machine ovirtsim.GuestVM) (string, error) {
	if len(machine.Interfaces) == 0 {
		return "", errors.New("network: the VM has no network interface")
	}
	if len(machine.NICs) == 0 {
		return "", errors.New("network: the VM has no NIC configuration and the network has no DHCP")
	}
	address := ""
	for i, nic := range machine.NICs {
		if nic.BootProtocol != "static" {
			return "", fmt.Errorf("network: %s asks for %q and the network has no DHCP", nic.Interface, nic.BootProtocol)
		}
		if nic.Interface != "enp1s0" {
			return "", fmt.Errorf("network: the guest has no interface %q, its interface is enp1s0", nic.Interface)
		}
		ip, mask, gateway := net.ParseIP(nic.Address).To4(), net.ParseIP(nic.Netmask).To4(), net.ParseIP(nic.Gateway).To4()
		if ip == nil || mask == nil || gateway == nil {
			return "", fmt.Errorf("network: %s has an unusable configuration: address %q, netmask %q, gateway %q", nic.Interface, nic.Address, nic.Netmask, nic.Gateway)
		}
		subnet := net.IPNet{IP: ip.Mask(net.IPMask(mask)), Mask: net.IPMask(mask)}
		if !subnet.Contains(gateway) {
			return "", fmt.Errorf("network: gateway %s is not in the subnet %s of %s", gateway, subnet.String(), ip)
		}
		if i == 0 {
			address = ip.String() // the node's
		}
	}
	return address, nil
}

func minor(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return version
	}
	return parts[0] + "." + parts[1]
}

// initCluster is kubeadm init.
func (g *Guests) initCluster(ctx context.Context, vmID string, n *node) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, err := g.newCluster(n)
	if err != nil {
		return err
	}
	if err := c.addControlPlane(ctx, n); err != nil {
		c.close()
		return err
	}
	g.clusters[c.address] = c
	g.members[vmID] = &member{node: n, cluster: c}
	g.log.Info("Initialised workload cluster", "endpoint", n.endpoint, "node", n.name)
	return nil
}

// join is kubeadm join, with its patience.
func (g *Guests) join(ctx context.Context, vmID string, n *node) error {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	ticker := time.NewTicker(joinRetry)
	defer ticker.Stop()
	for {
		last := g.tryJoin(ctx, vmID, n)
		if last == nil {
			g.log.Info("Joined workload cluster", "endpoint", n.endpoint, "node", n.name)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kubeadm: failed to join: %w", last)
		case <-ticker.C:
		}
	}
}

func (g *Guests) tryJoin(ctx context.Context, vmID string, n *node) error {
	address, err := listenAddress(n.endpoint)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.clusters[address]
	if c == nil || len(c.apiServers) == 0 {
		return fmt.Errorf("nothing serves the control plane endpoint %s", n.endpoint)
	}
	if err := c.admit(ctx, n); err != nil {
		return err
	}
	if n.controlPlane {
		err = c.addControlPlane(ctx, n)
	} else {
		err = c.addNode(ctx, n)
	}
	if err == nil {
		g.members[vmID] = &member{node: n, cluster: c}
	}
	return err
}

// rejoin brings a restarted VM back as the node that it was.
func (g *Guests) rejoin(ctx context.Context, m *member) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.node.controlPlane {
		return m.cluster.addControlPlane(ctx, m.node)
	}
	return m.cluster.setReady(ctx, m.node.name, corev1.ConditionTrue, "KubeletReady")
}

// Halted marks the node as lost, and takes its API server away.
func (g *Guests) Halted(vmID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[vmID]
	if m == nil {
		return
	}
	if m.node.controlPlane {
		m.cluster.removeAPIServer(m.node)
	}
	if err := m.cluster.setReady(g.ctx, m.node.name, corev1.ConditionUnknown, "NodeStatusUnknown"); client.IgnoreNotFound(err) != nil {
		g.log.Error(err, "Failed to mark a halted node", "node", m.node.name)
	}
}

// Removed deletes what died with the VM: its static pods, and the cluster with its last control plane node. The Node
// object stays for Cluster API to delete, as it does with a real VM.
func (g *Guests) Removed(vmID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[vmID]
	if m == nil {
		return
	}
	delete(g.members, vmID)
	if !m.node.controlPlane {
		return
	}
	m.cluster.removeAPIServer(m.node)
	if err := m.cluster.electLeader(g.ctx, "etcd-"+m.node.name); err != nil {
		g.log.Error(err, "Failed to elect a leader of etcd")
	}
	for _, component := range staticPods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: component + "-" + m.node.name}}
		if err := m.cluster.client().Delete(g.ctx, pod); client.IgnoreNotFound(err) != nil {
			g.log.Error(err, "Failed to delete a static pod", "pod", pod.Name)
		}
	}
	for _, other := range g.members {
		if other.cluster == m.cluster && other.node.controlPlane {
			return
		}
	}
	m.cluster.close()
	delete(g.clusters, m.cluster.address)
	g.log.Info("Workload cluster is gone", "endpoint", m.node.endpoint)
}
