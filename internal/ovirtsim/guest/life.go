package guest

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

const (
	// defaultJoinTimeout is the time for which kubeadm join waits for the control plane and its token.
	defaultJoinTimeout = 5 * time.Minute
	// retryEvery is the time between two tries while a node waits for its control plane.
	retryEvery = 250 * time.Millisecond
)

var (
	// errNotYet marks an error that may disappear with time.
	errNotYet = errors.New("gave up waiting")
	// errClosed is the error of a guest after Close.
	errClosed = errors.New("the simulator is closed")
)

// Boot runs the guest of a VM until ctx ends; ctx stands for the VM's power. It configures the network, and runs
// cloud-init or Ignition, and then kubeadm. A VM with a node on its disk boots as the same node. After an error, the VM
// is on, but nothing runs in it.
func (g *Guests) Boot(ctx context.Context, machine api.GuestVM, ready func(store.AgentReport)) error {
	if g.ctx.Err() != nil {
		return errClosed
	}

	b, known := g.powerOn(ctx, machine)
	defer g.powerOff(machine.ID, b)
	stop := context.AfterFunc(g.ctx, b.cancel)
	defer stop()

	err := g.bringUp(b, machine, known, ready)
	if err != nil && !b.isOff() {
		return err
	}

	<-b.ctx.Done()

	return nil
}

// powerOn records a VM as running, and returns the node on its disk.
func (g *Guests) powerOn(ctx context.Context, machine api.GuestVM) (*boot, *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if before := g.boots[machine.ID]; before != nil {
		before.cancel() // a VM has only one run at a time
	}

	b := &boot{}
	b.ctx, b.cancel = context.WithCancel(ctx)
	g.boots[machine.ID] = b

	if m := g.members[machine.ID]; m != nil && m.disk != machine.RootDisk {
		g.dropMember(machine.ID, m)
	}

	return b, g.members[machine.ID]
}

// powerOff ends a run of a VM.
func (g *Guests) powerOff(vmID string, b *boot) {
	b.cancel()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.boots[vmID] == b {
		delete(g.boots, vmID)
	}

	g.markLost(g.members[vmID], b)
}

// bringUp starts the guest.
func (g *Guests) bringUp(b *boot, machine api.GuestVM, known *member, ready func(store.AgentReport)) error {
	if known != nil && known.unlasting != "" {
		return fmt.Errorf("systemd: %s is not enabled, and did not start again", known.unlasting)
	}

	if known != nil {
		network, err := g.configureInterfaces(machine, known.profiles, nil)
		if err != nil {
			return err
		}

		ready(store.AgentReport{FQDN: known.node.name, Interfaces: network.reported})

		return g.rejoinCluster(b, known, network.nodeAddresses)
	}

	if s := g.serviceOf(machine); s != nil {
		network, err := g.configureInterfaces(machine, s.profiles, nil)
		if err != nil {
			return err
		}

		ready(store.AgentReport{FQDN: s.hostName, Interfaces: network.reported})

		return g.followConfiguration(b, machine, s)
	}

	return g.runFirst(b, machine, ready)
}

// runFirst starts a guest with a new disk.
func (g *Guests) runFirst(b *boot, machine api.GuestVM, ready func(store.AgentReport)) error {
	sys, userDataErr := provisionSystem(b.ctx, machine)
	if sys == nil {
		return userDataErr // Ignition fails before the network is up
	}

	profiles, warnings, err := profilesOf(machine, sys)
	if err != nil {
		return err
	}

	network, err := g.configureInterfaces(machine, profiles, warnings)
	if err != nil {
		return err
	}

	ready(store.AgentReport{FQDN: sys.hostName(machine), Interfaces: network.reported})
	if userDataErr != nil {
		return userDataErr
	}

	s, err := newService(sys, machine, profiles)
	if err != nil {
		return err
	}

	if s != nil {
		return g.followConfiguration(b, machine, s)
	}

	n, err := g.runCommands(sys, machine, network)
	if err != nil || n == nil {
		return err // without kubeadm, the VM has no node
	}

	m := &member{disk: machine.RootDisk, node: n, profiles: profiles, boot: b, unlasting: sys.findDisabledUnit(n)}
	if n.init {
		return g.initCluster(machine.ID, m)
	}

	return g.joinCluster(machine.ID, m)
}

// runCommands runs the commands of the user data. It returns the node that results, or nil.
func (g *Guests) runCommands(sys *system, machine api.GuestVM, network *network) (*node, error) {
	call, err := sys.runCommands(machine.ID)
	for _, warning := range sys.warnings {
		g.log.Info("A guest warns", "vm", machine.Name, "warning", warning)
	}

	if err != nil || call == nil {
		return nil, err
	}

	n, err := newNode(sys, call, sys.hostName(machine), machine.KubernetesVersion)
	if err != nil {
		return nil, err
	}

	if err := sys.runPreflightChecks(n, machine); err != nil {
		return nil, err
	}

	return n, n.chooseAddresses(network.nodeAddresses)
}

func (g *Guests) configureInterfaces(machine api.GuestVM, profiles []profile, warnings []string) (*network, error) {
	for _, warning := range warnings {
		g.log.Info("A guest warns", "vm", machine.Name, "warning", warning)
	}

	return configureNetwork(machine.Interfaces, profiles, warnings)
}

