// Package schema predicts how an API server would judge manifests, without asking one. It checks for unknown fields,
// and checks the schemas and rules in this release's CRDs.
package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	//nolint:staticcheck // manifests in v1beta1 are valid until Cluster API removes it
	bootstrapv1beta1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	//nolint:staticcheck // see above
	controlplanev1beta1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta1"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	//nolint:staticcheck // see above
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
)

// types are the Go types of the kinds used in plans, in each version served by Cluster API or by this release. Versions
// of a kind have different fields.
var types = map[schema.GroupVersionKind]reflect.Type{
	clusterv1.GroupVersion.WithKind("Cluster"):                  reflect.TypeFor[clusterv1.Cluster](),
	clusterv1.GroupVersion.WithKind("MachineDeployment"):        reflect.TypeFor[clusterv1.MachineDeployment](),
	clusterv1.GroupVersion.WithKind("MachineHealthCheck"):       reflect.TypeFor[clusterv1.MachineHealthCheck](),
	clusterv1.GroupVersion.WithKind("MachinePool"):              reflect.TypeFor[clusterv1.MachinePool](),
	clusterv1.GroupVersion.WithKind("MachineSet"):               reflect.TypeFor[clusterv1.MachineSet](),
	clusterv1.GroupVersion.WithKind("Machine"):                  reflect.TypeFor[clusterv1.Machine](),
	controlplanev1.GroupVersion.WithKind("KubeadmControlPlane"): reflect.TypeFor[controlplanev1.KubeadmControlPlane](),
	bootstrapv1.GroupVersion.WithKind("KubeadmConfig"):          reflect.TypeFor[bootstrapv1.KubeadmConfig](),
	bootstrapv1.GroupVersion.WithKind("KubeadmConfigTemplate"):  reflect.TypeFor[bootstrapv1.KubeadmConfigTemplate](),

	clusterv1beta1.GroupVersion.WithKind("Cluster"):            reflect.TypeFor[clusterv1beta1.Cluster](),
	clusterv1beta1.GroupVersion.WithKind("MachineDeployment"):  reflect.TypeFor[clusterv1beta1.MachineDeployment](),
	clusterv1beta1.GroupVersion.WithKind("MachineHealthCheck"): reflect.TypeFor[clusterv1beta1.MachineHealthCheck](),
	clusterv1beta1.GroupVersion.WithKind("MachinePool"):        reflect.TypeFor[clusterv1beta1.MachinePool](),
	clusterv1beta1.GroupVersion.WithKind("MachineSet"):         reflect.TypeFor[clusterv1beta1.MachineSet](),
	clusterv1beta1.GroupVersion.WithKind("Machine"):            reflect.TypeFor[clusterv1beta1.Machine](),
	controlplanev1beta1.GroupVersion.WithKind("KubeadmControlPlane"): reflect.
		TypeFor[controlplanev1beta1.KubeadmControlPlane](),
	bootstrapv1beta1.GroupVersion.WithKind("KubeadmConfig"): reflect.TypeFor[bootstrapv1beta1.KubeadmConfig](),
	bootstrapv1beta1.GroupVersion.WithKind("KubeadmConfigTemplate"): reflect.
		TypeFor[bootstrapv1beta1.KubeadmConfigTemplate](),

	infrav1.GroupVersion.WithKind("OLVMCluster"):         reflect.TypeFor[infrav1.OLVMCluster](),
	infrav1.GroupVersion.WithKind("OLVMMachine"):         reflect.TypeFor[infrav1.OLVMMachine](),
	infrav1.GroupVersion.WithKind("OLVMMachineTemplate"): reflect.TypeFor[infrav1.OLVMMachineTemplate](),
	infrav1alpha1.GroupVersion.WithKind("OLVMClusterIdentity"): reflect.
		TypeFor[infrav1alpha1.OLVMClusterIdentity](),
	infrav1alpha1.GroupVersion.WithKind("OLVMInventory"):   reflect.TypeFor[infrav1alpha1.OLVMInventory](),
	infrav1alpha1.GroupVersion.WithKind("OLVMInventoryVM"): reflect.TypeFor[infrav1alpha1.OLVMInventoryVM](),
	infrav1alpha1.GroupVersion.WithKind("OLVMRemediation"): reflect.TypeFor[infrav1alpha1.OLVMRemediation](),
	infrav1alpha1.GroupVersion.WithKind("OLVMRemediationTemplate"): reflect.
		TypeFor[infrav1alpha1.OLVMRemediationTemplate](),
	infrav1alpha1.GroupVersion.WithKind("OLVMSupportServices"): reflect.
		TypeFor[infrav1alpha1.OLVMSupportServices](),
}

