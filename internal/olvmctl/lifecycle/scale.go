package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

// fieldOwnerOfScale is what Create names, where a cluster file asks for other numbers than Scale has written.
const fieldOwnerOfScale = client.FieldOwner("olvmctl-scale")

// ScaleOptions say how many machines a cluster is to have.
type ScaleOptions struct {
	// Management is the management cluster, and the namespace of the cluster in it.
	Management mgmtcluster.Options
	// Name of the Cluster.
	Name string
	// ControlPlane and Workers are numbers of machines; nil leaves them.
	ControlPlane, Workers *int32
	// Deployment is the MachineDeployment of the workers; empty means the only one.
	Deployment string
	// Agree is called before anything is written with what a user may not want, one line each; an error ends it. nil
	// agrees.
	Agree func(alarms []string) error
}

// growthLimit is how many times as many machines are more than a user is taken to mean.
const growthLimit = 10

// sizing is an owner of machines that gets another number of them.
type sizing struct {
	name     string
	from, to int32
	template clusterv1.ContractVersionedObjectReference
}

// alarms are what a user may not want: machines that go, and many more than today.
func (s sizing) alarms() []string {
	switch {
	case s.to < s.from:
		return []string{fmt.Sprintf("%s is to have %s instead of %d: %d go for good, with their VMs and disks", s.name,
			english.Plural(int(s.to), "machine", ""), s.from, s.from-s.to)}
	case int64(s.to) > growthLimit*int64(max(s.from, 1)):
		return []string{fmt.Sprintf("%s is to have %d machines instead of %d, which is more than %d times as many",
			s.name, s.to, s.from, growthLimit)}
	}

	return nil
}

// agree asks the user where there is something to ask about.
func (o ScaleOptions) agree(
	ctx context.Context, in *mgmtcluster.Cluster, cluster *clusterv1.Cluster, list []sizing, say func(line string),
) error {
	var alarms []string

	for _, one := range list {
		alarms = append(alarms, one.alarms()...)
		sayOfAddresses(ctx, in, cluster, one.template, one.to, func(line string) { alarms = append(alarms, line) })
	}

	if len(alarms) > 0 && o.Agree != nil {
		return o.Agree(alarms)
	}

	for _, line := range alarms {
		say(line)
	}

	return nil
}

func (o ScaleOptions) validate() error {
	switch {
	case o.ControlPlane == nil && o.Workers == nil:
		return errors.New("give --control-plane, --workers or both")
	case o.ControlPlane != nil && (*o.ControlPlane < 1 || *o.ControlPlane%2 == 0):
		return fmt.Errorf("--control-plane: %d is not an odd number; etcd needs one", *o.ControlPlane)
	case o.Workers != nil && *o.Workers < 0:
		return fmt.Errorf("--workers: %d is less than 0", *o.Workers)
	}

	return nil
}

// Scale writes numbers of replicas, and calls say with each line for people. It does not wait for machines.
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

	objects, sizes, err := o.find(ctx, in, cluster)
	if err != nil {
		return err
	}

	if err := o.agree(ctx, in, cluster, sizes, say); err != nil {
		return err
	}

	for i, object := range objects {
		if err := scaleObject(ctx, in, object, sizes[i].to, say); err != nil {
			return err
		}
	}

	return nil
}

// find finds what is to be scaled, before anything is written.
func (o ScaleOptions) find(
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
		found, err := o.deployment(ctx, in)
		if err != nil {
			return nil, nil, err
		}

		objects = append(objects, found)
		sizes = append(sizes, sizing{found.Name, ptr.Deref(found.Spec.Replicas, 1), *o.Workers,
			found.Spec.Template.Spec.InfrastructureRef})
	}

	return objects, sizes, nil
}

