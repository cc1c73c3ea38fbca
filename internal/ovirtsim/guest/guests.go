package guest

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inmemoryruntime "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
)

// Guests runs the insides of all VMs of one engine.
type Guests struct {
	log     logr.Logger
	manager inmemoryruntime.Manager
	ctx     context.Context
	cancel  context.CancelFunc
	// backends answer requests unrelated to nodes, by the address of the cluster. The key "" is the backend of all
	// other clusters.
	backends map[string]http.Handler
	// joinTimeout is the timeout of kubeadm join.
	joinTimeout time.Duration

	mu       sync.Mutex
	clusters map[string]*workloadCluster // by the address of the cluster's listener
	members  map[string]*member          // by VM ID
	boots    map[string]*boot            // by VM ID; contains only running VMs
	services map[string]*service         // by VM ID
	founded  int                         // number of clusters created so far
}

// boot is one run of a VM, from power-on to power-off.
type boot struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// isOff reports whether the power is off.
func (b *boot) isOff() bool { return b.ctx.Err() != nil }

// member is a VM with a node. It represents the contents of the VM's disk.
type member struct {
	// disk is the UUID of the disk.
	disk    string
	node    *node
	cluster *workloadCluster
	// profiles are the network profiles from the first boot. Later boots use them, because cloud-init and Ignition do
	// not run again.
	profiles []profile
	// unlasting is the name of a unit that does not start at later boots, or "".
	unlasting string
	// boot is the run in which the kubelet runs; nil while the kubelet is down.
	boot *boot
}

var _ api.Guest = &Guests{}

// New returns the guests of an engine.
func New(log logr.Logger) (*Guests, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}

	ctx, cancel := context.WithCancel(context.Background())
	g := &Guests{
		log:         log,
		manager:     inmemoryruntime.NewManager(scheme),
		ctx:         ctx,
		cancel:      cancel,
		backends:    map[string]http.Handler{},
		joinTimeout: defaultJoinTimeout,
		clusters:    map[string]*workloadCluster{}, members: map[string]*member{}, boots: map[string]*boot{},
		services: map[string]*service{},
	}
	if err := g.manager.Start(ctx); err != nil {
		cancel()
		return nil, fmt.Errorf("failed to start the in-memory runtime: %w", err)
	}

	return g, nil
}

// Node returns the Kubernetes node on the VM, and whether there is one.
func (g *Guests) Node(vmID string) (api.GuestNode, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[vmID]
	if m == nil {
		return api.GuestNode{}, false
	}

	out := api.GuestNode{
		Name:         m.node.name,
		Endpoint:     m.node.endpoint,
		ControlPlane: m.node.controlPlane,
		Ready:        string(corev1.ConditionUnknown),
	}
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

// SetNodeReady changes the Ready condition of the VM's Node. The condition stays until the next change or a restart of
// the VM, because an in-memory kubelet does not report by itself.
func (g *Guests) SetNodeReady(vmID, status, reason string) error {
	switch corev1.ConditionStatus(status) {
	case corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown:
	default:
		return fmt.Errorf("the status of a condition is True, False or Unknown, not %q", status)
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.members[vmID]
	if m == nil {
		return fmt.Errorf("VM %s is not a node", vmID)
	}

	if m.boot == nil {
		return fmt.Errorf("VM %s does not run, so its kubelet reports nothing", vmID)
	}

	return m.cluster.setReady(g.ctx, m.node.name, corev1.ConditionStatus(status), reason)
}

// Close powers off every VM and stops every workload cluster.
func (g *Guests) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cancel()

	for address, c := range g.clusters {
		c.close()
		delete(g.clusters, address)
	}
}
