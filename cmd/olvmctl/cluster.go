package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
)

// described is an object in the tree of a cluster.
type described struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Summary for people.
	Summary string `json:"summary"`
	// Problem is why it is not ready; empty where it is.
	Problem string `json:"problem,omitempty"`
	// Machine is what there is to say of a machine.
	Machine  *describedMachine `json:"machine,omitempty"`
	Children []described       `json:"children,omitempty"`
	// waiting is what an owner of machines is still to get; empty for nothing.
	waiting string
	// version of Kubernetes that an owner of machines is to have.
	version string
}

type describedMachine struct {
	Phase     string                   `json:"phase"`
	Version   string                   `json:"version,omitempty"`
	Node      string                   `json:"node,omitempty"`
	VMID      string                   `json:"vmID,omitempty"`
	VMStatus  string                   `json:"vmStatus,omitempty"`
	Addresses []string                 `json:"addresses,omitempty"`
	Terraform *infrav1.TerraformStatus `json:"terraform,omitempty"`
}

func newDescribeCommand(s streams) *cobra.Command {
	var m management
	var output string
	command := &cobra.Command{
		Use:   "describe CLUSTER",
		Short: "Show a cluster with its machines, their VMs and Terraform runs",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := checkOutput(output, "table", "json", "yaml"); err != nil {
				return err
			}

			if err := m.connect(); err != nil {
				return err
			}

			tree, err := m.describe(command.Context(), args[0])
			if err != nil {
				return err
			}

			return printTree(s.out, output, tree)
		},
	}
	m.addFlags(command)
	command.Flags().StringVarP(&output, "output", "o", "table", "output: table (a tree), json or yaml")

	return command
}

// problem of an object by its condition; empty where it is true.
func problem(object conditions.Getter, condition string) string {
	found := conditions.Get(object, condition)
	switch {
	case found == nil:
		return condition + " is not known yet"
	case found.Status == metav1.ConditionTrue:
		return ""
	}

	return strings.TrimSuffix(fmt.Sprintf("%s: %s", found.Reason, found.Message), ": ")
}

// describe collects the tree of a cluster.
func (m *management) describe(ctx context.Context, name string) (*described, error) {
	parts, err := m.partsOf(ctx, name)
	if err != nil {
		return nil, err
	}

	root := &described{
		Kind:    "Cluster",
		Name:    name,
		Summary: string(parts.cluster.Status.GetTypedPhase()),
		Problem: problem(parts.cluster, clusterv1.ClusterAvailableCondition),
	}
	if infra := &parts.olvmCluster; infra.Name != "" {
		root.Children = append(root.Children, described{
			Kind:    "OLVMCluster",
			Name:    infra.Name,
			Summary: infra.Spec.OLVMOvirtAPIServer.ServerURL,
			Problem: problem(infra, infrav1.ReadyCondition),
		})
	}

	for i := range parts.controlPlanes.Items {
		root.Children = append(root.Children, parts.controlPlane(&parts.controlPlanes.Items[i]))
	}

	for i := range parts.deployments.Items {
		root.Children = append(root.Children, parts.deployment(&parts.deployments.Items[i]))
	}

	root.Children = append(root.Children, parts.take(func(*clusterv1.Machine) bool { return true })...)

	return root, nil
}

// clusterParts are the objects of a cluster.
type clusterParts struct {
	cluster *clusterv1.Cluster
	// olvmCluster has no name where there is none.
	olvmCluster   infrav1.OLVMCluster
	controlPlanes controlplanev1.KubeadmControlPlaneList
	deployments   clusterv1.MachineDeploymentList
	machines      clusterv1.MachineList
	// olvmMachines by their names.
	olvmMachines map[string]*infrav1.OLVMMachine
	// taken are the names of the machines that are in the tree already.
	taken map[string]bool
}

