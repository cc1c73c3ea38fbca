// Package jumphost handles the requests of the command "host" on a jump host. It lists the machines of the cluster,
// reboots them and opens their consoles. For this, it logs in to the engine as the user in the OLVMSupportServices. The
// jump host has neither the password of this user nor access to machines of other clusters.
package jumphost

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// RefusedError contains the reason why a request was refused, for the user who made it.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

func newRefusedError(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}

// Hosts answers the requests of jump hosts.
type Hosts struct {
	Client   client.Reader
	Engines  *enginepool.Registry
	Recorder events.EventRecorder
}

// List returns a table of the machines in the cluster of a jump host.
func (h *Hosts) List(ctx context.Context, jumpHost client.ObjectKey) (string, error) {
	machines, _, err := h.listNodes(ctx, jumpHost)
	if err != nil {
		return "", err
	}

	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAME\tPOWER\tHOST\tADDRESS")

	for i := range machines {
		m := &machines[i]
		var power, host, address string
		if m.Status.OLVM != nil {
			power, host = m.Status.OLVM.VirtualMachine.Status, m.Status.OLVM.VirtualMachine.HostName
			address = m.Status.OLVM.IPAddress
		}

		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", getName(m), power, host, address)
	}

	_ = table.Flush() // writes only to memory

	return out.String(), nil
}

// Reboot asks the guest of a machine to reboot.
func (h *Hosts) Reboot(ctx context.Context, jumpHost client.ObjectKey, name string) (string, error) {
	m, session, id, err := h.findMachine(ctx, jumpHost, name)
	if err != nil {
		return "", err
	}

	if err := session.RebootVM(ctx, id); err != nil {
		return "", wrapEngineError(err)
	}

	h.Recorder.Eventf(m, nil, corev1.EventTypeNormal, "Rebooted", "Reboot",
		"Jump host %s has asked the guest to reboot", jumpHost.Name)

	return name + " reboots\n", nil
}

// Console returns the connection file of virt-viewer for a machine.
func (h *Hosts) Console(ctx context.Context, jumpHost client.ObjectKey, name string) (string, error) {
	m, session, id, err := h.findMachine(ctx, jumpHost, name)
	if err != nil {
		return "", err
	}

	file, err := session.FetchViewerFile(ctx, id)
	if err != nil {
		return "", wrapEngineError(err)
	}

	h.Recorder.Eventf(m, nil, corev1.EventTypeNormal, "ConsoleOpened", "Open", "Jump host %s has opened the console",
		jumpHost.Name)

	return file, nil
}

// wrapEngineError returns an error that shows the engine's message to the user who made the request. Such a message
// contains no secrets of the manager.
func wrapEngineError(err error) error { return newRefusedError("%v", err) }

// listNodes returns the nodes in the cluster of a jump host by name, and the Cluster.
func (h *Hosts) listNodes(
	ctx context.Context, jumpHost client.ObjectKey,
) ([]infrav1.OLVMMachine, client.ObjectKey, error) {
	none := client.ObjectKey{}
	self := &infrav1.OLVMMachine{}
	if err := h.Client.Get(ctx, jumpHost, self); apierrors.IsNotFound(err) {
		return nil, none, newRefusedError("there is no jump host %s any more", jumpHost.Name)
	} else if err != nil {
		return nil, none, fmt.Errorf("failed to get OLVMMachine %s: %w", jumpHost, err)
	}

	cluster := self.Labels[clusterv1.ClusterNameLabel]
	if support.NewStandInMachine(self) == nil || support.GetServiceName(self) != support.JumpHostName || cluster == "" {
		return nil, none, newRefusedError("%s is no jump host", jumpHost.Name)
	}

	var list infrav1.OLVMMachineList
	err := h.Client.List(ctx, &list, client.InNamespace(self.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: cluster,
	})
	if err != nil {
		return nil, none, fmt.Errorf("failed to list the machines of Cluster %s: %w", cluster, err)
	}

	nodes := slices.DeleteFunc(
		list.Items, func(m infrav1.OLVMMachine) bool { return support.NewStandInMachine(&m) != nil },
	)
	slices.SortFunc(nodes, func(a, b infrav1.OLVMMachine) int { return strings.Compare(getName(&a), getName(&b)) })

	return nodes, client.ObjectKey{Namespace: self.Namespace, Name: cluster}, nil
}

// findInfrastructure returns the OLVMCluster of a Cluster. It also returns the name of the Secret with the engine's
// user for the jump host.
func (h *Hosts) findInfrastructure(ctx context.Context, key client.ObjectKey) (*infrav1.OLVMCluster, string, error) {
	services, err := support.FindServices(ctx, h.Client, key)
	if err != nil {
		return nil, "", err
	}

	if services == nil || services.Spec.JumpHost == nil || services.Spec.JumpHost.EngineCredentialsSecretName == "" {
		return nil, "", newRefusedError("no user of the engine is given for it: " +
			"set jumpHost.engineCredentialsSecretName of the " +
			support.Kind)
	}

	cluster := &clusterv1.Cluster{}
	if err := h.Client.Get(ctx, key, cluster); err != nil {
		return nil, "", fmt.Errorf("failed to get Cluster %s: %w", key, err)
	}

	infra := &infrav1.OLVMCluster{}
	name := client.ObjectKey{Namespace: key.Namespace, Name: cluster.Spec.InfrastructureRef.Name}
	if err := h.Client.Get(ctx, name, infra); err != nil {
		return nil, "", fmt.Errorf("failed to get OLVMCluster %s: %w", name, err)
	}

	return infra, services.Spec.JumpHost.EngineCredentialsSecretName, nil
}

// getName returns the name of a machine in the engine, which is the name of its Machine.
func getName(m *infrav1.OLVMMachine) string {
	if m.Status.OLVM != nil && m.Status.OLVM.VirtualMachine.VMName != "" {
		return m.Status.OLVM.VirtualMachine.VMName
	}

	return m.Name
}

// findMachine returns a machine of the cluster, its VM, and a session with its engine as the user of the jump host. The
// VM must have the machine's mark.
func (h *Hosts) findMachine(
	ctx context.Context, jumpHost client.ObjectKey, name string,
) (*infrav1.OLVMMachine, *engine.Client, engine.ID, error) {
	machines, cluster, err := h.listNodes(ctx, jumpHost)
	if err != nil {
		return nil, nil, "", err
	}

	at := slices.IndexFunc(machines, func(m infrav1.OLVMMachine) bool { return getName(&m) == name })
	if at < 0 {
		return nil, nil, "", newRefusedError("the cluster has no machine %q; see: host list", name)
	}

	m := &machines[at]
	id := bootstrap.ParseProviderID(m.Spec.ProviderID)
	if id == "" {
		return nil, nil, "", newRefusedError("the VM of %s is not made yet", name)
	}

	infra, user, err := h.findInfrastructure(ctx, cluster)
	if err != nil {
		return nil, nil, "", err
	}

	session, err := h.Engines.OpenSessionAs(ctx, connection.ClusterEngine(infra), user)
	if err != nil {
		return nil, nil, "", wrapEngineError(err)
	}

	vm, err := session.FetchVM(ctx, engine.ID(id))
	if err != nil {
		return nil, nil, "", wrapEngineError(err)
	}

	if !ownermark.NewOwner(m).IsNamedIn(vm.CommentText()) {
		ctrl.LoggerFrom(ctx).Info("A jump host asks for a VM that is not marked as its machine's", "vm", id)
		return nil, nil, "", newRefusedError("the VM of %s is not marked as this machine's in the engine", name)
	}

	return m, session, vm.ID, nil
}