// deployment is the MachineDeployment of the workers. One that the cluster autoscaler scales is an error.
func (o ScaleOptions) deployment(ctx context.Context, in *mgmtcluster.Cluster) (*clusterv1.MachineDeployment, error) {
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

	at, err := o.pick(names, "cluster")
	if err != nil {
		return nil, err
	}

	found := &list.Items[at]
	if _, scaled := found.Annotations[clusterv1.AutoscalerMaxSizeAnnotation]; scaled {
		return nil, fmt.Errorf("the cluster autoscaler scales MachineDeployment %s; change its annotations %s and %s",
			found.Name, clusterv1.AutoscalerMinSizeAnnotation, clusterv1.AutoscalerMaxSizeAnnotation)
	}

	return found, nil
}

// scaleTopology writes replicas of a Cluster with a ClusterClass.
func (o ScaleOptions) scaleTopology(
	ctx context.Context, in *mgmtcluster.Cluster, cluster *clusterv1.Cluster, say func(line string),
) error {
	topology := &cluster.Spec.Topology
	var sizes []sizing
	var changes []change

	if o.ControlPlane != nil {
		now := topology.ControlPlane.Replicas
		sizes = append(sizes, sizing{name: "the control plane", from: ptr.Deref(now, 1), to: *o.ControlPlane})
		changes = append(changes, replacement("/spec/topology/controlPlane/replicas", now, *o.ControlPlane)...)
	}

	if o.Workers != nil {
		var names []string
		for i := range topology.Workers.MachineDeployments {
			names = append(names, topology.Workers.MachineDeployments[i].Name)
		}

		at, err := o.pick(names, "topology")
		if err != nil {
			return err
		}

		now := topology.Workers.MachineDeployments[at].Replicas
		sizes = append(sizes, sizing{name: names[at], to: *o.Workers, from: ptr.Deref(now, 1)})
		path := fmt.Sprintf("/spec/topology/workers/machineDeployments/%d/", at)
		changes = append(changes, change{"test", path + "name", names[at]})
		changes = append(changes, replacement(path+"replicas", now, *o.Workers)...)
	}

	if err := o.agree(ctx, in, cluster, sizes, say); err != nil {
		return err
	}

	if err := writeScale(ctx, in, cluster, changes); err != nil {
		return err
	}

	say(fmt.Sprintf("the topology of %s is changed", cluster.Name))

	return nil
}

// pick is the index of the MachineDeployment that the options name, or of the only one. where has them.
func (o ScaleOptions) pick(names []string, where string) (int, error) {
	for i, name := range names {
		if name == o.Deployment || o.Deployment == "" && len(names) == 1 {
			return i, nil
		}
	}

	return 0, fmt.Errorf("say which with --machine-deployment: the %s has %q", where, names)
}

func scaleObject(
	ctx context.Context, in *mgmtcluster.Cluster, object client.Object, to int32, say func(line string),
) error {
	if err := writeScale(ctx, in, object, replacement("/spec/replicas", replicasOf(object), to)); err != nil {
		return err
	}

	say(fmt.Sprintf("%s is to have %s", object.GetName(), english.Plural(int(to), "machine", "")))

	return nil
}

// replicasOf is the number of machines that an owner of them asks for; nil for none.
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

// replacement writes a number in the place of the one that the user was asked about, and of no other.
func replacement(path string, from *int32, to int32) []change {
	if from == nil {
		return []change{{"add", path, to}}
	}

	return []change{{"test", path, *from}, {"replace", path, to}}
}

// writeScale applies a JSON patch. The API server refuses it where another command has written in the meantime.
func writeScale(ctx context.Context, in *mgmtcluster.Cluster, object client.Object, changes []change) error {
	name := object.GetName()
	patch, err := json.Marshal(changes)
	if err != nil {
		return fmt.Errorf("failed to encode how to scale %s: %w", name, err)
	}

	err = in.Patch(ctx, object, client.RawPatch(types.JSONPatchType, patch), fieldOwnerOfScale)

	switch {
	case apierrors.IsInvalid(err) && strings.Contains(err.Error(), "the server rejected our request"):
		return fmt.Errorf(
			"another command has changed how many machines %s has since this one looked; run it again: %w", name, err)
	case err != nil:
		return fmt.Errorf("failed to scale %s: %w", name, err)
	}

	return nil
}
