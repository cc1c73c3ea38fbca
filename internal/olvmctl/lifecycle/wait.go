package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clustertree"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
)

// The checks in this file return nil once a condition holds. Until then, their errors name what is missing.

// checkControlPlane succeeds once the control plane has its first machine.
func checkControlPlane(ctx context.Context, in *mgmtcluster.Cluster, name string) error {
	return checkInitialized(ctx, in, name, func(s clusterv1.ClusterInitializationStatus) *bool {
		return s.ControlPlaneInitialized
	})
}

// checkKnown succeeds once Cluster API has seen the infrastructure of the cluster.
func checkKnown(ctx context.Context, in *mgmtcluster.Cluster, name string) error {
	return checkInitialized(ctx, in, name, func(s clusterv1.ClusterInitializationStatus) *bool {
		return s.InfrastructureProvisioned
	})
}

func checkInitialized(
	ctx context.Context, in *mgmtcluster.Cluster, name string, field func(clusterv1.ClusterInitializationStatus) *bool,
) error {
	cluster, err := in.GetCluster(ctx, name)
	if err != nil {
		return err
	}

	if ptr.Deref(field(cluster.Status.Initialization), false) {
		return nil
	}

	return findTrouble(ctx, in, name)
}

// checkReady succeeds once all machines have ready nodes and no machine is about to be replaced.
func checkReady(ctx context.Context, in *mgmtcluster.Cluster, name string) error {
	tree, err := in.Describe(ctx, name)
	if err != nil {
		return err
	}

	for _, child := range tree.Children {
		if child.Waiting != "" {
			return waitingError(child.Waiting, tree)
		}
	}

	return nil
}

// checkNotTerminating succeeds if a namespace is not being deleted, or cannot be read.
func checkNotTerminating(ctx context.Context, in *mgmtcluster.Cluster, name string) error {
	namespace := &corev1.Namespace{}
	err := in.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if err != nil || namespace.Status.Phase != corev1.NamespaceTerminating {
		return nil //nolint:nilerr // what comes next needs the namespace, and reports that it is not there
	}

	text := fmt.Sprintf("namespace %s is still being deleted", name)

	for _, c := range namespace.Status.Conditions {
		if c.Type == corev1.NamespaceContentRemaining && c.Status == corev1.ConditionTrue {
			text += ": " + c.Message
		}
	}

	return errors.New(text)
}

// checkGone succeeds once the Cluster and all objects of this provider are gone.
func checkGone(ctx context.Context, in *mgmtcluster.Cluster, of Provider, name string) error {
	tree, err := in.Describe(ctx, name)
	var missing *mgmtcluster.NotFoundError
	if errors.As(err, &missing) {
		return checkMachinesGone(ctx, in, of, name)
	}

	if err != nil {
		return err
	}

	machines, trouble := tree.CountMachines()
	if trouble != "" {
		trouble = "; " + trouble
	}

	return fmt.Errorf("%s left%s", english.Plural(machines, "machine is", "machines are"), trouble)
}

// checkMachinesGone succeeds once no machine of the infrastructure is left.
func checkMachinesGone(ctx context.Context, in *mgmtcluster.Cluster, of Provider, name string) error {
	kind := of.Components().MachineKind
	served, err := findServedKind(in, kind)
	if err != nil {
		return err
	}

	machines := &metav1.PartialObjectMetadataList{}
	machines.SetGroupVersionKind(served)

	err = in.List(ctx, machines, client.InNamespace(in.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: name,
	})
	if err != nil {
		return fmt.Errorf("failed to list the %ss: %w", kind, err)
	}

	if len(machines.Items) > 0 {
		return fmt.Errorf("%s left", english.Plural(len(machines.Items), kind+" is", kind+"s are"))
	}

	return nil
}

// findTrouble returns the innermost problem in the tree of a cluster.
func findTrouble(ctx context.Context, in *mgmtcluster.Cluster, name string) error {
	tree, err := in.Describe(ctx, name)
	if err != nil {
		return err
	}

	return waitingError(tree.DescribeTrouble(), tree)
}

// waitingError returns the error of a check that still waits for parts of a cluster. It is final if one of them is
// stuck.
func waitingError(what string, parts ...*clustertree.Node) error {
	for _, part := range parts {
		if stuck := part.StuckAt(); stuck != "" {
			return progress.MarkFinal(errors.New(stuck))
		}
	}

	return errors.New(what)
}
