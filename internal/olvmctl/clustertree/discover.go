package clustertree

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// Discover reads the objects of a cluster, and returns them as a tree.
func Discover(ctx context.Context, reader client.Reader, cluster *clusterv1.Cluster) (*Node, error) {
	found, err := readParts(ctx, reader, cluster)
	if err != nil {
		return nil, err
	}

	root := &Node{
		Kind:    "Cluster",
		Name:    cluster.Name,
		Summary: string(found.cluster.Status.GetTypedPhase()),
		Problem: conditionProblem(found.cluster, clusterv1.ClusterAvailableCondition),
	}
	if infra := &found.olvmCluster; infra.Name != "" {
		cause, stuck := causeOf(infra)
		root.Children = append(root.Children, Node{
			Kind:    "OLVMCluster",
			Name:    infra.Name,
			Summary: engine.RedactURL(infra.Spec.OLVMOvirtAPIServer.ServerURL),
			Problem: cmp.Or(cause, conditionProblem(infra, infrav1.ReadyCondition)),
			Stuck:   stuck,
		})
	} else if ref := cluster.Spec.InfrastructureRef; ref.IsDefined() && ref.Kind != olvmCluster {
		root.Children = append(root.Children, Node{
			Kind:    ref.Kind,
			Name:    ref.Name,
			Problem: conditionProblem(cluster, clusterv1.ClusterInfrastructureReadyCondition),
		})
	}

	root.Children = append(root.Children, found.supportServiceNodes()...)

	for i := range found.controlPlanes.Items {
		root.Children = append(root.Children, found.controlPlaneNode(&found.controlPlanes.Items[i]))
	}

	for i := range found.deployments.Items {
		root.Children = append(root.Children, found.deploymentNode(&found.deployments.Items[i]))
	}

	root.Children = append(root.Children, found.takeMachines("", func(*clusterv1.Machine) bool { return true })...)

	return root, nil
}

// parts are the objects of a cluster.
type parts struct {
	cluster *clusterv1.Cluster
	// olvmCluster has no name if it does not exist.
	olvmCluster infrav1.OLVMCluster
	// services is nil if the cluster has no support services.
	services      *infrav1alpha1.OLVMSupportServices
	controlPlanes controlplanev1.KubeadmControlPlaneList
	deployments   clusterv1.MachineDeploymentList
	machines      clusterv1.MachineList
	olvmMachines  map[client.ObjectKey]*infrav1.OLVMMachine
	// taken has the names of the machines already in the tree.
	taken map[string]bool
}

// olvmCluster is the infrastructure kind of this provider. For other kinds, the tree uses only objects of Cluster API.
const olvmCluster = "OLVMCluster"

// readParts reads the objects of a cluster.
func readParts(ctx context.Context, reader client.Reader, cluster *clusterv1.Cluster) (*parts, error) {
	out := &parts{cluster: cluster, taken: map[string]bool{}}
	ours := !cluster.Spec.InfrastructureRef.IsDefined() || cluster.Spec.InfrastructureRef.Kind == olvmCluster
	if ours && cluster.Spec.InfrastructureRef.IsDefined() {
		key := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Spec.InfrastructureRef.Name}
		if err := reader.Get(ctx, key, &out.olvmCluster); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("failed to get the OLVMCluster: %w", err)
		}

		var err error
		if out.services, err = support.FindServices(ctx, reader, client.ObjectKeyFromObject(cluster)); err != nil {
			return nil, err
		}
	}

	lists := []client.ObjectList{&out.controlPlanes, &out.deployments, &out.machines}
	of := []client.ListOption{
		client.InNamespace(cluster.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name},
	}

	for _, list := range lists {
		err := reader.List(ctx, list, of...)
		if list == &out.controlPlanes && apimeta.IsNoMatchError(err) {
			continue // its control plane belongs to another provider
		}

		if err != nil {
			return nil, fmt.Errorf("failed to list the objects of the cluster: %w", err)
		}
	}

	if !ours {
		return out, nil
	}

	var err error
	out.olvmMachines, err = listOLVMMachines(ctx, reader, of...)

	return out, err
}