// initCluster simulates kubeadm init.
func (g *Guests) initCluster(vmID string, m *member) error {
	address, err := listenAddress(m.node.endpoint)
	if err != nil {
		return fmt.Errorf("kubeadm: %w", err)
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	if m.boot.isOff() {
		return m.boot.ctx.Err()
	}

	c, err := g.newCluster(m.node, address)
	if err != nil {
		return fmt.Errorf("kubeadm: %w", err)
	}

	if err := c.addControlPlane(g.ctx, m.node); err != nil {
		c.close()
		return err
	}

	g.clusters[address] = c
	m.cluster, g.members[vmID] = c, m
	g.log.Info("Initialised workload cluster", "endpoint", m.node.endpoint, "node", m.node.name)

	return nil
}

// joinCluster simulates kubeadm join, with its timeout.
func (g *Guests) joinCluster(vmID string, m *member) error {
	ctx, cancel := context.WithTimeout(m.boot.ctx, g.joinTimeout)
	defer cancel()
	err := retryUntilSuccess(ctx, func() error { return g.tryJoin(vmID, m) })
	if err != nil {
		return fmt.Errorf("kubeadm: failed to join: %w", err)
	}

	g.log.Info("Joined workload cluster", "endpoint", m.node.endpoint, "node", m.node.name)

	return nil
}

// retryUntilSuccess repeats try until try succeeds or fails permanently, or until ctx ends. It returns the last error.
// Like kubeadm, it retries after conflicts with other writers.
func retryUntilSuccess(ctx context.Context, try func() error) error {
	ticker := time.NewTicker(retryEvery)
	defer ticker.Stop()

	for {
		err := try()
		if !errors.Is(err, errNotYet) && !apierrors.IsConflict(err) {
			return err
		}

		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}

func (g *Guests) tryJoin(vmID string, m *member) error {
	address, err := listenAddress(m.node.endpoint)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotYet, err)
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	if m.boot.isOff() {
		return m.boot.ctx.Err()
	}

	c := g.clusters[address]
	if c == nil || len(c.apiServers) == 0 {
		return fmt.Errorf("%w: nothing serves the control plane endpoint %s", errNotYet, m.node.endpoint)
	}

	if err := c.admitNode(g.ctx, m.node); err != nil {
		return err
	}

	if err := c.startNode(g.ctx, m.node); err != nil {
		return err
	}

	m.cluster, g.members[vmID] = c, m

	return nil
}

// rejoinCluster brings a restarted VM back as the same node. The kubelet starts static pods by itself, and registers as
// soon as an API server responds.
func (g *Guests) rejoinCluster(b *boot, m *member, addresses []string) error {
	return retryUntilSuccess(b.ctx, func() error { return g.tryRejoin(b, m, addresses) })
}

func (g *Guests) tryRejoin(b *boot, m *member, addresses []string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.isOff() {
		return b.ctx.Err()
	}

	if m.cluster.closed || !m.node.controlPlane && len(m.cluster.apiServers) == 0 {
		return fmt.Errorf("%w: nothing serves the control plane endpoint %s", errNotYet, m.node.endpoint)
	}

	if err := m.node.chooseAddresses(addresses); err != nil {
		return err
	}

	m.boot = b

	return m.cluster.startNode(g.ctx, m.node)
}

// markLost marks the node of an ended run as lost, and stops the node's API server. It ignores a node that already runs
// again. The caller must hold g.mu.
func (g *Guests) markLost(m *member, b *boot) {
	if m == nil || b == nil || m.boot != b {
		return
	}

	m.boot = nil
	if m.cluster.closed {
		return
	}

	if m.node.controlPlane {
		m.cluster.removeAPIServer(m.node)
		g.electLeader(m)
	}

	err := m.cluster.setReady(g.ctx, m.node.name, corev1.ConditionUnknown, "NodeStatusUnknown")
	if client.IgnoreNotFound(err) != nil {
		g.log.Error(err, "Failed to mark a halted node", "node", m.node.name)
	}
}

// electLeader makes a member other than the lost one the leader of etcd. The caller must hold g.mu.
func (g *Guests) electLeader(lost *member) {
	if err := lost.cluster.electLeader(g.ctx, "etcd-"+lost.node.name); err != nil {
		g.log.Error(err, "Failed to elect a leader of etcd")
	}
}

// Shutdown returns false, because these guests are off as soon as the engine says so.
func (g *Guests) Shutdown(string) bool { return false }

// HandleHalt marks the node as lost after its power went off. The call has no effect if Boot was called again before.
func (g *Guests) HandleHalt(vmID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.members[vmID]; m != nil && m.boot != nil && m.boot.isOff() {
		g.markLost(m, m.boot)
	}
}

// SetDisks does nothing, because the guest does not use its disks.
func (g *Guests) SetDisks(string, []api.GuestDisk) {}

// HandleDiskRemoval does nothing, for the same reason.
func (g *Guests) HandleDiskRemoval(string) {}

// HandleRemoval ends the guest. It deletes everything that the VM takes with it: its static pods, and the cluster if
// this was its last control plane node. As with a real VM, the Node object stays for Cluster API to delete. Replacing a
// VM's root disk has the same effect.
func (g *Guests) HandleRemoval(vmID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.boots[vmID]; b != nil {
		b.cancel()
	}

	delete(g.services, vmID)

	if m := g.members[vmID]; m != nil {
		g.dropMember(vmID, m)
	}
}

// dropMember deletes everything that disappears with the disk of a node. The caller must hold g.mu.
func (g *Guests) dropMember(vmID string, m *member) {
	g.markLost(m, m.boot)
	delete(g.members, vmID)
	if !m.node.controlPlane || m.cluster.closed {
		return
	}

	g.electLeader(m) // again, because at the halt there may have been no successor

	for _, component := range staticPods {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: component + "-" + m.node.name},
		}
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
