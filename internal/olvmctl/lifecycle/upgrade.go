package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
)

// UpgradeOptions configure Upgrade.
type UpgradeOptions struct {
	Common
	// Name is the name of the Cluster.
	Name string
	// File is a cluster file with the version and the VMs. Provider is its infrastructure. Both may be nil.
	File     *clusterfile.Loaded
	Provider Provider
	// Version is the Kubernetes version, and VMTemplate the VM template, of the new machines. "" leaves them unchanged.
	Version, VMTemplate string
	// Agree is called before any replacement. changes has one line for each owner of machines, and where is the
	// location of the cluster. goOn starts the replacements.
	Agree func(changes []string, where string) (goOn bool, err error)
}

// upgrade is a running Upgrade.
type upgrade struct {
	UpgradeOptions
	*mgmtcluster.Cluster
	cluster *clusterv1.Cluster
	// of is the infrastructure of the cluster.
	of Provider
	// wanted are the machine templates of the cluster file, by the names of their owners. It is nil without a cluster
	// file.
	wanted map[string]*unstructured.Unstructured
}

// Upgrade changes the Kubernetes version or the VMs of a cluster. It replaces first the control plane, then the
// workers. For each owner of machines, it waits until all its machines are new and ready.
func Upgrade(ctx context.Context, o UpgradeOptions) error {
	in, err := mgmtcluster.ConnectInstalled(ctx, o.Management)
	if err != nil {
		return err
	}

	u := &upgrade{UpgradeOptions: o, Cluster: in}
	if u.cluster, err = in.GetCluster(ctx, o.Name); err != nil {
		return err
	}

	if err := checkSettled(u.cluster); err != nil {
		return err
	}

	u.of = providerOf(u.cluster)
	if goOn, err := u.readFile(ctx); err != nil || !goOn {
		return err
	}

	changes, steps, err := u.planRollout(ctx)
	if err != nil {
		return err
	}

	goOn, err := o.Agree(changes, u.describeLocation())
	if err != nil || !goOn {
		return err
	}

	return runSteps(ctx, o.Display, steps)
}

// describeLocation returns the location of the cluster for the user.
func (u *upgrade) describeLocation() string {
	return fmt.Sprintf("in namespace %s of %s", u.Namespace, u.DescribeLocation())
}

// readFile reads the version and the machine templates from the cluster file. If images are missing, it first offers to
// create them, because the replacements cannot be shown without images.
func (u *upgrade) readFile(ctx context.Context) (goOn bool, err error) {
	if u.File == nil {
		return true, nil
	}

	c := &creation{CreateOptions: CreateOptions{Common: u.Common, File: *u.File, Provider: u.Provider}}
	kind := u.cluster.Spec.InfrastructureRef.Kind

	switch {
	case u.File.Name != u.Name:
		return false, fmt.Errorf("%s: name: the file is for cluster %s, not for %s", u.File.Path, u.File.Name, u.Name)
	case kind != "" && kind != u.Provider.Components().ClusterKind:
		return false, fmt.Errorf("%s: provider: does not match cluster %s, whose infrastructure is an %s",
			u.File.Path, u.Name, kind)
	case !u.File.UsesTerraform():
		if goOn, err := u.ensureImages(ctx, c); err != nil || !goOn {
			return false, err
		}
	}

	objects, err := u.Provider.BuildManifests(ctx, c)
	if err != nil {
		return false, err
	}

	u.Version = u.File.Version()
	u.wanted, err = templatesOf(ctx, u.Cluster, objects)

	return err == nil, err
}

// ensureImages creates the missing images of the cluster file after the user has agreed.
func (u *upgrade) ensureImages(ctx context.Context, c *creation) (goOn bool, err error) {
	if err := runSteps(ctx, u.Display, u.Provider.FindImages(c)); err != nil {
		return false, err
	}

	steps := u.Provider.ImageSteps(c)

	var missing []string

	for _, one := range steps {
		if !one.quiet && one.needed() {
			missing = append(missing, one.name+"; afterwards, olvmctl shows the machines to replace")
		}
	}

	if len(missing) > 0 {
		if goOn, err := u.Agree(missing, u.describeLocation()); err != nil || !goOn {
			return false, err
		}
	}

	return true, runSteps(ctx, u.Display, steps)
}