// Kinds returns the kinds used in plans, in each version served. Newer versions are in front.
func Kinds() []schema.GroupVersionKind {
	return slices.SortedFunc(maps.Keys(types), func(a, b schema.GroupVersionKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind),
			version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
}

// Problem is an error in an object.
type Problem struct {
	// Line is the line in the file, or 0 if unknown.
	Line int
	// Path is the path of the field.
	Path string
	// Message describes the error and its remedy.
	Message string
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}

	return p.Path + ": " + p.Message
}

// UnknownFields returns the fields of an object that its kind does not have. An API server would drop these fields, or
// reject the object. node is the object as written in the file, or nil if unknown.
func UnknownFields(object *unstructured.Unstructured, node *yaml.Node) []Problem {
	known, found := types[object.GroupVersionKind()]
	if !found {
		return nil
	}

	return unknownIn(object.Object, node, known, "")
}

func unknownIn(value any, node *yaml.Node, t reflect.Type, path string) []Problem {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	if readsItself(t) {
		return nil
	}

	var out []Problem

	switch value := value.(type) {
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}

		for i, item := range value {
			out = append(out, unknownIn(item, itemOf(node, i), t.Elem(), fmt.Sprintf("%s[%d]", path, i))...)
		}
	case map[string]any:
		if t.Kind() == reflect.Map {
			for _, key := range slices.Sorted(maps.Keys(value)) {
				_, inner := fieldOf(node, key)
				out = append(out, unknownIn(value[key], inner, t.Elem(), path+"["+key+"]")...)
			}
		}

		if t.Kind() == reflect.Struct {
			out = unknownOfStruct(value, node, fieldsOf(t), path)
		}
	}

	return out
}

func unknownOfStruct(value map[string]any, node *yaml.Node, known map[string]reflect.Type, path string) []Problem {
	var out []Problem

	for _, key := range slices.Sorted(maps.Keys(value)) {
		line, inner := fieldOf(node, key)
		full := strings.TrimPrefix(path+"."+key, ".")

		if field, found := known[key]; found {
			out = append(out, unknownIn(value[key], inner, field, full)...)
			continue
		}

		out = append(out, Problem{Line: line, Path: full, Message: "unknown field" +
			clusterfile.DidYouMean(key, slices.Collect(maps.Keys(known)))})
	}

	return out
}

// readsItself reports whether a type defines its own JSON format.
func readsItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		t == reflect.TypeFor[metav1.FieldsV1]()
}

// fieldsOf returns the types of a struct's fields by their JSON names.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}

	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")

		if name == "" && (field.Anonymous || strings.Contains(options, "inline")) {
			maps.Copy(out, fieldsOf(field.Type))
		} else if name != "" && name != "-" {
			out[name] = field.Type
		}
	}

	return out
}

// fieldOf returns the line and the value of a key.
func fieldOf(node *yaml.Node, key string) (int, *yaml.Node) {
	if node == nil || node.Kind != yaml.MappingNode {
		return 0, nil
	}

	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i].Line, node.Content[i+1]
		}
	}

	return 0, nil
}

func itemOf(node *yaml.Node, i int) *yaml.Node {
	if node == nil || node.Kind != yaml.SequenceNode || i >= len(node.Content) {
		return nil
	}

	return node.Content[i]
}

// LineOf returns the line of a path such as spec.disks[0].size. If the path is missing, it returns the line of the
// deepest existing part, or 0.
func LineOf(node *yaml.Node, path string) int {
	line := 0
	if node != nil {
		line = node.Line
	}

	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		var index int
		if _, err := fmt.Sscanf(step, "%d", &index); err == nil && node != nil && node.Kind == yaml.SequenceNode {
			if node = itemOf(node, index); node != nil {
				line = node.Line
			}

			continue
		}

		at, inner := fieldOf(node, step)
		if at == 0 {
			return line
		}

		line, node = at, inner
	}

	return line
}
