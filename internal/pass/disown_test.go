package pass

import (
	"bytes"
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// TestAFilledInFieldIsReleasedAlthoughSomebodyElseWrites lets another client write a machine between the pass's write
// of the provider ID and its release.
func TestAFilledInFieldIsReleasedAlthoughSomebodyElseWrites(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

	interrupted := false
	writeMeanwhile := func(
		ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
		options ...client.PatchOption,
	) error {
		data, err := patch.Data(object)
		if err == nil && !interrupted && bytes.Contains(data, []byte("managedFields")) {
			interrupted = true
			other := &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}}
			label := client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"labels":{"other":"yes"}}}`))
			err = c.Patch(ctx, other, label, client.FieldOwner("somebody"))
		}

		if err != nil {
			return err
		}

		return c.Patch(ctx, object, patch, options...)
	}

	machine := &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(machine).WithStatusSubresource(machine).
		WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{Patch: writeMeanwhile}).Build()

	passes := &Tracker{}
	this, err := passes.BeginPass(t.Context(), c, client.ObjectKeyFromObject(machine), machine)
	if err != nil {
		t.Fatal(err)
	}

	machine.Spec.ProviderID = "olvm://one"
	if err := this.WriteObject(t.Context()); !errors.Is(err, errOutdated) || !interrupted {
		t.Errorf("got %v, want the error that somebody else has written the machine", err)
	}

	if err := c.Get(t.Context(), client.ObjectKeyFromObject(machine), machine); err != nil {
		t.Fatal(err)
	}

	if machine.Spec.ProviderID != "olvm://one" || machine.Labels["other"] != "yes" {
		t.Errorf("a write is lost: provider ID %q, labels %v", machine.Spec.ProviderID, machine.Labels)
	}

	for _, entry := range machine.ManagedFields {
		if entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte("f:providerID")) {
			t.Errorf("%s still owns the provider ID", entry.Manager)
		}
	}
}

// TestARefusedReleaseIsNoOutdatedObject refuses the second attempt to release a field. The pass must not take this
// error for a change by somebody else, because it would drop it.
func TestARefusedReleaseIsNoOutdatedObject(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

	attempts := 0
	refuse := func(
		ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
		options ...client.PatchOption,
	) error {
		machines := schema.GroupResource{Group: infrav1.GroupVersion.Group, Resource: "olvmmachines"}

		if data, err := patch.Data(object); err == nil && bytes.Contains(data, []byte("managedFields")) {
			if attempts++; attempts == 1 {
				return apierrors.NewConflict(machines, "m", nil)
			}

			return apierrors.NewForbidden(machines, "m", nil)
		}

		return c.Patch(ctx, object, patch, options...)
	}

	machine := &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(machine).WithStatusSubresource(machine).
		WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{Patch: refuse}).Build()

	this, err := (&Tracker{}).BeginPass(t.Context(), c, client.ObjectKeyFromObject(machine), machine)
	if err != nil {
		t.Fatal(err)
	}

	machine.Spec.ProviderID = "olvm://one"
	err = this.WriteObject(t.Context())
	if !apierrors.IsForbidden(err) || errors.Is(err, errOutdated) || attempts != 2 {
		t.Errorf("got %v after %d attempts, want the refusal alone", err, attempts)
	}
}