// planRollout returns the planned replacements, and the steps for them.
func (u *upgrade) planRollout(ctx context.Context) (changes []string, steps []Step, err error) {
	if u.cluster.Spec.Topology.IsDefined() {
		return u.planTopology(ctx)
	}

	owners, err := u.listOwners(ctx)
	if err != nil {
		return nil, nil, err
	}

	if changes, err = u.of.DescribeRollouts(ctx, u, owners); err != nil {
		return nil, nil, err
	}

	if len(changes) > 0 {
		for _, one := range owners {
			if warning := one.imageWarning(u.Version); warning != "" {
				changes = append(changes, warning)
			}
		}
	}

	for _, one := range owners {
		steps = append(steps, Step{
			name: "Rolling out " + one.name,
			run:  func(ctx context.Context) error { return u.rollOut(ctx, one) },
		})
	}

	return changes, steps, nil
}

// planTopology returns the same as planRollout, for a Cluster with a ClusterClass. The topology controller replaces
// machines in the same order.
func (u *upgrade) planTopology(ctx context.Context) (changes []string, steps []Step, err error) {
	if u.VMTemplate != "" {
		return nil, nil, fmt.Errorf("--vm-template: the VM template of %s is a variable of its ClusterClass; set "+
			"it in spec.topology.variables of the Cluster", u.Name)
	}

	if now := u.cluster.Spec.Topology.Version; now != u.Version {
		if err := u.checkSkew(ctx, now, nil); err != nil {
			return nil, nil, err
		}

		changes = append(changes, fmt.Sprintf("Cluster %s: version %s becomes %s, and all machines are replaced",
			u.Name, now, u.Version))
	}

	return changes, []Step{{name: "Rolling out " + u.Name, run: u.rollOutTopology}}, nil
}

// owner is a control plane or a MachineDeployment in an upgrade.
type owner struct {
	// object is the desired state. name is a readable name with the kind.
	object *unstructured.Unstructured
	name   string
	// patch has the changes to the object. It is empty if nothing changes.
	patch map[string]any
	// template is a machine template to create first, or nil if it exists.
	template *unstructured.Unstructured
	// image is the image of its new machines. keptImage reports whether the image stays the same although the version
	// changes.
	image     string
	keptImage bool
}

// minorInName matches a minor version of Kubernetes in the name of a VM template.
var minorInName = regexp.MustCompile(`(?:^|[^\d.])v?1\.(\d{2})(?:$|\D)`)

// imageWarning returns a warning if the image may have another Kubernetes version, or "". The engine does not know the
// Kubernetes version in a template, so the template's name is the only hint.
func (o *owner) imageWarning(version string) string {
	if version == "" || o.image == "" || strings.Contains(o.image, "${KUBERNETES_VERSION}") {
		return ""
	}

	const remedy = "; otherwise, new machines do not become nodes (OtherKubelet) until you restore the old version"

	to, err := semver.ParseTolerant(version)
	named := minorInName.FindStringSubmatch(o.image)

	switch {
	case err == nil && named != nil && named[1] != strconv.FormatUint(to.Minor, 10):
		return fmt.Sprintf("warning: %s: the name of %s indicates another version; it must contain Kubernetes %s%s",
			o.name, o.image, version, remedy)
	case o.keptImage:
		return fmt.Sprintf("warning: %s keeps %s, which must contain Kubernetes %s%s", o.name, o.image, version, remedy)
	}

	return ""
}

