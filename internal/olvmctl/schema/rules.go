package schema

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/config"
)

// rules are the rules of one kind.
type rules struct {
	structural *structuralschema.Structural
	fields     validation.SchemaValidator
	cel        *cel.Validator
}

// CRDs are the rules of CustomResourceDefinitions, by group, version and kind.
type CRDs map[string]*rules

// ofRelease returns the rules of the CRDs in this release.
var ofRelease = sync.OnceValues(func() (CRDs, error) {
	files, err := fs.Glob(config.Files, "crd/bases/*.yaml")
	if err != nil {
		return nil, err
	}

	out := CRDs{}

	for _, file := range files {
		content, err := fs.ReadFile(config.Files, file)
		if err != nil {
			return nil, err
		}

		var crd apiextensionsv1.CustomResourceDefinition
		if err := k8syaml.Unmarshal(content, &crd); err != nil {
			return nil, fmt.Errorf("failed to read %s: %w", file, err)
		}

		if err := out.Add(&crd); err != nil {
			return nil, err
		}
	}

	return out, nil
})

// Add adds the rules of a CustomResourceDefinition.
func (c CRDs) Add(crd *apiextensionsv1.CustomResourceDefinition) error {
	for _, version := range crd.Spec.Versions {
		if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			continue
		}

		read, err := rulesOf(version.Schema.OpenAPIV3Schema)
		if err != nil {
			return fmt.Errorf("failed to read CustomResourceDefinition %s: %w", crd.Name, err)
		}

		c[crd.Spec.Group+"/"+version.Name+"/"+crd.Spec.Names.Kind] = read
	}

	return nil
}

func rulesOf(props *apiextensionsv1.JSONSchemaProps) (*rules, error) {
	internal := &apiextensions.JSONSchemaProps{}

	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, internal, nil)
	if err != nil {
		return nil, err
	}

	structural, err := structuralschema.NewStructural(internal)
	if err != nil {
		return nil, err
	}

	fields, _, err := validation.NewSchemaValidator(internal)
	if err != nil {
		return nil, err
	}

	return &rules{structural, fields, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// FindViolations returns the violations of CRDs by an object. old is the object to be replaced, or nil. live are the
// CRDs of a management cluster. The CRDs of this release replace missing ones. They have no rules for third-party
// kinds. One exception is an even number of control plane machines, because a webhook rejects it.
func FindViolations(
	ctx context.Context, live CRDs, object, old *unstructured.Unstructured, node *yaml.Node,
) ([]Problem, error) {
	all, err := ofRelease()
	if err != nil {
		return nil, err
	}

	out := evenControlPlane(object, node)
	key := object.GetAPIVersion() + "/" + object.GetKind()

	if rule := live[key]; rule != nil {
		return append(
			out,
			append(rule.unknownFields(object, node), rule.findViolations(ctx, object, old, node)...)...), nil
	}

	if rule := all[key]; rule != nil {
		out = append(out, rule.findViolations(ctx, object, old, node)...)
	}

	return out, nil
}

// findViolations returns the violations of the rules by an object.
func (r *rules) findViolations(ctx context.Context, object, old *unstructured.Unstructured, node *yaml.Node) []Problem {
	wanted := object.DeepCopy().Object
	defaulting.Default(wanted, r.structural)

	var before any
	if old != nil {
		before = old.Object
	}

	errs := validation.ValidateCustomResource(nil, wanted, r.fields)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, r.structural, wanted)...)

	if len(errs) == 0 { // rules may rely on the types of fields
		errs, _ = r.cel.Validate(ctx, nil, r.structural, wanted, before, celconfig.RuntimeCELCostBudget)
	}

	return problemsOf(errs, node)
}

// unknownFields returns the fields of an object that its kind in the management cluster does not have.
func (r *rules) unknownFields(object *unstructured.Unstructured, node *yaml.Node) []Problem {
	var out []Problem

	for _, path := range pruning.PruneWithOptions(object.DeepCopy().Object, r.structural, true,
		structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}) {
		out = append(out, Problem{Line: LineOf(node, path), Path: path, Message: "unknown field in the management " +
			"cluster; upgrade the provider of " + object.GetKind() + " there, or remove the field"})
	}

	return out
}

func problemsOf(errs field.ErrorList, node *yaml.Node) []Problem {
	var out []Problem

	for _, err := range errs {
		path := strings.TrimPrefix(err.Field, "<nil>")
		path = strings.TrimPrefix(path, ".")
		message := strings.TrimPrefix(err.Error(), err.Field+": ")
		problem := Problem{Line: LineOf(node, path), Path: path, Message: message}

		if !slices.Contains(out, problem) {
			out = append(out, problem)
		}
	}

	return out
}

// evenControlPlane rejects an even number of control plane machines with etcd. Such a control plane tolerates no more
// failures than one with one machine less.
func evenControlPlane(object *unstructured.Unstructured, node *yaml.Node) []Problem {
	if object.GetKind() != "KubeadmControlPlane" {
		return nil
	}

	replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	_, external, _ := unstructured.NestedMap(object.Object, "spec", "kubeadmConfigSpec", "clusterConfiguration", "etcd",
		"external")

	if replicas == 0 || replicas%2 == 1 || external {
		return nil
	}

	return []Problem{{Line: LineOf(node, "spec.replicas"), Path: "spec.replicas", Message: fmt.Sprintf(
		"%d is even, but etcd requires an odd number of machines; use %d or %d", replicas, replicas-1, replicas+1)}}
}

// WithDefaults returns an object with the defaults in this release's CRDs, as an API server would.
func WithDefaults(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	all, err := ofRelease()
	if err != nil {
		return nil, err
	}

	out := object.DeepCopy()
	if rule := all[object.GetAPIVersion()+"/"+object.GetKind()]; rule != nil {
		defaulting.Default(out.Object, rule.structural)
	}

	return out, nil
}