// partsOf reads the objects of a cluster.
func (m *management) partsOf(ctx context.Context, name string) (*clusterParts, error) {
	cluster, err := m.cluster(ctx, name)
	if err != nil {
		return nil, err
	}

	out := &clusterParts{cluster: cluster, olvmMachines: map[string]*infrav1.OLVMMachine{}, taken: map[string]bool{}}
	key := client.ObjectKey{Namespace: m.namespace, Name: cluster.Spec.InfrastructureRef.Name}
	if err := m.Get(ctx, key, &out.olvmCluster); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to get the OLVMCluster: %w", err)
	}

	var olvmMachines infrav1.OLVMMachineList
	lists := []client.ObjectList{&out.controlPlanes, &out.deployments, &out.machines, &olvmMachines}
	of := []client.ListOption{client.InNamespace(m.namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name}}

	for _, list := range lists {
		if err := m.List(ctx, list, of...); err != nil {
			return nil, fmt.Errorf("failed to list what the cluster has: %w", err)
		}
	}

	for i := range olvmMachines.Items {
		out.olvmMachines[olvmMachines.Items[i].Name] = &olvmMachines.Items[i]
	}

	return out, nil
}

// take describes the machines that belong to an owner, and that no owner before has taken.
func (c *clusterParts) take(belongs func(*clusterv1.Machine) bool) []described {
	var out []described

	for i := range c.machines.Items {
		machine := &c.machines.Items[i]
		if c.taken[machine.Name] || !belongs(machine) {
			continue
		}

		c.taken[machine.Name] = true
		out = append(out, describeMachine(machine, c.olvmMachines[machine.Spec.InfrastructureRef.Name]))
	}

	return out
}

func (c *clusterParts) controlPlane(kcp *controlplanev1.KubeadmControlPlane) described {
	count := replicas{
		wanted:   kcp.Spec.Replicas,
		all:      kcp.Status.Replicas,
		ready:    kcp.Status.ReadyReplicas,
		upToDate: kcp.Status.UpToDateReplicas,
		seen:     kcp.Status.ObservedGeneration >= kcp.Generation,
	}

	return described{
		Kind: "KubeadmControlPlane",
		Name: kcp.Name,
		Summary: fmt.Sprintf("%d of %d ready, %s", ptr.Deref(kcp.Status.ReadyReplicas, 0),
			ptr.Deref(kcp.Spec.Replicas, 1), kcp.Spec.Version),
		version: kcp.Spec.Version,
		Problem: problem(kcp, controlplanev1.KubeadmControlPlaneAvailableCondition),
		waiting: count.missing("KubeadmControlPlane "+kcp.Name, kcp),
		Children: c.take(func(machine *clusterv1.Machine) bool {
			_, control := machine.Labels[clusterv1.MachineControlPlaneLabel]
			return control
		}),
	}
}

func (c *clusterParts) deployment(md *clusterv1.MachineDeployment) described {
	version := md.Spec.Template.Spec.Version
	count := replicas{
		wanted:   md.Spec.Replicas,
		all:      md.Status.Replicas,
		ready:    md.Status.ReadyReplicas,
		upToDate: md.Status.UpToDateReplicas,
		seen:     md.Status.ObservedGeneration >= md.Generation,
	}

	return described{
		Kind: "MachineDeployment",
		Name: md.Name,
		Summary: fmt.Sprintf("%d of %d ready, %s", ptr.Deref(md.Status.ReadyReplicas, 0),
			ptr.Deref(md.Spec.Replicas, 1), version),
		version: version,
		Problem: problem(md, clusterv1.MachineDeploymentAvailableCondition),
		waiting: count.missing("MachineDeployment "+md.Name, md),
		Children: c.take(func(machine *clusterv1.Machine) bool {
			return machine.Labels[clusterv1.MachineDeploymentNameLabel] == md.Name
		}),
	}
}

// replicas of an owner of machines: how many it is to have, has, has ready and has as they are to be; seen reports that
// it has looked at what it is to have.
type replicas struct {
	wanted, all, ready, upToDate *int32
	seen                         bool
}

