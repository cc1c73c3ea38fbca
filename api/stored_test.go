package api_test

import (
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// variants returns the objects of testdata/stored, with a value in each field of each kind. Mutually exclusive parts
// are in separate objects. The templates also contain the specs of the machines and the clusters.
func variants(t *testing.T, scheme *runtime.Scheme) []client.Object {
	t.Helper()
	read, err := manifest.ReadFiles("testdata/stored")
	check.Error(t, err, "")

	var out []client.Object

	for _, u := range read {
		object, err := scheme.New(u.GroupVersionKind())
		check.Error(t, err, "")

		text, err := yaml.Marshal(u)
		check.Error(t, err, "")
		check.Error(t, yaml.UnmarshalStrict(text, object), "")
		out = append(out, object.(client.Object))

		switch from := object.(type) {
		case *infrav1.OLVMMachine:
			template := &infrav1.OLVMMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: from.Name}}
			template.Spec.Template.Spec = *from.Spec.DeepCopy()
			template.Spec.Template.Spec.ProviderID = "" // it belongs to one machine
			out = append(out, template)
		case *infrav1.OLVMCluster:
			template := &infrav1.OLVMClusterTemplate{ObjectMeta: metav1.ObjectMeta{Name: from.Name}}
			template.Spec.Template.Spec = *from.Spec.DeepCopy()
			out = append(out, template)
		}
	}

	return out
}

// TestTheAPIServerKeepsEachField stores a value of each field of each kind, and reads it back: no field is pruned,
// defaulted or renamed. It compares Go's output rather than Go's reading of it.
func TestTheAPIServerKeepsEachField(t *testing.T) {
	server := startedServer(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "stored"}}
	check.Error(t, server.Client.Create(t.Context(), namespace), "")

	for _, object := range variants(t, server.Scheme) {
		kind, err := server.Client.GroupVersionKindFor(object)
		check.Error(t, err, "")
		object.GetObjectKind().SetGroupVersionKind(kind)

		want := asJSON(t, object)
		stored := want.DeepCopy()

		namespaced, err := server.Client.IsObjectNamespaced(object)
		check.Error(t, err, "")

		if namespaced {
			stored.SetNamespace(namespace.Name)
		}

		name := kind.Kind + " " + object.GetName()
		if err := server.Client.Create(t.Context(), stored, client.FieldValidation("Strict")); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}

		if status, ok := want.Object["status"]; ok {
			stored.Object["status"] = status
			check.Error(t, server.Client.Status().Update(t.Context(), stored, client.FieldValidation("Strict")), "")
		}

		got := &unstructured.Unstructured{}
		got.SetGroupVersionKind(kind)
		check.Error(t, server.Client.Get(t.Context(), client.ObjectKeyFromObject(stored), got), "")

		for _, part := range []string{"spec", "status"} {
			check.Equal(t, name+" "+part, text(t, got.Object[part]), text(t, want.Object[part]))
		}
	}
}

// asJSON returns an object in Go's JSON form, with an API server's number types.
func asJSON(t *testing.T, object client.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := json.Marshal(object)
	check.Error(t, err, "")

	out := &unstructured.Unstructured{}
	check.Error(t, out.UnmarshalJSON(content), "")

	return out
}

func text(t *testing.T, value any) string {
	t.Helper()
	content, err := yaml.Marshal(value)
	check.Error(t, err, "")

	return string(content)
}

// TestTheVariantsHaveEachField walks the types of each kind: the test above stores a new field only if a variant has
// it.
func TestTheVariantsHaveEachField(t *testing.T) {
	scheme, kinds := ownKinds(t)
	set := map[string]map[string]bool{}

	for _, object := range variants(t, scheme) {
		kind := reflect.TypeOf(object).Elem().Name()
		if set[kind] == nil {
			set[kind] = map[string]bool{}
		}

		collectSet(reflect.ValueOf(object).Elem(), set[kind])
	}

	for _, kind := range kinds {
		if strings.HasSuffix(kind.Kind, "List") {
			continue
		}

		object, err := scheme.New(kind)
		check.Error(t, err, "")

		all := map[string]bool{}
		collectFields(reflect.TypeOf(object).Elem(), all)
		check.Equal(t, kind.Kind+" has fields", len(all) > 5, true)

		if kind.Kind == "OLVMMachineTemplate" {
			delete(all, "OLVMMachineSpec.ProviderID") // refused in a template
		}

		for _, field := range slices.Sorted(maps.Keys(all)) {
			if !set[kind.Kind][field] {
				t.Errorf("%s: no object of testdata/stored has %s", kind.Kind, field)
			}
		}
	}
}

// isOwnType reports whether a structure is a type of our API.
func isOwnType(of reflect.Type) bool {
	ours := reflect.TypeFor[infrav1.OLVMCluster]().PkgPath()
	return of.Kind() == reflect.Struct && path.Dir(of.PkgPath()) == path.Dir(ours)
}

// collectFields adds the fields of a type and of the types below it.
func collectFields(of reflect.Type, into map[string]bool) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}

	if !isOwnType(of) {
		return
	}

	for i := range of.NumField() {
		field := of.Field(i)
		if field.Type == reflect.TypeFor[metav1.ObjectMeta]() || field.Type == reflect.TypeFor[metav1.TypeMeta]() {
			continue
		}

		into[of.Name()+"."+field.Name] = true

		collectFields(field.Type, into)
	}
}

// collectSet adds the fields with a value.
func collectSet(value reflect.Value, into map[string]bool) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			collectSet(value.Elem(), into)
		}
	case reflect.Slice:
		for i := range value.Len() {
			collectSet(value.Index(i), into)
		}
	case reflect.Struct:
		if !isOwnType(value.Type()) {
			return
		}

		for i := range value.NumField() {
			if !value.Field(i).IsZero() {
				into[value.Type().Name()+"."+value.Type().Field(i).Name] = true

				collectSet(value.Field(i), into)
			}
		}
	}
}
