package api_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/refused"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// earlier is a group for CRDs without rules at the time its objects were stored.
const earlier = "earlier.example.com"

// TestWhatIsStoredOutlivesANewRule stores each value refused today under CRDs without rules, and applies the rules of
// today. The manager must still remove finalizers and write the status, and a user must be able to delete the object.
func TestWhatIsStoredOutlivesANewRule(t *testing.T) {
	server := startedServer(t)
	crds := newClient(t, server)
	strict := map[string]*apiextensionsv1.CustomResourceDefinition{}

	for _, crd := range readCRDs(t) {
		crd.Spec.Group = earlier
		crd.Name = crd.Spec.Names.Plural + "." + earlier
		crd.Spec.Names.Categories, crd.Spec.Names.ShortNames = nil, nil
		strict[crd.Spec.Names.Kind] = crd.DeepCopy()
		loosen(crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
		check.Error(t, crds.Create(t.Context(), &crd), "")
	}

	stored := storeRefused(t, server)

	for kind, crd := range strict {
		current := &apiextensionsv1.CustomResourceDefinition{}
		check.Error(t, crds.Get(t.Context(), client.ObjectKeyFromObject(crd), current), "")

		current.Spec = crd.Spec
		check.Error(t, crds.Update(t.Context(), current), "")
		expectStrict(t, server.Client, kind, crd.Spec.Versions[0].Name)
	}

	for name, object := range stored {
		if err := outlives(t, server.Client, object); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// newClient returns a client with support for CRDs.
func newClient(t *testing.T, server *testsite.APIServer) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	check.Error(t, apiextensionsv1.AddToScheme(scheme), "")

	out, err := client.New(server.Config, client.Options{Scheme: scheme})
	check.Error(t, err, "")

	return out
}

// loosen removes all restrictions from a schema.
func loosen(s *apiextensionsv1.JSONSchemaProps) {
	s.XValidations, s.Enum, s.Pattern, s.Required = nil, nil, "", nil
	s.MinLength, s.MaxLength, s.MinItems, s.MaxItems = nil, nil, nil, nil
	s.MinProperties, s.MaxProperties, s.Minimum, s.Maximum = nil, nil, nil, nil
	s.XListType, s.XListMapKeys = nil, nil

	for name, property := range s.Properties {
		loosen(&property)
		s.Properties[name] = property
	}

	if s.Items != nil {
		loosen(s.Items.Schema)
	}

	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		loosen(s.AdditionalProperties.Schema)
	}
}

// storeRefused creates an object with each value refused today, with a finalizer. Each has its own name or, if the name
// is the value, its own namespace.
func storeRefused(t *testing.T, server *testsite.APIServer) map[string]*unstructured.Unstructured {
	t.Helper()
	out := map[string]*unstructured.Unstructured{}

	for i, value := range refused.Values {
		if value.Message == "" {
			continue
		}

		unique := fmt.Sprintf("earlier-%d", i)
		object, err := value.BuildObject("default")
		check.Error(t, err, "")

		switch {
		case object.GetKind() == "OLVMClusterIdentity":
			object.SetNamespace("")
			object.SetName(unique)
		case value.Path == "metadata.name":
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unique}}
			check.Error(t, server.Client.Create(t.Context(), namespace), "")
			object.SetNamespace(unique)
		default:
			object.SetName(unique)
		}

		object.SetAPIVersion(strings.Replace(object.GetAPIVersion(), api.Group, earlier, 1))
		object.SetFinalizers([]string{earlier + "/finalizer"})

		wait.For(t, value.Name()+" is stored", func() error { return server.Client.Create(t.Context(), object) })

		out[value.Name()] = object
	}

	check.Equal(t, "there are values", len(out) > 200, true)

	return out
}

// expectStrict waits until the API server refuses an empty object.
func expectStrict(t *testing.T, server client.Client, kind, version string) {
	t.Helper()
	wait.For(t, kind+" has rules", func() error {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: earlier, Version: version, Kind: kind})
		object.SetNamespace("default")
		object.SetName("empty")

		if err := server.Create(t.Context(), object, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("an empty %s: %w", kind, err)
		}

		return nil
	})
}

// outlives makes the usual writes of the manager and of users to an object without changing its spec, and deletes it.
func outlives(t *testing.T, server client.Client, object *unstructured.Unstructured) error {
	t.Helper()
	object.SetLabels(map[string]string{"a": "b"})
	if err := server.Update(t.Context(), object); err != nil {
		return fmt.Errorf("a label is refused: %w", err)
	}

	check.Error(t, unstructured.SetNestedSlice(object.Object, []any{map[string]any{
		"type": "Ready", "status": "False", "reason": "Invalid", "message": "",
		"lastTransitionTime": "2026-01-02T03:04:05Z",
	}}, "status", "conditions"), "")

	switch err := server.Status().Update(t.Context(), object); {
	case apierrors.IsNotFound(err): // a kind without a status
	case err != nil:
		return fmt.Errorf("the status is refused: %w", err)
	}

	if err := server.Delete(t.Context(), object); err != nil {
		return fmt.Errorf("it cannot be deleted: %w", err)
	}

	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := server.Patch(t.Context(), object, patch); err != nil {
		return fmt.Errorf("the finalizer cannot be removed: %w", err)
	}

	if err := server.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
		return errors.Join(errors.New("it is still there"), err)
	}

	return nil
}
