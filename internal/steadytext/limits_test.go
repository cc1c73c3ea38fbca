package steadytext

import (
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// statuses returns the objects whose status contains texts from outside of the manager.
func statuses() map[string]any {
	return map[string]any{
		"olvmmachinetemplates": &infrav1.OLVMMachineTemplate{},
		"olvmclusters":         &infrav1.OLVMCluster{}, "olvmmachines": &infrav1.OLVMMachine{},
		"olvminventories": &infrav1alpha1.OLVMInventory{}, "olvminventoryvms": &infrav1alpha1.OLVMInventoryVM{},
		"olvmclusteridentities": &infrav1alpha1.OLVMClusterIdentity{},
		"olvmsupportservices":   &infrav1alpha1.OLVMSupportServices{},
	}
}

// statusSchema returns the schema of the status in the CRD with the given plural name.
func statusSchema(t *testing.T, plural string) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../../config/crd/bases",
		"infrastructure.cluster.x-k8s.io_"+plural+".yaml"))
	check.Error(t, err, "")

	var crd apiextensionsv1.CustomResourceDefinition
	check.Error(t, yaml.UnmarshalStrict(content, &crd), "")

	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
}

// TestEachTextAndListOfAStatusFitsItsCRD fills every status with texts and lists that are too long. After BoundStatus,
// it compares each of them with the limits in the CRD.
func TestEachTextAndListOfAStatusFitsItsCRD(t *testing.T) {
	for plural, object := range statuses() {
		status := reflect.ValueOf(object).Elem().FieldByName("Status")
		flood(status)
		BoundStatus(object)

		checked := expectFits(t, plural+".status", status, statusSchema(t, plural))
		check.Equal(t, plural+" has fields with limits", checked > 0, true)
	}
}

// isOurs reports whether a structure belongs to our API. Structures of other APIs have their own limits.
func isOurs(of reflect.Type) bool {
	return path.Dir(of.PkgPath()) == path.Dir(reflect.TypeFor[infrav1.OLVMCluster]().PkgPath())
}

// tooLong is a text for every field. It starts with a control sequence for terminals.
var tooLong = "\x1b[31mü" + strings.Repeat("é", 17000)

// flood fills every part of a value with too much data.
func flood(value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		flood(value.Elem())
	case reflect.Slice:
		if value.Type() == reflect.TypeFor[[]metav1.Condition]() {
			value.Set(reflect.ValueOf([]metav1.Condition{{Type: "Ready", Message: tooLong}}))
		} else if of := value.Type().Elem(); of.Kind() == reflect.String || isOurs(of) {
			value.Set(reflect.MakeSlice(value.Type(), 1100, 1100))

			for i := range 2 {
				flood(value.Index(i))
			}
		}
	case reflect.String:
		value.SetString(tooLong)
	case reflect.Struct:
		for i := range value.NumField() {
			if isOurs(value.Type()) {
				flood(value.Field(i))
			}
		}
	}
}

// expectFits compares a value with its schema, and returns the number of limits in the schema.
func expectFits(t *testing.T, at string, value reflect.Value, schema apiextensionsv1.JSONSchemaProps) int {
	t.Helper()

	switch value.Kind() {
	case reflect.Pointer:
		return expectFits(t, at, value.Elem(), schema)
	case reflect.String:
		return expectShort(t, at, value.String(), schema)
	case reflect.Slice:
		if value.Len() == 0 {
			return 0
		} else if schema.MaxItems == nil || int64(value.Len()) > *schema.MaxItems {
			t.Errorf("%s: %d items are kept, and the CRD takes %d", at, value.Len(), ptr.Deref(schema.MaxItems, 0))
			return 0
		}

		return 1 + expectFits(t, at+"[]", value.Index(0), *schema.Items.Schema)
	case reflect.Struct:
		checked := 0

		for i := range value.NumField() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			if isOurs(value.Type()) || name == "message" {
				checked += expectFits(t, at+"."+name, value.Field(i), schema.Properties[name])
			}
		}

		return checked
	default:
		return 0
	}
}

func expectShort(t *testing.T, at, text string, schema apiextensionsv1.JSONSchemaProps) int {
	t.Helper()

	switch {
	case len(schema.Enum) > 0 || text == "":
		return 0
	case schema.MaxLength == nil:
		t.Errorf("%s: the CRD says no longest text", at)
	case int64(len(text)) > *schema.MaxLength:
		t.Errorf("%s: a text of %d bytes is kept, and the CRD takes %d", at, len(text), *schema.MaxLength)
	case *schema.MaxLength > 70 && int64(len(text)) < *schema.MaxLength-6:
		t.Errorf("%s: only %d bytes are kept of %d", at, len(text), *schema.MaxLength)
	case strings.Contains(text, "\x1b"):
		t.Errorf("%s: a terminal would obey it", at)
	}

	return 1
}
