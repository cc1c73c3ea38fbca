package dashboard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

const (
	// enginePause is the pause between requests to an engine. It is needed because engines do not announce changes.
	enginePause = 10 * time.Second
	// engineLimit bounds the wait for an answer of an engine.
	engineLimit = 30 * time.Second
)

// Engine is what an engine reports about the VMs of this provider.
type Engine struct {
	URL string `json:"url"`
	// Error explains a missing answer. The VMs are then from an earlier answer.
	Error string `json:"error,omitempty"`
	// Unasked explains why the page cannot ask the engine: the management cluster does not give the credentials.
	Unasked string `json:"unasked,omitempty"`
	// At is the time of the last answer.
	At time.Time `json:"at,omitzero"`
	// VMs are the VMs with an owner mark.
	VMs []VM `json:"vms"`
	// Others is the number of VMs without an owner mark.
	Others int `json:"others"`
}

// VM is a VM as the engine reports it.
type VM struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Host   string `json:"host,omitempty"`
	// Owner is the object in the owner mark.
	Owner Ref `json:"owner"`
	// Waits reports whether the VM has settings that apply from its next start.
	Waits bool `json:"waits,omitempty"`
	// Difference describes how the engine differs from the management cluster. It is empty if they agree.
	Difference string `json:"difference,omitempty"`
}

// engines asks the engines of all clusters.
type engines struct {
	of       *watcher
	sessions engine.Sessions

	mu    sync.Mutex
	known map[string]Engine // by URL
}

func newEngines(of *watcher) *engines { return &engines{of: of, known: map[string]Engine{}} }

// followAll asks all engines again and again until the context ends.
func (e *engines) followAll(ctx context.Context) {
	defer e.sessions.Close(context.WithoutCancel(ctx))

	for {
		e.askAll(ctx)

		select {
		case <-ctx.Done():
			return
		case <-time.After(enginePause):
		}
	}
}

// askAll asks all engines in parallel, and shows each answer when it arrives.
func (e *engines) askAll(ctx context.Context) {
	if e.of.isAway() {
		return // there is no source of credentials
	}

	var clusters infrav1.OLVMClusterList
	if err := e.of.reader.List(ctx, &clusters, client.InNamespace(e.of.Namespace)); err != nil {
		return // the state reports this error
	}

	byURL := map[string][]*infrav1.OLVMCluster{}

	for i := range clusters.Items {
		url := engine.RedactURL(clusters.Items[i].Spec.OLVMOvirtAPIServer.ServerURL)
		byURL[url] = append(byURL[url], &clusters.Items[i])
	}

	e.setExpected(byURL)

	var asking sync.WaitGroup
	for url, of := range byURL {
		asking.Go(func() {
			answer := e.askEngine(ctx, url, of)

			e.mu.Lock()
			e.known[url] = answer
			e.mu.Unlock()
			e.of.changed.WakeAll()
		})
	}

	asking.Wait()
}

// askEngine asks the engine of some clusters. It uses the first credentials it can read.
func (e *engines) askEngine(ctx context.Context, url string, clusters []*infrav1.OLVMCluster) Engine {
	var problem error
	var unread *readError

	for _, cluster := range clusters {
		session, err := e.openSession(ctx, cluster)
		if err != nil {
			problem = err
			continue
		}

		answer, err := e.fetchVMs(ctx, url, session)
		if err == nil {
			return answer
		}

		problem = err

		break // other credentials would wait just as long
	}

	answer := e.lastAnswer(url)
	answer.Error, answer.Unasked = "", ""

	if errors.As(problem, &unread) { // the engine was not asked
		answer.Unasked = problem.Error()
	} else {
		answer.Error = problem.Error()
	}

	return answer
}

// setExpected adds all engines before their first answer, and removes engines that no cluster uses any more.
func (e *engines) setExpected(byURL map[string][]*infrav1.OLVMCluster) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.known, func(url string, _ Engine) bool { return byURL[url] == nil })

	for url := range byURL {
		if _, ok := e.known[url]; !ok {
			e.known[url] = Engine{URL: url, VMs: []VM{}}
		}
	}
}

// lastAnswer returns an engine's last answer.
func (e *engines) lastAnswer(url string) Engine {
	e.mu.Lock()
	defer e.mu.Unlock()

	if known, ok := e.known[url]; ok {
		return known
	}

	return Engine{URL: url, VMs: []VM{}}
}

