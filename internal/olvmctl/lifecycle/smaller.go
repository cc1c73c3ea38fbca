package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// This file asks before a cluster file that was made smaller takes machines away.

// askAboutGoners asks the user where the cluster file has fewer machines than the cluster.
func (c *creation) askAboutGoners(ctx context.Context) error {
	gone, err := c.goners(ctx)
	if err != nil || len(gone) == 0 {
		return err
	}

	question := fmt.Sprintf("%s has fewer machines than %s in namespace %s of %s:\n  %s\nType the name of the cluster "+
		"to go on: ", c.File.Path, c.File.Name, c.namespace(), c.management.Where(), strings.Join(gone, "\n  "))

	return c.Confirm(question, c.File.Name)
}

// goners are the machines that go, one line for each of their owners.
func (c *creation) goners(ctx context.Context) ([]string, error) {
	objects, err := c.Provider.Manifests(ctx, c)
	if err != nil {
		return nil, err
	}

	var gone []string

	for _, object := range objects {
		if !slices.Contains([]string{"KubeadmControlPlane", "MachineDeployment"}, object.GetKind()) {
			continue
		}

		live := object.DeepCopy()
		err := c.management.Get(ctx, client.ObjectKeyFromObject(object), live)
		if apierrors.IsNotFound(err) {
			continue
		}

		if err != nil {
			return nil, fmt.Errorf("failed to get %s %s: %w", object.GetKind(), object.GetName(), err)
		}

		if one, ok := shrinks(live, object, c.ForceConflicts); ok {
			gone = append(gone, one.alarms()...)
		}
	}

	return gone, nil
}

// shrinks reports whether an owner of machines gets fewer, from which number to which. A number that others have
// written, as Scale does, stays unless the user forces conflicts.
func shrinks(live, object *unstructured.Unstructured, force bool) (sizing, bool) {
	from, known, _ := unstructured.NestedInt64(live.Object, replicas...)
	to, wanted, _ := unstructured.NestedInt64(object.Object, replicas...)
	kept := !force && slices.ContainsFunc(live.GetManagedFields(), func(by metav1.ManagedFieldsEntry) bool {
		return by.Manager != string(manifest.FieldOwner) && by.Subresource != "status" && by.FieldsV1 != nil &&
			strings.Contains(by.FieldsV1.GetRawString(), `"f:replicas"`)
	})

	return sizing{name: object.GetKind() + " " + object.GetName(), from: int32(from), to: int32(to)},
		known && wanted && to < from && !kept
}