// listOLVMMachines returns the OLVMMachines selected by the options.
func listOLVMMachines(
	ctx context.Context, reader client.Reader, of ...client.ListOption,
) (map[client.ObjectKey]*infrav1.OLVMMachine, error) {
	var list infrav1.OLVMMachineList
	if err := reader.List(ctx, &list, of...); apimeta.IsNoMatchError(err) {
		return nil, err // callers check the type of the error
	} else if err != nil {
		return nil, fmt.Errorf("failed to list the OLVMMachines: %w", err)
	}

	out := map[client.ObjectKey]*infrav1.OLVMMachine{}
	for i := range list.Items {
		out[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
	}

	return out, nil
}

// takeMachines returns the nodes of an owner's machines that no earlier owner has taken. version is the version
// requested by the owner, or "" without an owner.
func (c *parts) takeMachines(version string, belongs func(*clusterv1.Machine) bool) []Node {
	var out []Node

	for i := range c.machines.Items {
		machine := &c.machines.Items[i]
		if c.taken[machine.Name] || !belongs(machine) {
			continue
		}

		c.taken[machine.Name] = true
		key := client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.InfrastructureRef.Name}
		out = append(out, describeMachine(machine, c.olvmMachines[key], cmp.Or(version, machine.Spec.Version)))
	}

	return out
}

// supportKind is the kind of support services in the tree.
const supportKind = "SupportService"

// supportServiceNodes returns the nodes of the support services. If only the OLVMSupportServices has a problem, it
// includes this object.
func (c *parts) supportServiceNodes() []Node {
	if c.services == nil {
		return nil
	}

	var out []Node
	explained := false

	for i := range c.services.Status.Services {
		node := c.supportServiceNode(&c.services.Status.Services[i])
		explained = explained || node.Problem != ""
		out = append(out, node)
	}

	if trouble := conditionProblem(c.services, infrav1.ReadyCondition); trouble != "" && !explained {
		out = append(out, Node{Kind: support.Kind, Name: c.services.Name, Problem: trouble})
	}

	return out
}

// supportServiceNode returns the node of a support service with its VMs.
func (c *parts) supportServiceNode(service *infrav1alpha1.SupportServiceStatus) Node {
	out := Node{
		Kind:    supportKind,
		Name:    service.Name,
		Summary: service.Address,
		Problem: conditionProblem(service, infrav1.ReadyCondition),
	}

	for _, name := range service.Machines {
		infra := c.olvmMachines[client.ObjectKey{Namespace: c.services.Namespace, Name: name}]
		if infra == nil || support.NewStandInMachine(infra) == nil {
			continue
		}

		vm := describeMachine(support.NewStandInMachine(infra), infra, "")
		vm.Kind = "OLVMMachine"
		vm.Problem = conditionProblem(infra, infrav1.ReadyCondition)
		out.Children = append(out.Children, vm)
	}

	return out
}

func (c *parts) controlPlaneNode(kcp *controlplanev1.KubeadmControlPlane) Node {
	count := replicas{
		wanted:   kcp.Spec.Replicas,
		all:      kcp.Status.Replicas,
		ready:    kcp.Status.ReadyReplicas,
		upToDate: kcp.Status.UpToDateReplicas,
		seen:     kcp.Status.ObservedGeneration >= kcp.Generation,
	}

	return Node{
		Kind:    "KubeadmControlPlane",
		Name:    kcp.Name,
		Summary: count.describeReady() + ", " + kcp.Spec.Version,
		Version: kcp.Spec.Version,
		Desired: ptr.Deref(kcp.Spec.Replicas, 1),
		Problem: conditionProblem(kcp, controlplanev1.KubeadmControlPlaneAvailableCondition),
		Waiting: count.describeMissing("KubeadmControlPlane "+kcp.Name, kcp),
		Children: c.takeMachines(kcp.Spec.Version, func(machine *clusterv1.Machine) bool {
			_, control := machine.Labels[clusterv1.MachineControlPlaneLabel]
			return control
		}),
	}
}

func (c *parts) deploymentNode(md *clusterv1.MachineDeployment) Node {
	version := md.Spec.Template.Spec.Version
	count := replicas{
		wanted:   md.Spec.Replicas,
		all:      md.Status.Replicas,
		ready:    md.Status.ReadyReplicas,
		upToDate: md.Status.UpToDateReplicas,
		seen:     md.Status.ObservedGeneration >= md.Generation,
	}

	return Node{
		Kind:    "MachineDeployment",
		Name:    md.Name,
		Summary: count.describeReady() + ", " + version,
		Version: version,
		Desired: ptr.Deref(md.Spec.Replicas, 1),
		Problem: conditionProblem(md, clusterv1.MachineDeploymentAvailableCondition),
		Waiting: count.describeMissing("MachineDeployment "+md.Name, md),
		Children: c.takeMachines(version, func(machine *clusterv1.Machine) bool {
			return machine.Labels[clusterv1.MachineDeploymentNameLabel] == md.Name
		}),
	}
}

// replicas are the numbers of machines in the status of an owner. seen reports whether this status is for the current
// generation.
type replicas struct {
	wanted, all, ready, upToDate *int32
	seen                         bool
}