// listOwners returns the control plane and the MachineDeployments of the cluster in their desired state.
func (u *upgrade) listOwners(ctx context.Context) ([]*owner, error) {
	controlPlane := &unstructured.Unstructured{}
	controlPlane.SetGroupVersionKind(controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"))
	key := client.ObjectKey{Namespace: u.Namespace, Name: u.cluster.Spec.ControlPlaneRef.Name}
	if err := u.Get(ctx, key, controlPlane); err != nil {
		return nil, fmt.Errorf("failed to get the control plane: %w", err)
	}

	deployments := &unstructured.UnstructuredList{}
	deployments.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineDeployment"))
	err := u.List(ctx, deployments, client.InNamespace(u.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: u.Name,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to list the MachineDeployments: %w", err)
	}

	objects := []*unstructured.Unstructured{controlPlane}
	for i := range deployments.Items {
		objects = append(objects, &deployments.Items[i])
	}

	if err := u.checkSkew(ctx, versionOf(controlPlane), objects[1:]); err != nil {
		return nil, err
	}

	var out []*owner

	for _, object := range objects {
		next, err := u.buildOwner(ctx, object)
		if err != nil {
			return nil, err
		}

		out = append(out, next)
	}

	return out, nil
}

// buildOwner returns an owner of machines in its desired state.
func (u *upgrade) buildOwner(ctx context.Context, object *unstructured.Unstructured) (*owner, error) {
	version, _ := machineFields(object.GetKind())
	out := &owner{object: object, name: object.GetKind() + " " + object.GetName(), patch: map[string]any{}}

	now := versionOf(object)
	if u.Version != "" && u.Version != now {
		if err := out.setField(u.Version, version); err != nil {
			return nil, err
		}
	}

	template, err := fetchTemplate(ctx, u.Cluster, object)
	if err != nil {
		return nil, err
	}

	spec := machineSpec(template)
	if u.VMTemplate != "" {
		spec[u.of.Components().ImageField] = u.VMTemplate
	}

	if of, ok := u.wanted[object.GetName()]; ok {
		spec = machineSpec(of)
	}

	field := u.of.Components().ImageField
	out.image, _ = spec[field].(string)
	out.keptImage = u.Version != "" && u.Version != now && equality.Semantic.DeepEqual(spec[field],
		machineSpec(template)[field])

	if equality.Semantic.DeepEqual(spec, machineSpec(template)) {
		return out, nil
	}

	return out, u.useTemplate(ctx, out, template, spec)
}

// useTemplate makes an owner refer to an existing or new template with another specification.
func (u *upgrade) useTemplate(
	ctx context.Context, out *owner, template *unstructured.Unstructured, wanted map[string]any,
) error {
	there := &unstructured.UnstructuredList{}
	there.SetGroupVersionKind(template.GroupVersionKind())
	if err := u.List(ctx, there, client.InNamespace(u.Namespace)); err != nil {
		return fmt.Errorf("failed to list the %ss: %w", template.GetKind(), err)
	}

	if same := sameGeneration(there.Items, template.GetName(), wanted); same != "" {
		return out.setField(same, templateNameField(out.object))
	}

	var err error
	if out.template, err = newSuccessor(template, wanted); err != nil {
		return err
	}

	return out.setField(out.template.GetName(), templateNameField(out.object))
}

// setField sets a field of the object, and adds the change to the patch.
func (o *owner) setField(value string, path []string) error {
	if err := unstructured.SetNestedField(o.object.Object, value, path...); err != nil {
		return fmt.Errorf("%s: %w", o.name, err)
	}

	return unstructured.SetNestedField(o.patch, value, path...)
}

// askEngine checks in the engine everything the new machines need. If a machine cannot be created, the rollout never
// ends, and blocks the next rollout. If the engine is unreachable from this machine, askEngine leaves the check to the
// controllers.
func (u *upgrade) askEngine(ctx context.Context, manifests *preview.Manifests, machines []preview.Machine) error {
	sessions := &engine.Sessions{}
	defer sessions.Close(context.WithoutCancel(ctx))

	made := slices.DeleteFunc(machines, func(machine preview.Machine) bool { return machine.Replaces == "" })
	err := errors.Join(preview.CheckNames(ctx, manifests, made, preview.Credentials{}, sessions)...)

	var unreachable *engine.UnreachableError
	if errors.As(err, &unreachable) {
		u.Display.PrintLine("skipping the checks in the engine: %v", err)
		return nil
	}

	return err
}

// onlyReplacing returns the changes that replace machines.
func onlyReplacing(changes []planreport.OwnerChange) []planreport.OwnerChange {
	return slices.DeleteFunc(changes, func(change planreport.OwnerChange) bool { return len(change.Replaced) == 0 })
}

// buildManifests returns the desired owners, together with the other objects of the running cluster.
func (u *upgrade) buildManifests(ctx context.Context, owners ...*owner) (*preview.Manifests, error) {
	objects := make([]*unstructured.Unstructured, 0, 2*len(owners)+1)
	for _, one := range owners {
		objects = append(objects, one.object)
		if one.template != nil {
			objects = append(objects, one.template)
		}
	}

	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	if err := u.Get(ctx, client.ObjectKeyFromObject(u.cluster), live); err != nil {
		return nil, fmt.Errorf("failed to get Cluster %s: %w", u.Name, err)
	}

	input, err := planinput.LoadObjects(append(objects, live))
	if err != nil {
		return nil, err
	}

	return preview.NewManifests(input), input.AddLive(ctx, u.Client, "")
}

// rollOut changes an owner, and waits until its machines are new and ready.
func (u *upgrade) rollOut(ctx context.Context, one *owner) error {
	if one.template != nil {
		if err := u.Create(ctx, one.template); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("failed to create %s %s: %w", one.template.GetKind(), one.template.GetName(), err)
		}
	}

	if len(one.patch) > 0 {
		patch, err := json.Marshal(one.patch)
		if err != nil {
			return fmt.Errorf("failed to encode a patch: %w", err)
		}

		err = u.Patch(ctx, one.object.DeepCopy(), client.RawPatch(types.MergePatchType, patch), manifest.FieldOwner)
		if err != nil {
			return fmt.Errorf("failed to change %s: %w", one.name, err)
		}
	}

	return u.Display.WaitFor(ctx, u.Timeout, func(ctx context.Context) error { return u.checkRolledOut(ctx, one) })
}

// checkRolledOut succeeds once all machines of an owner are new and ready. Until then, its error names the missing
// ones.
func (u *upgrade) checkRolledOut(ctx context.Context, one *owner) error {
	tree, err := u.Describe(ctx, u.Name)
	if err != nil {
		return err
	}

	for i := range tree.Children {
		child := &tree.Children[i]
		if child.Kind+" "+child.Name == one.name && child.Waiting != "" {
			return waitingError(child.Waiting, child) // other stuck objects may need this upgrade
		}
	}

	// Check the machines themselves, because the numbers in a status may be older than the change.
	left, err := u.of.DescribeRemaining(ctx, u, one)
	if err != nil || left == "" {
		return err
	}

	return errors.New(left)
}

// rollOutTopology changes the version of the topology, and waits until all machines have this version.
func (u *upgrade) rollOutTopology(ctx context.Context) error {
	if u.cluster.Spec.Topology.Version != u.Version {
		before := u.cluster.DeepCopy()
		u.cluster.Spec.Topology.Version = u.Version
		if err := u.Patch(ctx, u.cluster, client.MergeFrom(before), manifest.FieldOwner); err != nil {
			return fmt.Errorf("failed to change Cluster %s: %w", u.Name, err)
		}
	}

	return u.Display.WaitFor(ctx, u.Timeout, func(ctx context.Context) error {
		tree, err := u.Describe(ctx, u.Name)
		if err != nil {
			return err
		}

		for _, child := range tree.Children {
			if child.Version != "" && child.Version != u.Version {
				return fmt.Errorf("%s %s has version %s", child.Kind, child.Name, child.Version)
			}
		}

		return checkReady(ctx, u.Cluster, u.Name)
	})
}
