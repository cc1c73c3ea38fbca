package lifecycle

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

// generation matches the suffix of template names created by newSuccessor.
var generation = regexp.MustCompile(`-[0-9a-f]{8}$`)

// templateFamily returns the name of a template without the suffix of a successor.
func templateFamily(template string) string { return generation.ReplaceAllString(template, "") }

// machineSpec returns the machine specification in a template.
func machineSpec(template *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(template.Object, "spec", "template", "spec")
	return spec
}

// sameGeneration returns the name of an existing template or successor with the given specification, or "". Machines
// may already use this template.
func sameGeneration(there []unstructured.Unstructured, template string, spec map[string]any) string {
	for i := range there {
		if templateFamily(there[i].GetName()) == templateFamily(template) && there[i].GetDeletionTimestamp().IsZero() &&
			equality.Semantic.DeepEqual(machineSpec(&there[i]), spec) {
			return there[i].GetName()
		}
	}

	return ""
}

// newSuccessor returns a copy of a template with another machine specification. It derives the name from the
// specification, so the same specification never creates a second template.
func newSuccessor(template *unstructured.Unstructured, spec map[string]any) (*unstructured.Unstructured, error) {
	content, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("failed to encode a %s: %w", template.GetKind(), err)
	}

	sum := sha256.Sum256(content)

	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(template.GroupVersionKind())
	out.SetNamespace(template.GetNamespace())
	out.SetLabels(template.GetLabels())
	out.SetName(fmt.Sprintf("%s-%x", templateFamily(template.GetName()), sum[:4]))
	// The successor keeps the other parts of the template, such as the labels of machines.
	whole, _, _ := unstructured.NestedMap(template.Object, "spec")
	if whole == nil {
		whole = map[string]any{}
	}

	if err := unstructured.SetNestedMap(whole, spec, "template", "spec"); err != nil {
		return nil, fmt.Errorf("%s %s: %w", template.GetKind(), template.GetName(), err)
	}

	return out, unstructured.SetNestedMap(out.Object, whole, "spec")
}

// fetchTemplate returns the template used by an owner of machines in the management cluster.
func fetchTemplate(
	ctx context.Context, in *mgmtcluster.Cluster, owner *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	_, reference := machineFields(owner.GetKind())
	name := templateNameOf(owner)
	kind, _, _ := unstructured.NestedString(owner.Object, append(reference, "kind")...)
	served, err := findServedKind(in, kind)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", owner.GetKind(), owner.GetName(), err)
	}

	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(served)
	if err := in.Get(ctx, client.ObjectKey{Namespace: in.Namespace, Name: name}, template); err != nil {
		return nil, fmt.Errorf("%s %s: failed to get its %s: %w", owner.GetKind(), owner.GetName(), kind, err)
	}

	return template, nil
}

// isTemplate reports whether an object is a template for machines of an infrastructure.
func isTemplate(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().Group == clusterctl.InfrastructureGroup &&
		strings.HasSuffix(object.GetKind(), "MachineTemplate")
}

// templatesOf returns the machine templates in manifests by the names of their owners. It adds the API server's
// defaults.
func templatesOf(
	ctx context.Context, in *mgmtcluster.Cluster, objects []*unstructured.Unstructured,
) (map[string]*unstructured.Unstructured, error) {
	templates := map[string]*unstructured.Unstructured{}

	for _, object := range objects {
		if !isTemplate(object) {
			continue
		}

		template := object.DeepCopy()
		template.SetName("")
		template.SetGenerateName(object.GetName() + "-")
		if err := in.Create(ctx, template, client.DryRunAll); err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}

		templates[object.GetName()] = template
	}

	out := map[string]*unstructured.Unstructured{}

	for _, object := range objects {
		if _, reference := machineFields(object.GetKind()); reference != nil {
			used := templateNameOf(object)
			if out[object.GetName()] = templates[used]; templates[used] == nil {
				return nil, fmt.Errorf("%s %s: no machine template %s found in the manifests", object.GetKind(),
					object.GetName(), used)
			}
		}
	}

	return out, nil
}