// missing is what an owner of machines is still to get, and what its machines say of that; empty for nothing.
func (r replicas) missing(who string, owner conditions.Getter) string {
	wanted := ptr.Deref(r.wanted, 1)
	ready, upToDate, all := ptr.Deref(r.ready, 0), ptr.Deref(r.upToDate, 0), ptr.Deref(r.all, 0)
	out, condition := "", clusterv1.MachinesUpToDateCondition

	switch {
	case !r.seen:
		out = who + " was just changed"
	case upToDate < wanted:
		out = fmt.Sprintf("%s has %d of %d machines up to date", who, upToDate, wanted)
	case ready < wanted:
		out = fmt.Sprintf("%s has %d of %d machines ready", who, ready, wanted)
		condition = clusterv1.MachinesReadyCondition
	case all > wanted:
		return fmt.Sprintf("%s has %d machines, %d of which are to go", who, all, all-wanted)
	default:
		return ""
	}

	found := conditions.Get(owner, condition)
	if found != nil && found.Status == metav1.ConditionFalse && found.Message != "" {
		out += ": " + strings.Join(strings.Fields(found.Message), " ")
	}

	return out
}

// trouble is what to tell of a cluster that is not there yet: of the parts that others wait for, the first that is not
// ready.
func (d *described) trouble() string {
	_, machine := d.machines()
	var others []string

	for _, child := range d.Children {
		if child.Problem != "" {
			others = append(others, fmt.Sprintf("%s %s: %s", child.Kind, child.Name, firstLine(child.Problem)))
		}
	}

	if len(others) > 0 && d.Children[0].Kind == "OLVMCluster" && d.Children[0].Problem != "" {
		return others[0]
	}

	switch {
	case machine != "":
		return machine
	case len(others) > 0:
		return others[0]
	}

	return d.Kind + " " + d.Name + ": " + firstLine(d.Problem)
}