// readError reports that the management cluster does not give the credentials of an engine.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

// openSession returns a session with the credentials of a cluster. It reads the credentials each time, because they may
// change.
func (e *engines) openSession(ctx context.Context, cluster *infrav1.OLVMCluster) (*engine.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, engineLimit)
	defer cancel()

	objects, err := connection.ReadObjects(ctx, e.of.In, connection.ClusterEngine(cluster))
	if err != nil {
		return nil, &readError{err}
	}

	config, err := connection.BuildConfig(connection.ClusterEngine(cluster), objects)
	if err != nil {
		return nil, &readError{err}
	}

	return e.sessions.Get(config)
}

// fetchVMs fetches the VMs of an engine.
func (e *engines) fetchVMs(ctx context.Context, url string, session *engine.Client) (Engine, error) {
	ctx, cancel := context.WithTimeout(ctx, engineLimit)
	defer cancel()

	vms, err := session.ListVMs(ctx)
	if err != nil {
		return Engine{}, err
	}

	hosts, err := session.ListHostsWithin(ctx, enginePause)
	if err != nil {
		return Engine{}, err
	}

	out := Engine{URL: url, At: time.Now(), VMs: []VM{}}

	for i := range vms {
		if vm, ours := e.vmOf(ctx, &vms[i], hosts); ours {
			out.VMs = append(out.VMs, vm)
		} else {
			out.Others++
		}
	}

	slices.SortFunc(out.VMs, func(a, b VM) int { return strings.Compare(a.Name+a.ID, b.Name+b.ID) })

	return out, nil
}

// vmOf converts a VM for the page. It returns false if the VM has no owner mark.
func (e *engines) vmOf(ctx context.Context, vm *engine.VM, hosts []engine.Host) (VM, bool) {
	owner, ours := ownermark.ParseOwner(vm.CommentText())
	if !ours {
		return VM{}, false
	}

	out := VM{
		ID:     vm.ID.String(),
		Name:   vm.Name,
		Status: string(vm.Status),
		Owner:  Ref{Kind: "OLVMMachine", Namespace: owner.Namespace, Name: owner.Name},
		Waits:  vm.ChangesWait,
	}

	for i := range hosts {
		if hosts[i].ID == engine.RefID(vm.Host) {
			out.Host = hosts[i].Name
		}
	}

	if e.of.Namespace == "" || e.of.Namespace == owner.Namespace {
		out.Difference = e.describeDifference(ctx, owner, &out)
	}

	return out, true
}

// describeDifference describes how the engine differs from the management cluster, or returns "".
func (e *engines) describeDifference(ctx context.Context, owner ownermark.Owner, vm *VM) string {
	if _, unseen := e.of.unseen["OLVMMachines"]; unseen {
		return ""
	}

	var machine infrav1.OLVMMachine
	key := client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}

	err := e.of.reader.Get(ctx, key, &machine)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return "" // unknown
	case err != nil:
		return "OLVMMachine " + key.String() + " not found in this management cluster"
	case string(machine.UID) != owner.UID:
		return "its owner mark has the same name as the OLVMMachine, but another UID"
	}

	id := machineVM(&machine)
	if id != "" && id != vm.ID {
		return "OLVMMachine " + key.String() + " has VM " + id
	}

	if olvm := machine.Status.OLVM; olvm != nil && olvm.VirtualMachine.Status != "" &&
		olvm.VirtualMachine.Status != vm.Status {
		return "the management cluster reports " + olvm.VirtualMachine.Status
	}

	return ""
}

// machineVM returns the ID of a machine's VM, or "".
func machineVM(machine *infrav1.OLVMMachine) string {
	if machine.Status.OLVM == nil {
		return ""
	}

	return machine.Status.OLVM.VirtualMachine.VMID
}

// lastAnswers returns the last answers of the engines, by URL.
func (e *engines) lastAnswers() []Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := []Engine{}

	for _, known := range e.known {
		out = append(out, known)
	}

	slices.SortFunc(out, func(a, b Engine) int { return strings.Compare(a.URL, b.URL) })

	return out
}

// findVM returns a machine's VM as the engine reports it, or nil if no answer had it.
func (e *engines) findVM(machine *infrav1.OLVMMachine) *VM {
	id := machineVM(machine)

	for _, known := range e.lastAnswers() {
		for i := range known.VMs {
			if known.VMs[i].ID == id {
				return &known.VMs[i]
			}
		}
	}

	return nil
}
