package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

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
