package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
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

	var workers *clusterv1.MachineDeployment
	if o.Workers != nil { // which one is decided before anything is written
		if workers, err = o.deployment(ctx, in); err != nil {
			return err
		}
	}

	if o.ControlPlane != nil {
		controlPlane := &controlplanev1.KubeadmControlPlane{
			ObjectMeta: metav1.ObjectMeta{Namespace: in.Namespace, Name: cluster.Spec.ControlPlaneRef.Name},
		}
		if err := scaleObject(ctx, in, controlPlane, *o.ControlPlane, say); err != nil {
			return err
		}

		sayOfAddresses(ctx, in, cluster, controlPlane.Spec.MachineTemplate.Spec.InfrastructureRef, *o.ControlPlane, say)
	}

	if workers == nil {
		return nil
	}

	if err := scaleObject(ctx, in, workers, *o.Workers, say); err != nil {
		return err
	}

	sayOfAddresses(ctx, in, cluster, workers.Spec.Template.Spec.InfrastructureRef, *o.Workers, say)

	return nil
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
	before := cluster.DeepCopy()
	topology := &cluster.Spec.Topology
	if o.ControlPlane != nil {
		topology.ControlPlane.Replicas = o.ControlPlane
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

		topology.Workers.MachineDeployments[at].Replicas = o.Workers
	}

	if err := in.Patch(ctx, cluster, client.MergeFrom(before), fieldOwnerOfScale); err != nil {
		return fmt.Errorf("failed to scale the topology: %w", err)
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
	ctx context.Context, in *mgmtcluster.Cluster, object client.Object, replicas int32, say func(line string),
) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	if err := in.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), fieldOwnerOfScale); err != nil {
		return fmt.Errorf("failed to scale %s: %w", object.GetName(), err)
	}

	say(fmt.Sprintf("%s is to have %s", object.GetName(), english.Plural(int(replicas), "machine", "")))

	return nil
}
