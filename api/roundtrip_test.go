package api_test

import (
	"encoding/json"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// ownKinds returns a scheme and the kinds of the project in it, with their lists.
func ownKinds(t testing.TB) (*runtime.Scheme, []schema.GroupVersionKind) {
	t.Helper()
	scheme := runtime.NewScheme()
	check.Error(t, api.AddToScheme(scheme), "")

	var kinds []schema.GroupVersionKind

	for kind, of := range scheme.AllKnownTypes() {
		if kind.Group == api.Group && of.PkgPath() != reflect.TypeFor[metav1.ObjectMeta]().PkgPath() {
			kinds = append(kinds, kind)
		}
	}

	if len(kinds) < 14 {
		t.Fatalf("only %v are registered", kinds)
	}

	return scheme, kinds
}

// filler fills objects at random: half of the optional parts are absent, and lists have one to three entries. An empty
// list equals an absent one, except for those of TestWhatIsEmptyOrZeroStaysIfItIsNotTheSameAsAbsent.
func filler(scheme *runtime.Scheme, seed int64) *randfill.Filler {
	codecs := serializer.NewCodecFactory(scheme)
	// metav1.Time has JSON's precision of seconds.
	whole := func(at *metav1.Time, random randfill.Continue) {
		*at = metav1.Unix(random.Int63n(1<<32), 0)
	}

	return fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), codecs).
		NilChance(.5).NumElements(1, 3).Funcs(whole)
}

// FuzzEveryObjectSurvivesJSONAndYAML fills an object of each kind, writes it as JSON and as YAML, and reads it again as
// strictly as the API server does. It expects the same object and the same text.
func FuzzEveryObjectSurvivesJSONAndYAML(f *testing.F) {
	for seed := range int64(20) {
		f.Add(seed)
	}

	scheme, kinds := ownKinds(f)

	f.Fuzz(func(t *testing.T, seed int64) {
		random := filler(scheme, seed)

		for _, kind := range kinds {
			object, err := scheme.New(kind)
			check.Error(t, err, "")
			random.Fill(object)
			object.GetObjectKind().SetGroupVersionKind(kind)
			checkSurvives(t, kind.Kind, object)
		}
	})
}

// checkSurvives compares an object with its copies through JSON and YAML.
func checkSurvives(t *testing.T, kind string, object runtime.Object) {
	t.Helper()

	for format, code := range map[string]struct {
		encode func(any) ([]byte, error)
		decode func([]byte, any) error
	}{
		"JSON": {json.Marshal, json.Unmarshal},
		"YAML": {yaml.Marshal, func(text []byte, into any) error { return yaml.UnmarshalStrict(text, into) }},
	} {
		text, err := code.encode(object)
		check.Error(t, err, "")
		read := reflect.New(reflect.TypeOf(object).Elem()).Interface().(runtime.Object)
		check.Error(t, code.decode(text, read), "")
		again, err := code.encode(read)
		check.Error(t, err, "")
		check.Equal(t, kind+" in "+format, string(again), string(text))

		if !equality.Semantic.DeepEqual(object, read) {
			t.Errorf("%s: %s lost a value:\n%s", kind, format, text)
		}
	}
}

// TestWhatIsEmptyOrZeroStaysIfItIsNotTheSameAsAbsent has the values with a meaning other than their absence.
func TestWhatIsEmptyOrZeroStaysIfItIsNotTheSameAsAbsent(t *testing.T) {
	scheme, kinds := ownKinds(t)

	for _, kind := range kinds {
		object, err := scheme.New(kind)
		check.Error(t, err, "")
		setPointers(reflect.ValueOf(object).Elem(), 0)
		object.GetObjectKind().SetGroupVersionKind(kind)
		checkSurvives(t, kind.Kind+" with pointers to zero values", object)
	}

	cluster := &infrav1.OLVMCluster{Spec: infrav1.OLVMClusterSpec{AffinityGroups: []infrav1.AffinityGroup{}}}
	text, err := json.Marshal(cluster)
	check.Error(t, err, "")
	check.Contains(t, "an OLVMCluster without affinity groups", string(text), `"affinityGroups":[]`)
	read := &infrav1.OLVMCluster{}
	check.Error(t, json.Unmarshal(text, read), "")
	check.Equal(t, "the empty list is read", read.Spec.AffinityGroups != nil, true)
}

// unset are types of Kubernetes with a zero value equal to absence.
var unset = []reflect.Type{reflect.TypeFor[*metav1.Time](), reflect.TypeFor[*metav1.FieldsV1]()}

// setPointers makes each pointer of a structure point to a zero value.
func setPointers(value reflect.Value, depth int) {
	if depth > 12 {
		return
	}

	switch value.Kind() {
	case reflect.Pointer:
		if value.CanSet() && value.IsNil() {
			value.Set(reflect.New(value.Type().Elem()))
		}

		setPointers(value.Elem(), depth+1)
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() && !slices.Contains(unset, value.Field(i).Type()) {
				setPointers(value.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		if value.CanSet() && value.IsNil() && value.Type().Elem().Kind() == reflect.Struct {
			value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		}

		if value.Len() > 0 {
			setPointers(value.Index(0), depth+1)
		}
	}
}
