package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// generation is what successor ends names with.
var generation = regexp.MustCompile(`-[0-9a-f]{8}$`)

// family is the name that a template and all its successors begin with.
func family(template string) string { return generation.ReplaceAllString(template, "") }

// sameGeneration is the name of a template or successor with that specification, of which machines may be made already;
// empty where there is none.
func sameGeneration(there []infrav1.OLVMMachineTemplate, template string, spec infrav1.OLVMMachineTemplateSpec) string {
	for i := range there {
		if family(there[i].Name) == family(template) && there[i].DeletionTimestamp.IsZero() &&
			equality.Semantic.DeepEqual(there[i].Spec, spec) {
			return there[i].Name
		}
	}

	return ""
}

// successor is a template with another specification, under a name that follows from it: the same again makes no other.
func successor(
	template *infrav1.OLVMMachineTemplate, spec infrav1.OLVMMachineTemplateSpec,
) (*infrav1.OLVMMachineTemplate, error) {
	content, err := json.Marshal(spec.Template.Spec)
	if err != nil {
		return nil, fmt.Errorf("failed to encode an OLVMMachineTemplate: %w", err)
	}

	sum := sha256.Sum256(content)

	return &infrav1.OLVMMachineTemplate{
		TypeMeta: metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "OLVMMachineTemplate"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: template.Namespace, Labels: template.Labels,
			Name: fmt.Sprintf("%s-%x", family(template.Name), sum[:4]),
		},
		Spec: spec,
	}, nil
}

// templateOf is the OLVMMachineTemplate that an owner of machines in the management cluster uses.
func (m *management) templateOf(
	ctx context.Context, owner *unstructured.Unstructured,
) (*infrav1.OLVMMachineTemplate, error) {
	_, reference := machineFields(owner.GetKind())
	name, _, _ := unstructured.NestedString(owner.Object, reference...)
	var template infrav1.OLVMMachineTemplate
	if err := m.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: name}, &template); err != nil {
		return nil, fmt.Errorf("%s %s: failed to get its OLVMMachineTemplate: %w", owner.GetKind(), owner.GetName(),
			err)
	}

	return &template, nil
}

// templatesOf are the OLVMMachineTemplates among manifests, with the API server's defaults, by the names of the owners
// of machines that use them.
func (m *management) templatesOf(
	ctx context.Context, objects []*unstructured.Unstructured,
) (map[string]*infrav1.OLVMMachineTemplate, error) {
	templates := map[string]*infrav1.OLVMMachineTemplate{}

	for _, object := range objects {
		if object.GetKind() != "OLVMMachineTemplate" {
			continue
		}

		template := &infrav1.OLVMMachineTemplate{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, template); err != nil {
			return nil, fmt.Errorf("OLVMMachineTemplate %s: %w", object.GetName(), err)
		}

		template.Name, template.GenerateName = "", object.GetName()+"-"
		if err := m.Create(ctx, template, client.DryRunAll); err != nil {
			return nil, fmt.Errorf("OLVMMachineTemplate %s: %w", object.GetName(), err)
		}

		templates[object.GetName()] = template
	}

	out := map[string]*infrav1.OLVMMachineTemplate{}

	for _, object := range objects {
		if _, reference := machineFields(object.GetKind()); reference != nil {
			used, _, _ := unstructured.NestedString(object.Object, reference...)
			if out[object.GetName()] = templates[used]; templates[used] == nil {
				return nil, fmt.Errorf("%s %s: there is no OLVMMachineTemplate %s beside it", object.GetKind(),
					object.GetName(), used)
			}
		}
	}

	return out, nil
}
