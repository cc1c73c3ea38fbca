package planinput

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/schema"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/source"
)

// generation matches the suffix of template names added by olvmctl upgrade. A cluster file gives the names without a
// suffix.
var generation = regexp.MustCompile(`-[0-9a-f]{8}$`)

func templateFamily(template string) string { return generation.ReplaceAllString(template, "") }

// followGenerations renames the templates of a cluster file to their current or next names in olvmctl upgrade. A
// cluster file does not know the names of later templates.
func (m *Input) followGenerations(ctx context.Context, c client.Reader, namespaces []string) error {
	kind := infrav1.GroupVersion.WithKind("OLVMMachineTemplate")
	before := map[*unstructured.Unstructured]string{}

	for _, owner := range m.Owners {
		_, ref := MachineRefs(owner)
		before[owner] = ref.Name
	}

	var first []types.NamespacedName // names that owners of machines no longer use

	for _, namespace := range namespaces {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)

		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("failed to list objects of kind %s in the management cluster: %w", kind.Kind, err)
		}

		for _, owner := range m.Owners {
			_, before := MachineRefs(owner)
			if err := m.followGeneration(owner, list.Items); err != nil {
				return err
			}

			if _, after := MachineRefs(owner); after != before {
				first = append(first, types.NamespacedName{Namespace: owner.GetNamespace(), Name: before.Name})
			}
		}
	}

	used := func(key types.NamespacedName) bool {
		return slices.ContainsFunc(m.Owners, func(owner *unstructured.Unstructured) bool {
			_, ref := MachineRefs(owner)
			return owner.GetNamespace() == key.Namespace && ref.Name == key.Name && ref.IsOf("OLVMMachineTemplate")
		})
	}

	for _, key := range first { // the management cluster decides about any object with this name
		if !used(key) {
			delete(m.Templates, key)
		}
	}

	m.renameSources(before)

	return nil
}

// renameSources gives the templates of a cluster file the names now used by its owners of machines. before has the
// former template name of each owner.
func (m *Input) renameSources(before map[*unstructured.Unstructured]string) {
	var out []source.Object

	for _, object := range m.sources {
		renamed := []*unstructured.Unstructured{object.Unstructured}
		if object.GetKind() == "OLVMMachineTemplate" {
			renamed = m.generationsOf(object.Unstructured, before)
		}

		for _, one := range renamed {
			out = append(out, source.Object{Unstructured: one, From: object.From})
		}
	}

	m.addSources(out)
}

// FollowGenerations returns the objects of a cluster file as olvmctl upgrade applies them to a management cluster. A
// template that differs from the running one gets the next name, because templates cannot change.
func FollowGenerations(
	ctx context.Context, objects []*unstructured.Unstructured, c client.Reader,
) ([]*unstructured.Unstructured, error) {
	copies := make([]*unstructured.Unstructured, 0, len(objects))
	for _, object := range objects {
		copies = append(copies, object.DeepCopy())
	}

	m, err := LoadClusterFile(copies)
	if err != nil {
		return nil, err
	}

	if err := m.followGenerations(ctx, c, m.manifestNamespaces()); err != nil {
		return nil, err
	}

	var out []*unstructured.Unstructured
	for _, object := range m.sources {
		out = append(out, object.Unstructured)
	}

	return out, nil
}

// generationsOf returns a copy of a template for each name now used by its owners of machines. before has the former
// template name of each owner. If no owner has used the template, it stays as it is.
func (m *Input) generationsOf(
	template *unstructured.Unstructured, before map[*unstructured.Unstructured]string,
) []*unstructured.Unstructured {
	var names []string

	for _, owner := range m.Owners {
		_, ref := MachineRefs(owner)
		isOwners := owner.GetNamespace() == template.GetNamespace() && before[owner] == template.GetName() &&
			ref.IsOf("OLVMMachineTemplate")

		if isOwners && !slices.Contains(names, ref.Name) {
			names = append(names, ref.Name)
		}
	}

	if len(names) == 0 {
		return []*unstructured.Unstructured{template}
	}

	var out []*unstructured.Unstructured

	for _, name := range names {
		renamed := template.DeepCopy()
		renamed.SetName(name)
		out = append(out, renamed)
	}

	return out
}

// followGeneration changes the template name in one owner of machines, if templates with this name exist.
func (m *Input) followGeneration(owner *unstructured.Unstructured, there []unstructured.Unstructured) error {
	_, ref := MachineRefs(owner)
	key := types.NamespacedName{Namespace: owner.GetNamespace(), Name: ref.Name}
	template := m.Templates[key]

	if template == nil || owner.GetKind() == "Machine" || !ref.IsOf("OLVMMachineTemplate") {
		return nil
	}

	wanted, err := defaultedSpec(AsMap(template.Spec))
	if err != nil {
		return err
	}

	name := ""

	for i := range there {
		live := &there[i]
		if live.GetNamespace() != key.Namespace || templateFamily(live.GetName()) != templateFamily(key.Name) {
			continue
		}

		spec, _, _ := unstructured.NestedMap(live.Object, "spec")
		if has, err := defaultedSpec(spec); err != nil {
			return err
		} else if FirstDifference(wanted, has, "") == "" && FirstDifference(has, wanted, "") == "" {
			return m.renameTemplate(owner, key, live.GetName())
		}

		if name == "" {
			name, err = nextGeneration(key.Name, wanted)
			if err != nil {
				return err
			}
		}
	}

	if name == "" {
		return nil // this is the first template
	}

	return m.renameTemplate(owner, key, name)
}

// defaultedSpec returns the spec of a template with the defaults of the API server.
func defaultedSpec(spec map[string]any) (map[string]any, error) {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(infrav1.GroupVersion.WithKind("OLVMMachineTemplate"))

	defaulted, err := schema.WithDefaults(object)
	if err != nil {
		return nil, err
	}

	out, _, _ := unstructured.NestedMap(defaulted.Object, "spec")

	return out, nil
}

// nextGeneration returns the name given by olvmctl upgrade to a template with this spec. It assumes that the API server
// has the defaults of this release.
func nextGeneration(name string, spec map[string]any) (string, error) {
	machine, _, _ := unstructured.NestedMap(spec, "template", "spec")

	content, err := json.Marshal(machine)
	if err != nil {
		return "", fmt.Errorf("failed to encode a template: %w", err)
	}

	sum := sha256.Sum256(content)

	return fmt.Sprintf("%s-%x", templateFamily(name), sum[:4]), nil
}

func (m *Input) renameTemplate(owner *unstructured.Unstructured, key types.NamespacedName, name string) error {
	template := m.Templates[key].DeepCopy()
	template.Name = name
	m.Templates[types.NamespacedName{Namespace: key.Namespace, Name: name}] = template

	for _, path := range [][]string{
		{"spec", "infrastructureRef"}, {"spec", "template", "spec", "infrastructureRef"},
		{"spec", "machineTemplate", "spec", "infrastructureRef"}, {"spec", "machineTemplate", "infrastructureRef"},
	} {
		if _, found, _ := unstructured.NestedMap(owner.Object, path...); found {
			return unstructured.SetNestedField(owner.Object, name, append(path, "name")...)
		}
	}

	return nil
}
