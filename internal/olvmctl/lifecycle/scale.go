package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

// fieldOwnerOfScale lets Create name Scale in a conflict about numbers written by Scale.
const fieldOwnerOfScale = client.FieldOwner("olvmctl-scale")

// ScaleOptions configure Scale.
type ScaleOptions struct {
	// Management is the management cluster, and the namespace of the cluster in it.
	Management mgmtcluster.Options
	// Name is the name of the Cluster.
	Name string
	// ControlPlane and Workers are the new numbers of machines. nil leaves them unchanged.
	ControlPlane, Workers *int32
	// Deployment is the name of the workers' MachineDeployment. If empty, the cluster must have only one.
	Deployment string
	// Agree is called before a change with possibly unwanted effects. alarms has one line for each effect, and where is
	// the location of the cluster. An error ends the operation. If nil, Scale does not ask.
	Agree func(alarms []string, where string) error
}

// growthLimit is the growth factor above which Scale suspects a mistake.
const growthLimit = 10

// sizing is a change of the number of machines of an owner.
type sizing struct {
	name     string
	from, to int32
	template clusterv1.ContractVersionedObjectReference
}

// listAlarms returns the possibly unwanted effects: deleted machines, and many additional machines.
func (s sizing) listAlarms() []string {
	switch {
	case s.to < s.from:
		return []string{fmt.Sprintf("%s scales from %d to %s: permanently deletes %s, with VMs and disks", s.name,
			s.from, english.Plural(int(s.to), "machine", ""), english.Plural(int(s.from-s.to), "machine", ""))}
	case int64(s.to) > growthLimit*int64(max(s.from, 1)):
		return []string{fmt.Sprintf("%s scales from %d to %d machines, more than %d times as many", s.name, s.from,
			s.to,
			growthLimit)}
	}

	return nil
}

// confirmAlarms asks the user about alarms, if there are any.
func (o ScaleOptions) confirmAlarms(
	ctx context.Context, in *mgmtcluster.Cluster, cluster *clusterv1.Cluster, list []sizing, say func(line string),
) error {
	var alarms []string

	for _, one := range list {
		alarms = append(alarms, one.listAlarms()...)
		warnOfAddresses(ctx, in, cluster, one.template, one.to, func(line string) { alarms = append(alarms, line) })
	}

	if len(alarms) > 0 && o.Agree != nil {
		return o.Agree(alarms, fmt.Sprintf("in namespace %s of %s", in.Namespace, in.DescribeLocation()))
	}

	for _, line := range alarms {
		say(line)
	}

	return nil
}

func (o ScaleOptions) validate() error {
	switch {
	case o.ControlPlane == nil && o.Workers == nil:
		return errors.New("nothing to scale; use --control-plane, --workers or both")
	case o.ControlPlane != nil && (*o.ControlPlane < 1 || *o.ControlPlane%2 == 0):
		return fmt.Errorf("--control-plane: %d is not a positive odd number, which etcd requires", *o.ControlPlane)
	case o.Workers != nil && *o.Workers < 0:
		return fmt.Errorf("--workers: %d is negative; use 0 or more", *o.Workers)
	}

	return nil
}

// Scale changes the numbers of replicas, and calls say with each line for the user. It does not wait for the machines.
func Scale(ctx context.Context, o ScaleOptions, say func(line string)) error {
	if err := o.validate(); err != nil {
		return err
	}

	in, err := mgmtcluster.ConnectInstalled(ctx, o.Management)
	if err != nil {
		return err
	}

	cluster, err := in.GetCluster(ctx, o.Name)
	if err != nil {
		return err
	}

	if err := checkSettled(cluster); err != nil {
		return err
	}

	if cluster.Spec.Topology.IsDefined() {
		return o.scaleTopology(ctx, in, cluster, say)
	}

	objects, sizes, err := o.findObjects(ctx, in, cluster)
	if err != nil {
		return err
	}

	if err := o.confirmAlarms(ctx, in, cluster, sizes, say); err != nil {
		return err
	}

	for i, object := range objects {
		if err := scaleObject(ctx, in, object, sizes[i], say); err != nil {
			return err
		}
	}

	return nil
}