// machineFields returns the paths of the version and of the template reference in an owner's kind, or nil for other
// kinds.
func machineFields(kind string) (version, reference []string) {
	switch kind {
	case "KubeadmControlPlane":
		return []string{"spec", "version"}, []string{"spec", "machineTemplate", "spec", "infrastructureRef"}
	case "MachineDeployment":
		return []string{"spec", "template", "spec", "version"},
			[]string{"spec", "template", "spec", "infrastructureRef"}
	}

	return nil, nil
}

// templateNameField returns the path of the template name in an owner of machines.
func templateNameField(owner *unstructured.Unstructured) []string {
	_, reference := machineFields(owner.GetKind())
	return append(reference, "name")
}

// templateNameOf returns the name of an owner's template.
func templateNameOf(owner *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(owner.Object, templateNameField(owner)...)
	return name
}

// versionOf returns the Kubernetes version requested by an owner of machines.
func versionOf(owner *unstructured.Unstructured) string {
	field, _ := machineFields(owner.GetKind())
	version, _, _ := unstructured.NestedString(owner.Object, field...)

	return version
}

// fetchLiveOwner returns the owner of machines as stored in the management cluster. It returns nil if the owner does
// not exist, or if the object is not an owner of machines.
func fetchLiveOwner(
	ctx context.Context, in *mgmtcluster.Cluster, object *unstructured.Unstructured,
) (*unstructured.Unstructured, error) {
	if version, _ := machineFields(object.GetKind()); version == nil {
		return nil, nil
	}

	live := object.DeepCopy()
	err := in.Get(ctx, client.ObjectKeyFromObject(object), live)

	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("failed to get %s %s: %w", object.GetKind(), object.GetName(), err)
	}

	return live, nil
}

// findServedKind returns an infrastructure kind in the version preferred by the management cluster.
func findServedKind(in *mgmtcluster.Cluster, kind string) (schema.GroupVersionKind, error) {
	mapping, err := in.RESTMapper().RESTMapping(schema.GroupKind{Group: clusterctl.InfrastructureGroup, Kind: kind})
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("failed to find kind %s: %w", kind, err)
	}

	return mapping.GroupVersionKind, nil
}

// followTemplates makes the manifests refer to the templates created by Upgrade, if an Upgrade has changed the cluster
// since its creation. Create never replaces machines, so followTemplates fails if the cluster file requires a
// replacement.
func (c *creation) followTemplates(ctx context.Context) error {
	in := c.management.Cluster

	err := in.Get(ctx, client.ObjectKey{Namespace: in.Namespace, Name: c.File.Name}, &clusterv1.Cluster{})
	if err != nil {
		return client.IgnoreNotFound(err)
	}

	wanted, err := templatesOf(ctx, in, c.objects)
	if err != nil {
		return err
	}

	for _, object := range c.objects {
		live, err := fetchLiveOwner(ctx, in, object)
		if err != nil {
			return err
		}

		if live == nil {
			continue
		}

		template, err := fetchTemplate(ctx, in, live)
		if apierrors.IsNotFound(err) && templateNameOf(live) == templateNameOf(object) {
			continue // an earlier command was interrupted before applying the template
		}

		if err != nil {
			return err
		}

		if versionOf(live) != versionOf(object) ||
			!equality.Semantic.DeepEqual(machineSpec(wanted[object.GetName()]), machineSpec(template)) {
			return fmt.Errorf("%s %s has machines that differ from %s; to replace them, run olvmctl upgrade %s -n "+
				"%s -f %s", object.GetKind(), object.GetName(), c.File.Path, c.File.Name, in.Namespace, c.File.Path)
		}

		if err := renameTemplate(c.objects, object, template.GetName()); err != nil {
			return err
		}
	}

	return nil
}

// renameTemplate renames an owner's machine template in manifests.
func renameTemplate(objects []*unstructured.Unstructured, owner *unstructured.Unstructured, to string) error {
	from := templateNameOf(owner)
	if err := unstructured.SetNestedField(owner.Object, to, templateNameField(owner)...); err != nil {
		return fmt.Errorf("%s %s: %w", owner.GetKind(), owner.GetName(), err)
	}

	for _, object := range objects {
		if isTemplate(object) && object.GetName() == from {
			object.SetName(to)
		}
	}

	return nil
}
