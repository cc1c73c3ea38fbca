package pass

import (
	"bytes"
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// newFieldsClient returns an API server with one machine. Before the first release of fields, it calls meanwhile, and
// answers with its error.
func newFieldsClient(
	t *testing.T, machine *infrav1.OLVMMachine, meanwhile func(context.Context, client.Client) error,
) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	check.Error(t, api.AddToScheme(scheme), "")

	isFirst := true
	interrupt := func(
		ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
		options ...client.PatchOption,
	) error {
		data, err := patch.Data(object)
		if err == nil && isFirst && bytes.Contains(data, []byte("managedFields")) {
			isFirst = false
			err = meanwhile(ctx, c)
		}

		if err != nil {
			return err
		}

		return c.Patch(ctx, object, patch, options...)
	}

	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(machine).WithStatusSubresource(machine).
		WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{Patch: interrupt}).Build()
}

// ownersOfProviderID returns the managers that own the provider ID of a machine.
func ownersOfProviderID(machine *infrav1.OLVMMachine) []string {
	var owners []string

	for _, entry := range machine.ManagedFields {
		if entry.FieldsV1 != nil && bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte("f:providerID")) {
			owners = append(owners, entry.Manager)
		}
	}

	return owners
}

// TestAFilledInFieldIsReleasedByALaterPass interrupts the release of a provider ID in several ways. The next pass
// repeats the release, although it has nothing else to write.
func TestAFilledInFieldIsReleasedByALaterPass(t *testing.T) {
	for name, test := range map[string]struct {
		meanwhile  func(context.Context, client.Client) error
		isOutdated bool
		label      string
	}{
		"somebody else writes": {
			meanwhile: func(ctx context.Context, c client.Client) error {
				other := &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}}
				label := client.RawPatch(client.Merge.Type(), []byte(`{"metadata":{"labels":{"other":"yes"}}}`))

				return c.Patch(ctx, other, label, client.FieldOwner("somebody"))
			},
			isOutdated: true,
			label:      "yes",
		},
		"the API server fails": {
			meanwhile: func(context.Context, client.Client) error {
				return apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}}
			key := client.ObjectKeyFromObject(machine)
			c := newFieldsClient(t, machine, test.meanwhile)
			passes := &Tracker{}

			this, err := passes.BeginPass(t.Context(), c, key, machine)
			check.Error(t, err, "")

			machine.Spec.ProviderID = "olvm://one"
			err = this.WriteObject(t.Context())
			check.Equal(t, "there is an error", err != nil, true)
			check.Equal(t, "the error is that of an outdated object", errors.Is(err, errOutdated), test.isOutdated)
			passes.endPass(key)

			machine = &infrav1.OLVMMachine{}
			this, err = passes.BeginPass(t.Context(), c, key, machine)
			check.Error(t, err, "")
			check.Equal(t, "owners before the second pass", ownersOfProviderID(machine), []string{string(FieldOwner)})
			check.Error(t, this.WriteObject(t.Context()), "")
			check.Length(t, "owners after the second pass", ownersOfProviderID(machine), 0)

			machine.Labels = map[string]string{"other": test.label, "more": "yes"}
			check.Error(t, this.WriteObject(t.Context()), "")

			check.Error(t, c.Get(t.Context(), key, machine), "")
			check.Length(t, "owners at the end", ownersOfProviderID(machine), 0)
			check.Equal(t, "the provider ID", machine.Spec.ProviderID, "olvm://one")
			check.Equal(t, "the label of somebody else", machine.Labels["other"], test.label)
			check.Equal(t, "the label of the second pass", machine.Labels["more"], "yes")
		})
	}
}

// TestManagedFieldsAreCachedUntilTheyAreReleased caches machines with fields of several owners.
func TestManagedFieldsAreCachedUntilTheyAreReleased(t *testing.T) {
	newEntry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		entry := metav1.ManagedFieldsEntry{
			Manager: manager, Subresource: subresource, Operation: metav1.ManagedFieldsOperationUpdate,
			FieldsV1: &metav1.FieldsV1{},
		}
		entry.FieldsV1.SetRawBytes([]byte(fields))

		return entry
	}
	finalizers := newEntry(string(FieldOwner), "", `{"f:metadata":{"f:finalizers":{}}}`)

	for name, test := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		cached  int
	}{
		"nothing to release": {entries: []metav1.ManagedFieldsEntry{finalizers}},
		"somebody else's": {
			entries: []metav1.ManagedFieldsEntry{newEntry("a", "", `{"f:spec":{"f:providerID":{}}}`)},
		},
		"an unreadable entry": {entries: []metav1.ManagedFieldsEntry{newEntry(string(FieldOwner), "", `{`)}},
		"a filled-in field": {
			entries: []metav1.ManagedFieldsEntry{
				finalizers, newEntry(string(FieldOwner), "", `{"f:spec":{"f:controlPlaneEndpoint":{"f:host":{}}}}`),
			},
			cached: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := &infrav1.OLVMCluster{ObjectMeta: metav1.ObjectMeta{ManagedFields: test.entries}}
			out, err := StripManagedFields(in)
			check.Error(t, err, "")
			cluster, ok := out.(*infrav1.OLVMCluster)
			check.Equal(t, "it is a cluster", ok, true)
			check.Length(t, "entries", cluster.ManagedFields, test.cached)
		})
	}
}