// machines of a cluster: how many there are, and what is wrong with the first that is not ready.
func (d *described) machines() (count int, trouble string) {
	for _, owner := range d.Children {
		for _, machine := range owner.Children {
			count++
			if machine.Problem != "" && trouble == "" {
				trouble = fmt.Sprintf("Machine %s: %s", machine.Name, firstLine(machine.Problem))
			}
		}
	}

	return count, trouble
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func describeMachine(machine *clusterv1.Machine, infra *infrav1.OLVMMachine) described {
	out := described{
		Kind:    "Machine",
		Name:    machine.Name,
		Problem: problem(machine, clusterv1.MachineReadyCondition),
		Machine: &describedMachine{
			Phase: machine.Status.Phase, Version: machine.Spec.Version, Node: machine.Status.NodeRef.Name,
		},
	}
	d := out.Machine
	if infra != nil {
		d.VMID = strings.TrimPrefix(infra.Spec.ProviderID, bootstrap.ProviderIDPrefix)
		d.Terraform = infra.Status.Terraform
		if infra.Status.OLVM != nil {
			d.VMStatus = infra.Status.OLVM.VirtualMachine.Status
		}

		for _, address := range infra.Status.Addresses {
			if address.Type == clusterv1.MachineInternalIP {
				d.Addresses = append(d.Addresses, address.Address)
			}
		}
	}

	words := []string{d.Phase}
	if d.VMID != "" {
		words = append(words, "VM "+d.VMID+" "+d.VMStatus)
	}

	if len(d.Addresses) > 0 {
		words = append(words, strings.Join(d.Addresses, " "))
	}

	if t := d.Terraform; t != nil && t.LastRun != nil {
		run := t.LastRun
		words = append(
			words,
			fmt.Sprintf(
				"%d runs, the last %s %s in %.0f s (+%d ~%d -%d)",
				t.Runs,
				run.Operation,
				strings.ToLower(run.Result),
				run.CompletionTime.Sub(run.StartTime.Time).Seconds(),
				run.Added,
				run.Changed,
				run.Destroyed,
			),
		)
	}

	out.Summary = strings.Join(words, ", ")

	return out
}

func printTree(out io.Writer, output string, tree *described) error {
	if output != "table" {
		return encode(out, output, tree)
	}

	var text strings.Builder
	tree.print(&text, "", "")
	_, err := io.WriteString(out, text.String())

	return err
}

// print writes an object, and what is below it; rest is what goes before its later lines.
func (d *described) print(out *strings.Builder, first, rest string) {
	fmt.Fprintf(out, "%s%s/%s  %s\n", first, d.Kind, d.Name, d.Summary)

	for _, line := range strings.Split(d.Problem, "\n") {
		if line != "" {
			below := "  "
			if len(d.Children) > 0 {
				below = "│ "
			}

			fmt.Fprintf(out, "%s%s  ! %s\n", rest, below, line)
		}
	}

	for i := range d.Children {
		if i == len(d.Children)-1 {
			d.Children[i].print(out, rest+"└─", rest+"  ")
		} else {
			d.Children[i].print(out, rest+"├─", rest+"│ ")
		}
	}
}

func newGetCommand(s streams) *cobra.Command {
	command := &cobra.Command{Use: "get", Short: "Get something of a cluster"}
	var m management
	get := &cobra.Command{
		Use:   "kubeconfig CLUSTER",
		Short: "Print the kubeconfig of a cluster",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := m.connect(); err != nil {
				return err
			}

			if _, err := m.cluster(command.Context(), args[0]); err != nil {
				return err
			}

			content, err := kubeconfig.FromSecret(command.Context(), m.Client, client.ObjectKey{
				Namespace: m.namespace,
				Name:      args[0],
			})
			if apierrors.IsNotFound(err) {
				return fmt.Errorf(
					"cluster %s has no kubeconfig yet; its control plane is not initialised (olvmctl describe %s)",
					args[0],
					args[0],
				)
			} else if err != nil {
				return fmt.Errorf("failed to get the kubeconfig: %w", err)
			}

			_, err = s.out.Write(content)

			return err
		},
	}
	m.addFlags(get)
	command.AddCommand(get)

	return command
}

// scale are the flags of the scale command.
type scale struct {
	streams
	management
	controlPlane, workers int32
	// deployment is the MachineDeployment to scale; empty for the only one.
	deployment string
	// hasControlPlane and hasWorkers report which flags were given: 0 workers can be asked for.
	hasControlPlane, hasWorkers bool
}

func newScaleCommand(s streams) *cobra.Command {
	o := &scale{streams: s}
	command := &cobra.Command{
		Use:   "scale CLUSTER [--control-plane N] [--workers N]",
		Short: "Change the number of machines of a cluster",
		Long: `scale writes replicas of the KubeadmControlPlane and of a MachineDeployment, or of
the topology of a Cluster with a ClusterClass. It does not wait; see olvmctl describe.`,
		Example: "  olvmctl scale prod --workers 5",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			o.hasControlPlane = command.Flags().Changed("control-plane")
			o.hasWorkers = command.Flags().Changed("workers")

			return o.run(command.Context(), args[0])
		},
	}
	o.addFlags(command)
	command.Flags().Int32Var(&o.controlPlane, "control-plane", 0, "number of control plane machines, which is odd")
	command.Flags().Int32Var(&o.workers, "workers", 0, "number of workers")
	command.Flags().StringVar(&o.deployment, "machine-deployment", "", "whose workers; needed where there are several")

	return command
}

func (o *scale) check() error {
	switch {
	case !o.hasControlPlane && !o.hasWorkers:
		return errors.New("give --control-plane, --workers or both")
	case o.hasControlPlane && (o.controlPlane < 1 || o.controlPlane%2 == 0):
		return fmt.Errorf("--control-plane: %d is not an odd number; etcd needs one", o.controlPlane)
	case o.workers < 0:
		return fmt.Errorf("--workers: %d is less than 0", o.workers)
	}

	return nil
}