// describeReady describes how many machines are ready and, during a rollout, how many are up to date.
func (r replicas) describeReady() string {
	wanted, upToDate, all := ptr.Deref(r.wanted, 1), ptr.Deref(r.upToDate, 0), ptr.Deref(r.all, 0)
	out := fmt.Sprintf("%d of %d ready", ptr.Deref(r.ready, 0), wanted)

	if all > upToDate {
		out += fmt.Sprintf(", %d of %d up to date", upToDate, all)
	}

	return out
}

// describeMissing describes the machines that an owner still lacks, with the message of its condition. It returns "" if
// no machine is missing.
func (r replicas) describeMissing(who string, owner conditions.Getter) string {
	wanted := ptr.Deref(r.wanted, 1)
	ready, upToDate, all := ptr.Deref(r.ready, 0), ptr.Deref(r.upToDate, 0), ptr.Deref(r.all, 0)
	out, condition := "", clusterv1.MachinesUpToDateCondition

	switch {
	case !r.seen:
		out = who + " has just changed"
	case upToDate < wanted:
		out = fmt.Sprintf("%s has %d of %d machines up to date", who, upToDate, wanted)
	case ready < wanted:
		out = fmt.Sprintf("%s has %d of %d machines ready", who, ready, wanted)
		condition = clusterv1.MachinesReadyCondition
	case all > wanted:
		return fmt.Sprintf("%s has %d machines, of which %d will be deleted", who, all, all-wanted)
	default:
		return ""
	}

	found := conditions.Get(owner, condition)
	if found != nil && found.Status == metav1.ConditionFalse && found.Message != "" {
		out += ": " + shortenMessage(found.Message)
	}

	return out
}

// describeMachine returns the node of a machine. version is the version requested by its owner.
func describeMachine(machine *clusterv1.Machine, infra *infrav1.OLVMMachine, version string) Node {
	trouble, stuck := machineTrouble(machine, infra, version)
	out := Node{
		Kind:    "Machine",
		Name:    machine.Name,
		Problem: trouble,
		Stuck:   stuck,
		Machine: &Machine{
			Phase: machine.Status.Phase, Version: machine.Spec.Version, Node: machine.Status.NodeRef.Name,
			Deleting: !machine.DeletionTimestamp.IsZero(),
		},
	}
	d, addresses := out.Machine, machine.Status.Addresses
	if infra != nil {
		d.VMID = strings.TrimPrefix(infra.Spec.ProviderID, bootstrap.ProviderIDPrefix)
		d.Terraform = infra.Status.Terraform
		d.Outdated = explainOutdated(infra)
		if infra.Status.OLVM != nil {
			d.VMStatus = infra.Status.OLVM.VirtualMachine.Status
			d.Host = infra.Status.OLVM.VirtualMachine.HostName
		}

		if isGone(infra) {
			d.VMStatus, d.Host = "gone", ""
		}

		if from := infra.Spec.FromInventory; from != nil {
			d.Inventory = from.InventoryName
		}

		addresses = infra.Status.Addresses
	}

	for _, address := range addresses {
		if address.Type == clusterv1.MachineInternalIP {
			d.Addresses = append(d.Addresses, address.Address)
		}
	}

	out.Summary = d.summaryText()

	return out
}

// isGone reports whether the engine no longer has the VM of a machine. The status then has old information about the
// VM.
func isGone(infra *infrav1.OLVMMachine) bool {
	return conditions.GetReason(infra, infrav1.VirtualMachineRunningCondition) == infrav1.VirtualMachineNotFoundReason
}

// summaryText returns a summary of the machine.
func (d *Machine) summaryText() string {
	var words []string
	if d.Phase != "" {
		words = append(words, d.Phase)
	}

	if d.VMID != "" {
		words = append(words, strings.TrimSpace("VM "+d.VMID+" "+d.VMStatus))
	}

	if d.Inventory != "" {
		words = append(words, "of inventory "+d.Inventory)
	}

	if len(d.Addresses) > 0 {
		words = append(words, strings.Join(d.Addresses, " "))
	}

	if d.Outdated != "" {
		words = append(words, "not up to date: "+shortenMessage(d.Outdated))
	}

	if t := d.Terraform; t != nil && t.LastRun != nil {
		run := t.LastRun
		words = append(
			words,
			fmt.Sprintf(
				"%s, last: %s %s in %.0f s (+%d ~%d -%d)", english.Plural(int(t.Runs), "run", ""), run.Operation,
				strings.ToLower(run.Result), run.CompletionTime.Sub(run.StartTime.Time).Seconds(), run.Added,
				run.Changed, run.Destroyed,
			),
		)
	}

	return strings.Join(words, ", ")
}