// findObjects finds all objects to scale before any of them changes.
func (o ScaleOptions) findObjects(
	ctx context.Context, in *mgmtcluster.Cluster, cluster *clusterv1.Cluster,
) (objects []client.Object, sizes []sizing, err error) {
	if o.ControlPlane != nil {
		found := &controlplanev1.KubeadmControlPlane{}
		key := client.ObjectKey{Namespace: in.Namespace, Name: cluster.Spec.ControlPlaneRef.Name}
		if err := in.Get(ctx, key, found); err != nil {
			return nil, nil, fmt.Errorf("failed to get the control plane: %w", err)
		}

		objects = append(objects, found)
		sizes = append(sizes, sizing{found.Name, ptr.Deref(found.Spec.Replicas, 1), *o.ControlPlane,
			found.Spec.MachineTemplate.Spec.InfrastructureRef})
	}

	if o.Workers != nil {
		found, err := o.findDeployment(ctx, in)
		if err != nil {
			return nil, nil, err
		}

		objects = append(objects, found)
		sizes = append(sizes, sizing{found.Name, ptr.Deref(found.Spec.Replicas, 1), *o.Workers,
			found.Spec.Template.Spec.InfrastructureRef})
	}

	return objects, sizes, nil
}

// findDeployment returns the MachineDeployment of the workers. It fails if the cluster autoscaler scales it.
func (o ScaleOptions) findDeployment(
	ctx context.Context, in *mgmtcluster.Cluster,
) (*clusterv1.MachineDeployment, error) {
	var list clusterv1.MachineDeploymentList
	err := in.List(ctx, &list, client.InNamespace(in.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: o.Name,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to list the MachineDeployments: %w", err)
	}

	var names []string

	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}

	at, err := o.pickDeployment(names, "cluster")
	if err != nil {
		return nil, err
	}

	found := &list.Items[at]
	if _, scaled := found.Annotations[clusterv1.AutoscalerMaxSizeAnnotation]; scaled {
		return nil, fmt.Errorf("the cluster autoscaler scales MachineDeployment %s; change its annotations %s and "+
			"%s instead",
			found.Name, clusterv1.AutoscalerMinSizeAnnotation, clusterv1.AutoscalerMaxSizeAnnotation)
	}

	return found, nil
}

// scaleTopology changes the replicas of a Cluster with a ClusterClass.
func (o ScaleOptions) scaleTopology(
	ctx context.Context, in *mgmtcluster.Cluster, cluster *clusterv1.Cluster, say func(line string),
) error {
	sizes, _, err := o.changeTopology(cluster)
	if err != nil {
		return err
	}

	if err := o.confirmAlarms(ctx, in, cluster, sizes, say); err != nil {
		return err
	}

	err = writeScale(ctx, in, cluster, sizes, func() ([]sizing, []change, error) { return o.changeTopology(cluster) })
	if err != nil {
		return err
	}

	say(fmt.Sprintf("scaled the topology of %s", cluster.Name))

	return nil
}

// changeTopology returns the changes to the topology of a Cluster.
func (o ScaleOptions) changeTopology(cluster *clusterv1.Cluster) (sizes []sizing, changes []change, err error) {
	topology, version := &cluster.Spec.Topology, cluster.ResourceVersion

	if o.ControlPlane != nil {
		now := topology.ControlPlane.Replicas
		sizes = append(sizes, sizing{name: "the control plane", from: ptr.Deref(now, 1), to: *o.ControlPlane})

		if equality.Semantic.DeepEqual(topology.ControlPlane, clusterv1.ControlPlaneTopology{}) {
			changes = append(changes, addPatch("/spec/topology/controlPlane",
				map[string]int32{"replicas": *o.ControlPlane}, version)...)
		} else {
			changes = append(changes,
				replacePatch("/spec/topology/controlPlane/replicas", now, *o.ControlPlane, version)...)
		}
	}

	if o.Workers != nil {
		var names []string
		for i := range topology.Workers.MachineDeployments {
			names = append(names, topology.Workers.MachineDeployments[i].Name)
		}

		at, err := o.pickDeployment(names, "topology")
		if err != nil {
			return nil, nil, err
		}

		now := topology.Workers.MachineDeployments[at].Replicas
		sizes = append(sizes, sizing{name: names[at], to: *o.Workers, from: ptr.Deref(now, 1)})
		path := fmt.Sprintf("/spec/topology/workers/machineDeployments/%d/", at)
		changes = append(changes, change{"test", path + "name", names[at]})
		changes = append(changes, replacePatch(path+"replicas", now, *o.Workers, version)...)
	}

	return sizes, changes, nil
}