func (o *scale) run(ctx context.Context, name string) error {
	if err := o.check(); err != nil {
		return err
	}

	if err := o.connect(); err != nil {
		return err
	}

	cluster, err := o.cluster(ctx, name)
	if err != nil {
		return err
	}

	if cluster.Spec.Topology.IsDefined() {
		return o.scaleTopology(ctx, o.streams, cluster, o.controlPlane, o.hasWorkers, o.workers, o.deployment)
	}

	if o.hasControlPlane {
		err := o.scaleTo(ctx, o.streams, &controlplanev1.KubeadmControlPlane{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: cluster.Spec.ControlPlaneRef.Name},
		}, o.controlPlane)
		if err != nil {
			return err
		}
	}

	if !o.hasWorkers {
		return nil
	}

	return o.scaleWorkers(ctx, name)
}

func (o *scale) scaleWorkers(ctx context.Context, name string) error {
	md, err := o.management.deployment(ctx, name, o.deployment)
	if err != nil {
		return err
	}

	if _, scaled := md.Annotations[clusterv1.AutoscalerMaxSizeAnnotation]; scaled {
		return fmt.Errorf("the cluster autoscaler scales MachineDeployment %s; change its annotations %s and %s",
			md.Name, clusterv1.AutoscalerMinSizeAnnotation, clusterv1.AutoscalerMaxSizeAnnotation)
	}

	return o.scaleTo(ctx, o.streams, md, o.workers)
}

// deployment is the MachineDeployment of that name, or the only one.
func (m *management) deployment(ctx context.Context, cluster, name string) (*clusterv1.MachineDeployment, error) {
	var list clusterv1.MachineDeploymentList
	err := m.List(ctx, &list, client.InNamespace(m.namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: cluster,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to list the MachineDeployments: %w", err)
	}

	var names []string

	for i := range list.Items {
		if list.Items[i].Name == name || name == "" && len(list.Items) == 1 {
			return &list.Items[i], nil
		}

		names = append(names, list.Items[i].Name)
	}

	return nil, fmt.Errorf("say which with --machine-deployment: the cluster has %q", names)
}

// scaleTopology writes replicas of a Cluster with a ClusterClass; 0 control plane machines leave them.
func (m *management) scaleTopology(
	ctx context.Context,
	s streams,
	cluster *clusterv1.Cluster,
	controlPlane int32,
	scaleWorkers bool,
	workers int32,
	deployment string,
) error {
	before := cluster.DeepCopy()
	topology := &cluster.Spec.Topology
	if controlPlane > 0 {
		topology.ControlPlane.Replicas = &controlPlane
	}

	if scaleWorkers {
		var names []string
		found := false

		for i := range topology.Workers.MachineDeployments {
			md := &topology.Workers.MachineDeployments[i]
			if md.Name == deployment || deployment == "" && len(topology.Workers.MachineDeployments) == 1 {
				md.Replicas, found = &workers, true
			}

			names = append(names, md.Name)
		}

		if !found {
			return fmt.Errorf("say which with --machine-deployment: the topology has %q", names)
		}
	}

	if err := m.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("failed to scale the topology: %w", err)
	}

	_, err := fmt.Fprintf(s.out, "the topology of %s is changed\n", cluster.Name)

	return err
}

func (m *management) scaleTo(ctx context.Context, s streams, object client.Object, replicas int32) error {
	err := m.Patch(
		ctx,
		object,
		client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)),
	)
	if err != nil {
		return fmt.Errorf("failed to scale %s: %w", object.GetName(), err)
	}

	_, err = fmt.Fprintf(s.out, "%s is to have %d machines\n", object.GetName(), replicas)

	return err
}
