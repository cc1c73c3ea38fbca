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
	// waiting says what an owner of machines lacks of what it is to have; empty where it lacks nothing.
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
			if err := known(output, "table", "json", "yaml"); err != nil {
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
	cluster, err := m.cluster(ctx, name)
	if err != nil {
		return nil, err
	}

	of := []client.ListOption{client.InNamespace(m.namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name}}
	var olvmCluster infrav1.OLVMCluster
	err = m.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: cluster.Spec.InfrastructureRef.Name}, &olvmCluster)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("failed to get the OLVMCluster: %w", err)
	}

	var controlPlanes controlplanev1.KubeadmControlPlaneList
	var deployments clusterv1.MachineDeploymentList
	var machines clusterv1.MachineList

	var olvmMachines infrav1.OLVMMachineList
	for _, list := range []client.ObjectList{&controlPlanes, &deployments, &machines, &olvmMachines} {
		if err := m.List(ctx, list, of...); err != nil {
			return nil, fmt.Errorf("failed to list what the cluster has: %w", err)
		}
	}

	infra := map[string]*infrav1.OLVMMachine{}
	for i := range olvmMachines.Items {
		infra[olvmMachines.Items[i].Name] = &olvmMachines.Items[i]
	}

	seen := map[string]bool{}
	made := func(belongs func(*clusterv1.Machine) bool) []described {
		var out []described

		for i := range machines.Items {
			if machine := &machines.Items[i]; !seen[machine.Name] && belongs(machine) {
				seen[machine.Name] = true
				out = append(out, describeMachine(machine, infra[machine.Spec.InfrastructureRef.Name]))
			}
		}

		return out
	}
	root := &described{
		Kind:    "Cluster",
		Name:    name,
		Summary: string(cluster.Status.GetTypedPhase()),
		Problem: problem(cluster, clusterv1.ClusterAvailableCondition),
	}
	if olvmCluster.Name != "" {
		root.Children = append(root.Children, described{
			Kind:    "OLVMCluster",
			Name:    olvmCluster.Name,
			Summary: olvmCluster.Spec.OLVMOvirtAPIServer.ServerURL,
			Problem: problem(&olvmCluster, infrav1.ReadyCondition),
		})
	}

	for i := range controlPlanes.Items {
		kcp := &controlPlanes.Items[i]
		root.Children = append(root.Children, described{
			Kind: "KubeadmControlPlane",
			Name: kcp.Name,
			Summary: fmt.Sprintf("%d of %d ready, %s", ptr.Deref(kcp.Status.ReadyReplicas, 0),
				ptr.Deref(kcp.Spec.Replicas, 1), kcp.Spec.Version),
			version: kcp.Spec.Version,
			Problem: problem(kcp, controlplanev1.KubeadmControlPlaneAvailableCondition),
			waiting: replicas{
				kcp.Spec.Replicas,
				kcp.Status.Replicas,
				kcp.Status.ReadyReplicas,
				kcp.Status.UpToDateReplicas,
				kcp.Status.ObservedGeneration >= kcp.Generation,
			}.lack(
				"KubeadmControlPlane "+kcp.Name,
				kcp,
			),
			Children: made(func(machine *clusterv1.Machine) bool {
				_, control := machine.Labels[clusterv1.MachineControlPlaneLabel]
				return control
			}),
		})
	}

	for i := range deployments.Items {
		md := &deployments.Items[i]
		root.Children = append(root.Children, described{
			Kind: "MachineDeployment",
			Name: md.Name,
			Summary: fmt.Sprintf("%d of %d ready, %s", ptr.Deref(md.Status.ReadyReplicas, 0),
				ptr.Deref(md.Spec.Replicas, 1), md.Spec.Template.Spec.Version),
			version: md.Spec.Template.Spec.Version,
			Problem: problem(md, clusterv1.MachineDeploymentAvailableCondition),
			waiting: replicas{
				md.Spec.Replicas,
				md.Status.Replicas,
				md.Status.ReadyReplicas,
				md.Status.UpToDateReplicas,
				md.Status.ObservedGeneration >= md.Generation,
			}.lack(
				"MachineDeployment "+md.Name,
				md,
			),
			Children: made(func(machine *clusterv1.Machine) bool {
				return machine.Labels[clusterv1.MachineDeploymentNameLabel] == md.Name
			}),
		})
	}

	root.Children = append(root.Children, made(func(*clusterv1.Machine) bool { return true })...)

	return root, nil
}

// replicas of an owner of machines: how many it is to have, has, has ready and has as they are to be; seen says that it
// has looked at what it is to have.
type replicas struct {
	wanted, all, ready, upToDate *int32
	seen                         bool
}

// lack says what is missing, and what its machines say of that; empty for nothing.
func (r replicas) lack(who string, owner conditions.Getter) string {
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

func newScaleCommand(s streams) *cobra.Command {
	var m management
	var controlPlane, workers int32
	var deployment string
	command := &cobra.Command{
		Use:   "scale CLUSTER [--control-plane N] [--workers N]",
		Short: "Change the number of machines of a cluster",
		Long: `scale writes replicas of the KubeadmControlPlane and of a MachineDeployment, or of
the topology of a Cluster with a ClusterClass. It does not wait; see olvmctl describe.`,
		Example: "  olvmctl scale prod --workers 5",
		Args:    cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			flags := command.Flags()
			if !flags.Changed("control-plane") && !flags.Changed("workers") {
				return errors.New("give --control-plane, --workers or both")
			}

			if flags.Changed("control-plane") && (controlPlane < 1 || controlPlane%2 == 0) {
				return fmt.Errorf("--control-plane: %d is not an odd number; etcd needs one", controlPlane)
			}

			if workers < 0 {
				return fmt.Errorf("--workers: %d is less than 0", workers)
			}

			if err := m.connect(); err != nil {
				return err
			}

			cluster, err := m.cluster(command.Context(), args[0])
			if err != nil {
				return err
			}

			if cluster.Spec.Topology.IsDefined() {
				return m.scaleTopology(command.Context(), s, cluster, controlPlane, flags.Changed("workers"), workers,
					deployment)
			}

			if flags.Changed("control-plane") {
				err := m.scaleTo(command.Context(), s, &controlplanev1.KubeadmControlPlane{
					ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: cluster.Spec.ControlPlaneRef.Name},
				}, controlPlane)
				if err != nil {
					return err
				}
			}

			if !flags.Changed("workers") {
				return nil
			}

			md, err := m.deployment(command.Context(), args[0], deployment)
			if err != nil {
				return err
			}

			if _, scaled := md.Annotations[clusterv1.AutoscalerMaxSizeAnnotation]; scaled {
				return fmt.Errorf(
					"the cluster autoscaler scales MachineDeployment %s; change its annotations %s and %s",
					md.Name,
					clusterv1.AutoscalerMinSizeAnnotation,
					clusterv1.AutoscalerMaxSizeAnnotation,
				)
			}

			return m.scaleTo(command.Context(), s, md, workers)
		},
	}
	m.addFlags(command)
	command.Flags().Int32Var(&controlPlane, "control-plane", 0, "number of control plane machines, which is odd")
	command.Flags().Int32Var(&workers, "workers", 0, "number of workers")
	command.Flags().StringVar(&deployment, "machine-deployment", "", "whose workers; needed where there are several")

	return command
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