// pickDeployment returns the index of the MachineDeployment named in the options, or of the only MachineDeployment.
// where describes the list in errors.
func (o ScaleOptions) pickDeployment(names []string, where string) (int, error) {
	for i, name := range names {
		if name == o.Deployment || o.Deployment == "" && len(names) == 1 {
			return i, nil
		}
	}

	return 0, fmt.Errorf("specify a MachineDeployment of the %s with --machine-deployment: %q", where, names)
}

func scaleObject(
	ctx context.Context, in *mgmtcluster.Cluster, object client.Object, size sizing, say func(line string),
) error {
	err := writeScale(ctx, in, object, []sizing{size}, func() ([]sizing, []change, error) {
		now, found := size, replicasOf(object)
		now.from = ptr.Deref(found, 1)

		return []sizing{now}, replacePatch("/spec/replicas", found, size.to, object.GetResourceVersion()), nil
	})
	if err != nil {
		return err
	}

	say(fmt.Sprintf("scaled %s to %s", object.GetName(), english.Plural(int(size.to), "machine", "")))

	return nil
}

// replicasOf returns the number of machines requested by an owner, or nil if the owner requests none.
func replicasOf(object client.Object) *int32 {
	switch owner := object.(type) {
	case *controlplanev1.KubeadmControlPlane:
		return owner.Spec.Replicas
	case *clusterv1.MachineDeployment:
		return owner.Spec.Replicas
	}

	return nil
}

// change is an operation of a JSON patch.
type change struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// replacePatch returns a patch that replaces a number only if it is still the number shown to the user. An unset number
// cannot be compared, so the patch then compares the version of the object.
func replacePatch(path string, from *int32, to int32, version string) []change {
	if from == nil {
		return addPatch(path, to, version)
	}

	return []change{{"test", path, *from}, {"replace", path, to}}
}

// addPatch returns a patch that adds a missing field to an object, if the object still has the given version.
func addPatch(path string, value any, version string) []change {
	return []change{{"test", "/metadata/resourceVersion", version}, {"add", path, value}}
}

// writeScale applies a JSON patch to an object. asked are the sizes agreed to by the user. plan returns the sizes of
// the current object, and the patch. If another command has changed the numbers meanwhile, writeScale or the API server
// rejects the patch.
func writeScale(
	ctx context.Context, in *mgmtcluster.Cluster, object client.Object, asked []sizing,
	plan func() ([]sizing, []change, error),
) error {
	name := object.GetName()

	// The question may have been open for long, and controllers may have written the status meanwhile.
	changes, err := planAgain(ctx, in, object, asked, plan)
	if err != nil {
		return err
	}

	patch, err := json.Marshal(changes)
	if err != nil {
		return fmt.Errorf("failed to encode the patch of %s: %w", name, err)
	}

	err = in.Patch(ctx, object, client.RawPatch(types.JSONPatchType, patch), fieldOwnerOfScale)
	if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "the server rejected our request") {
		if _, err := planAgain(ctx, in, object, asked, plan); err != nil {
			return err
		}
	}

	if err != nil {
		return fmt.Errorf("failed to scale %s: %w", name, err)
	}

	return nil
}

// planAgain reads an object again, and plans its scaling. It fails if the object now requests other numbers.
func planAgain(
	ctx context.Context, in *mgmtcluster.Cluster, object client.Object, asked []sizing,
	plan func() ([]sizing, []change, error),
) ([]change, error) {
	name := object.GetName()
	if err := in.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return nil, fmt.Errorf("failed to get %s: %w", name, err)
	}

	now, changes, err := plan()
	if err != nil {
		return nil, err
	}

	if !slices.Equal(now, asked) {
		return nil, fmt.Errorf("the number of machines of %s has changed meanwhile; run the command again", name)
	}

	return changes, nil
}
