package lifecycle

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

// This file signs Create's Secrets during a move. They may outlive their Cluster at the source. The sign tells the rest
// of a move from that of a deletion, even if the Leases are released.

// listCreated returns Create's objects for Secrets in a namespace.
func listCreated(ctx context.Context, in *mgmtcluster.Cluster, namespace string) ([]client.Object, error) {
	var out []client.Object

	for kind, labels := range map[schema.GroupVersionKind]client.ListOption{
		corev1.SchemeGroupVersion.WithKind("Secret"):          client.MatchingLabels{managedBy: managedByValue},
		newOCIObject("OCIClusterIdentity").GroupVersionKind(): client.HasLabels{clusterv1.ClusterNameLabel},
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)

		err := in.List(ctx, list, client.InNamespace(namespace), labels)
		if err != nil && !meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("failed to list the %ss of olvmctl: %w", kind.Kind, err)
		}

		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(list.GroupVersionKind())
			out = append(out, &list.Items[i])
		}
	}

	return out, nil
}

// signCreated signs Create's objects for Secrets before their move. It removes the note of a deletion that has not
// deleted their Cluster: with that note, a deletion would take the rest of the move for its own.
func signCreated(ctx context.Context, in *mgmtcluster.Cluster, namespace, sign string) error {
	list, err := listCreated(ctx, in, namespace)
	if err != nil {
		return err
	}

	for _, object := range list {
		err := patchRead(ctx, in, object, func(object client.Object) {
			annotations := maps.Clone(object.GetAnnotations())
			if annotations == nil {
				annotations = map[string]string{}
			}

			delete(annotations, reachedAnnotation)
			annotations[movingAnnotation] = sign
			object.SetAnnotations(annotations)
		})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to begin the move of %s: %w", nameOf(object), err)
		}
	}

	return nil
}

// unsignCreated removes the signs of this move at both ends. clusterctl leaves objects at the source that belong to no
// Cluster.
func (m *move) unsignCreated(ctx context.Context) error {
	for _, end := range []*management{m.from, m.to} {
		list, err := listCreated(ctx, end.Cluster, m.from.Namespace)
		if err != nil {
			return err
		}

		for _, object := range list {
			if object.GetAnnotations()[movingAnnotation] != m.markerText() {
				continue
			}

			err := patchRead(ctx, end.Cluster, object, func(object client.Object) {
				annotations := maps.Clone(object.GetAnnotations())
				maps.DeleteFunc(annotations, func(key, value string) bool {
					return key == movingAnnotation && value == m.markerText()
				})
				object.SetAnnotations(annotations)
			})
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("failed to end the move of %s: %w", nameOf(object), err)
			}
		}
	}

	return nil
}

// isSigned reports whether a Cluster has the sign of a move.
func isSigned(cluster clusterv1.Cluster) bool { return cluster.Annotations[movingAnnotation] != "" }

// dropLease removes the Lease of a killed move, unless the namespace may have another rest of it: a Secret of Create
// without a user, and without the note of a deletion.
func (d *deletion) dropLease(ctx context.Context) error {
	list, err := listCreated(ctx, d.management.Cluster, d.management.Namespace)
	if apierrors.IsForbidden(err) {
		return nil // it stays
	} else if err != nil {
		return err
	}

	users, err := listUsers(ctx, d.management.Cluster)
	if err != nil && !apierrors.IsForbidden(err) {
		return err
	}

	for _, object := range list {
		isOne := func(of client.Object) bool { return nameOf(of) == nameOf(object) }
		isUsed := func(by user) bool { return by.uses == client.ObjectKeyFromObject(object) }

		if object.GetAnnotations()[reachedAnnotation] == "" && !slices.ContainsFunc(d.kept, isOne) &&
			!slices.ContainsFunc(users, isUsed) {
			return nil
		}
	}

	return dropMoveLease(ctx, d.management.Cluster)
}

// checkUnsigned fails if an object has the sign of a move. clusterctl replaces it by its own before a deletion.
func checkUnsigned(in *mgmtcluster.Cluster, objects []client.Object) error {
	for _, object := range objects {
		sign := object.GetAnnotations()[movingAnnotation]
		if _, goes := object.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]; !goes && sign == "" {
			continue
		}

		kind, _, _ := strings.Cut(nameOf(object), " ")

		return fmt.Errorf("%s is left over from a move of namespace %s out of or into %s, which was interrupted, "+
			"or is still running; run the same command again, or run olvmctl move -n %s with the kubeconfigs of "+
			"both management clusters. If no move is running, remove the object, and run this command again: %s",
			nameOf(object),
			in.Namespace, in.Server(), in.Namespace,
			in.ShellAccess().CommandLine("kubectl", "-n", object.GetNamespace(), "delete", kind, object.GetName()))
	}

	return nil
}
