package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/preview"
)

// upgrade are the flags of the upgrade command.
type upgrade struct {
	streams
	steps
	management
	file                clusterFile
	version, vmTemplate string
	yes, dryRun         bool
	// wanted are the templates of a cluster file, by name; nil without one.
	wanted map[string]*infrav1.OLVMMachineTemplate
}

func newUpgradeCommand(s streams) *cobra.Command {
	o := &upgrade{streams: s, steps: steps{progress: s.err}}
	command := &cobra.Command{
		Use:   "upgrade CLUSTER -f FILE | --kubernetes-version VERSION | --vm-template NAME",
		Short: "Roll a cluster out with another Kubernetes version or other VMs",
		Long: `upgrade takes the Kubernetes version and the VMs of a changed cluster file, or a
version and the name of a VM template. It shows which machines a rollout replaces and why, asks, and
does it: the control plane first, then the workers, each one followed until all of its machines are
new and ready. Where VMs change it makes OLVMMachineTemplates of new names, because these cannot be
changed. It can be run again at any time, and goes on where it was interrupted.

Kubernetes is upgraded by one minor version at a time. The VM template has to have the new version;
make it with olvmctl image template. A VM template whose name has ${KUBERNETES_VERSION} in it
follows the version by itself.

Exit codes: 0 done, or nothing to do; 2 with --dry-run where something would change; 1 error.`,
		Example: `  olvmctl upgrade prod -n prod --kubernetes-version v1.34.1 --vm-template ock-1.34 --dry-run
  olvmctl upgrade prod -n prod --kubernetes-version v1.34.1 --vm-template ock-1.34 --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			switch {
			case o.file.path != "" && (o.version != "" || o.vmTemplate != ""):
				return errors.New(
					"--filename: the cluster file has the version and the VM template; leave --kubernetes-version " +
						"and --vm-template away",
				)
			case o.file.path == "" && o.version == "" && o.vmTemplate == "":
				return errors.New("give a cluster file with -f, or --kubernetes-version, --vm-template or both")
			}

			if o.version != "" {
				o.version = "v" + strings.TrimPrefix(o.version, "v")
				if _, err := semver.ParseTolerant(o.version); err != nil || strings.Count(o.version, ".") < 2 {
					return fmt.Errorf("--kubernetes-version: %q is not a version such as v1.34.1", o.version)
				}
			}

			return o.run(command.Context(), args[0])
		},
	}
	o.addFlags(command)
	o.addTimeoutFlag(command)
	command.Flags().StringVarP(&o.file.path, "filename", "f", "", "cluster file")
	o.file.addFormatFlags(command)
	command.Flags().StringVar(&o.version, "kubernetes-version", "",
		"version to upgrade to, such as v1.34.1; empty leaves it")
	command.Flags().StringVar(&o.vmTemplate, "vm-template", "", "VM template of the new machines; empty leaves it")
	command.Flags().BoolVar(&o.dryRun, "dry-run", false, "show what would be replaced, and change nothing")
	command.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")

	return command
}

// part is a control plane or a MachineDeployment in an upgrade.
type part struct {
	// object as it is to be, and key of its kind for people.
	object *unstructured.Unstructured
	name   string
	// patch makes it so; empty where it is so already.
	patch map[string]any
	// template is what its new machines are made of; nil where it is there.
	template *infrav1.OLVMMachineTemplate
}

func (o *upgrade) run(ctx context.Context, name string) error {
	if err := o.connect(); err != nil {
		return err
	}

	cluster, err := o.cluster(ctx, name)
	if err != nil {
		return err
	}

	if o.file.path != "" {
		if err := o.readFile(ctx, cluster.Name); err != nil {
			return err
		}
	}

	if cluster.Spec.Topology.IsDefined() {
		return o.topology(ctx, cluster)
	}

	parts, err := o.parts(ctx, cluster)
	if err != nil {
		return err
	}

	manifests, err := o.manifests(ctx, cluster, parts...)
	if err != nil {
		return err
	}

	machines, changes, err := manifests.Expand()
	if err != nil {
		return err
	}

	changes = rollouts(changes)
	if len(changes) > 0 {
		if err := o.askEngine(ctx, manifests, machines); err != nil {
			return err
		}
	}

	var lines []string
	for _, change := range changes {
		lines = append(lines, change.String())
	}

	if err := o.agree(name, lines); err != nil || o.dryRun {
		return err
	}

	for _, p := range parts {
		if err := o.do("Rolling out "+p.name, func() error { return o.rollOut(ctx, cluster, p) }); err != nil {
			return err
		}
	}

	_, err = fmt.Fprintf(o.out, "%s is up to date\n", name)

	return err
}

// agree shows what would be replaced, and asks whether it is to be. A dry run ends with errChanges where there is
// something.
func (o *upgrade) agree(cluster string, changes []string) error {
	for _, change := range changes {
		if _, err := fmt.Fprintln(o.out, change); err != nil {
			return err
		}
	}

	switch {
	case len(changes) == 0:
		return nil
	case o.dryRun:
		return errChanges
	}

	return confirm(o.streams, o.yes, fmt.Sprintf("Roll %s out? Type its name: ", cluster), cluster)
}

// readFile takes version and templates from the cluster file.
func (o *upgrade) readFile(ctx context.Context, name string) error {
	file, err := o.file.valid(o.err)
	if err != nil {
		return err
	}

	if file.Name != name {
		return fmt.Errorf("%s: name: it is of cluster %s, not of %s", o.file.path, file.Name, name)
	}

	o.version = file.Version()
	o.wanted, err = o.templatesOf(ctx, file.objects)

	return err
}

// parts are the control plane and the MachineDeployments of a cluster, as they are to be.
func (o *upgrade) parts(ctx context.Context, cluster *clusterv1.Cluster) ([]*part, error) {
	var out []*part
	controlPlane := &unstructured.Unstructured{}
	controlPlane.SetGroupVersionKind(controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"))
	err := o.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: cluster.Spec.ControlPlaneRef.Name}, controlPlane)
	if err != nil {
		return nil, fmt.Errorf("failed to get the control plane: %w", err)
	}

	first, err := o.part(ctx, controlPlane)
	if err != nil {
		return nil, err
	}

	out = append(out, first)
	deployments := &unstructured.UnstructuredList{}
	deployments.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineDeployment"))
	err = o.List(ctx, deployments, client.InNamespace(o.namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: cluster.Name,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to list the MachineDeployments: %w", err)
	}

	for i := range deployments.Items {
		next, err := o.part(ctx, &deployments.Items[i])
		if err != nil {
			return nil, err
		}

		out = append(out, next)
	}

	return out, nil
}

// part is an owner of machines as it is to be.
func (o *upgrade) part(ctx context.Context, object *unstructured.Unstructured) (*part, error) {
	version, reference := machineFields(object.GetKind())
	p := &part{object: object, name: object.GetKind() + " " + object.GetName(), patch: map[string]any{}}
	now, _, _ := unstructured.NestedString(object.Object, version...)
	if o.version != "" && o.version != now {
		if err := upgradable(now, o.version); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}

		if err := p.set(o.version, version); err != nil {
			return nil, err
		}
	}

	template, err := o.templateOf(ctx, object)
	if err != nil {
		return nil, err
	}

	spec := *template.Spec.Template.Spec.DeepCopy()
	if o.vmTemplate != "" {
		spec.VMTemplateName = o.vmTemplate
	}

	if of, ok := o.wanted[object.GetName()]; ok {
		spec = of.Spec.Template.Spec
	}

	if equality.Semantic.DeepEqual(spec, template.Spec.Template.Spec) {
		return p, nil
	}

	var there infrav1.OLVMMachineTemplateList
	if err := o.List(ctx, &there, client.InNamespace(o.namespace)); err != nil {
		return nil, fmt.Errorf("failed to list the OLVMMachineTemplates: %w", err)
	}

	wanted := *template.Spec.DeepCopy()
	wanted.Template.Spec = spec
	if same := sameGeneration(there.Items, template.Name, wanted); same != "" {
		return p, p.set(same, reference)
	}

	if p.template, err = successor(template, wanted); err != nil {
		return nil, err
	}

	return p, p.set(p.template.Name, reference)
}

// set changes a field of the object, and notes that in the patch.
func (p *part) set(value string, path []string) error {
	if err := unstructured.SetNestedField(p.object.Object, value, path...); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}

	return unstructured.SetNestedField(p.patch, value, path...)
}

// upgradable says why Kubernetes cannot be upgraded from one version to another.
func upgradable(from, to string) error {
	before, err := semver.ParseTolerant(from)
	if err != nil {
		return fmt.Errorf("its version %q is none: %w", from, err)
	}

	after, err := semver.ParseTolerant(to)
	switch {
	case err != nil:
		return fmt.Errorf("--kubernetes-version: %w", err)
	case after.LT(before):
		return fmt.Errorf("--kubernetes-version: it has %s already, and cannot go back to %s", from, to)
	case after.Major != before.Major || after.Minor > before.Minor+1:
		return fmt.Errorf("--kubernetes-version: from %s to %s is more than one minor version; upgrade to v%d.%d first",
			from, to, before.Major, before.Minor+1)
	}

	return nil
}

// askEngine looks whether the engine has what the new machines are made of: a rollout with a machine that cannot be
// made does not end, and the next one waits for it. Where the engine cannot be reached from here, the controllers will
// find out.
func (o *upgrade) askEngine(ctx context.Context, manifests *preview.Manifests, machines []preview.Machine) error {
	sessions := &engine.Sessions{}
	defer sessions.Close(context.WithoutCancel(ctx))
	made := slices.DeleteFunc(machines, func(machine preview.Machine) bool { return machine.Replaces == "" })
	err := errors.Join(unmakeable(ctx, manifests, made, preview.Credentials{}, sessions)...)
	var unreachable *engine.UnreachableError
	if errors.As(err, &unreachable) {
		o.say("the engine is not asked: %v", err)
		return nil
	}

	return err
}

// rollouts are the changes that replace machines.
func rollouts(changes []preview.OwnerChange) []preview.OwnerChange {
	return slices.DeleteFunc(changes, func(change preview.OwnerChange) bool { return len(change.Replaced) == 0 })
}

// changes are what the parts change of the machines that there are.
func (o *upgrade) changes(
	ctx context.Context, cluster *clusterv1.Cluster, parts ...*part,
) ([]preview.OwnerChange, error) {
	manifests, err := o.manifests(ctx, cluster, parts...)
	if err != nil {
		return nil, err
	}

	_, changes, err := manifests.Expand()

	return rollouts(changes), err
}

// manifests are the parts as they are to be, beside what runs.
func (o *upgrade) manifests(
	ctx context.Context, cluster *clusterv1.Cluster, parts ...*part,
) (*preview.Manifests, error) {
	objects := make([]*unstructured.Unstructured, 0, 2*len(parts)+1)
	for _, p := range parts {
		objects = append(objects, p.object)
		if p.template != nil {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p.template)
			if err != nil {
				return nil, fmt.Errorf("failed to encode an OLVMMachineTemplate: %w", err)
			}

			objects = append(objects, &unstructured.Unstructured{Object: content})
		}
	}

	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	if err := o.Get(ctx, client.ObjectKeyFromObject(cluster), live); err != nil {
		return nil, fmt.Errorf("failed to get Cluster %s: %w", cluster.Name, err)
	}

	manifests, err := preview.LoadObjects(append(objects, live))
	if err != nil {
		return nil, err
	}

	return manifests, manifests.AddLive(ctx, o.Client, "")
}

// rollOut changes a part and follows it until its machines are new and ready.
func (o *upgrade) rollOut(ctx context.Context, cluster *clusterv1.Cluster, p *part) error {
	if p.template != nil {
		if err := o.Create(ctx, p.template); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("failed to make OLVMMachineTemplate %s: %w", p.template.Name, err)
		}
	}

	if len(p.patch) > 0 {
		patch, err := json.Marshal(p.patch)
		if err != nil {
			return fmt.Errorf("failed to encode a patch: %w", err)
		}

		err = o.Patch(ctx, p.object.DeepCopy(), client.RawPatch("application/merge-patch+json", patch), fieldOwner)
		if err != nil {
			return fmt.Errorf("failed to change %s: %w", p.name, err)
		}
	}

	return o.until(ctx, o.timeout, func(ctx context.Context) error {
		tree, err := o.describe(ctx, cluster.Name)
		if err != nil {
			return err
		}

		for _, child := range tree.Children {
			if child.Kind+" "+child.Name == p.name && child.Waiting != "" {
				return errors.New(child.Waiting)
			}
		}

		// the machines themselves: numbers in a status may be older than the change
		left, err := o.changes(ctx, cluster, p)
		if err == nil && len(left) > 0 {
			err = errors.New(left[0].String())
		}

		return err
	})
}

// topology changes a Cluster with a ClusterClass, whose controller does the rest in the same order.
func (o *upgrade) topology(ctx context.Context, cluster *clusterv1.Cluster) error {
	before := cluster.DeepCopy()
	topology := &cluster.Spec.Topology
	if o.vmTemplate != "" {
		return fmt.Errorf(
			"--vm-template: the VM template of %s is a variable of its ClusterClass; change spec.topology.variables",
			cluster.Name,
		)
	}

	var lines []string
	if topology.Version != o.version {
		if err := upgradable(topology.Version, o.version); err != nil {
			return err
		}

		lines = append(
			lines,
			fmt.Sprintf(
				"Cluster %s: version %s becomes %s, and all machines are replaced",
				cluster.Name,
				topology.Version,
				o.version,
			),
		)
	}

	if err := o.agree(cluster.Name, lines); err != nil || o.dryRun {
		return err
	}

	if len(lines) > 0 {
		topology.Version = o.version
		if err := o.Patch(ctx, cluster, client.MergeFrom(before), fieldOwner); err != nil {
			return fmt.Errorf("failed to change Cluster %s: %w", cluster.Name, err)
		}
	}

	err := o.do("Rolling out "+cluster.Name, func() error {
		return o.until(ctx, o.timeout, func(ctx context.Context) error {
			tree, err := o.describe(ctx, cluster.Name)
			if err != nil {
				return err
			}

			for _, child := range tree.Children {
				if child.Version != "" && child.Version != o.version {
					return fmt.Errorf("%s %s has version %s", child.Kind, child.Name, child.Version)
				}
			}

			return o.checkReady(cluster.Name)(ctx)
		})
	})
	if err != nil {
		return err
	}

	_, err = fmt.Fprintf(o.out, "%s is up to date\n", cluster.Name)

	return err
}

// confirm asks for a word on a terminal.
func confirm(s streams, yes bool, question, word string) error {
	if yes {
		return nil
	}

	input, ok := s.in.(*os.File)
	if !ok || !term.IsTerminal(int(input.Fd())) {
		return errors.New("there is no terminal to ask on; give --yes")
	}

	if _, err := io.WriteString(s.err, question); err != nil {
		return err
	}

	answer, err := bufio.NewReader(input).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("failed to read the answer: %w", err)
	}

	if strings.TrimSpace(answer) != word {
		return errors.New("it stays as it is")
	}

	return nil
}
