package planinput

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// instanceLabel is the label by which Argo CD finds its objects, if it tracks objects by label. Helm charts and users
// set this label, too, so it proves nothing by itself.
const instanceLabel = "app.kubernetes.io/instance"

// instanceMarks has the values of the instance label that identify a GitOps tool.
type instanceMarks struct {
	// applications are the Argo CD Applications in the management cluster.
	applications []string
	// written are the label values in the manifests themselves. Objects applied from these manifests have the same
	// values.
	written []string
	// note explains why the label is not the mark of a tool. It is empty if the label is such a mark, or if no live
	// object has the label.
	note string
}

// readInstanceMarks reads the values of the instance label in the manifests. If a live object has the label, it also
// lists the Applications of Argo CD. The list is empty if Argo CD is missing, or if the user may not list Applications.
func (m *Input) readInstanceMarks(ctx context.Context, c client.Reader) error {
	marks := &m.pruning.marks

	for _, object := range m.sources {
		if value := object.GetLabels()[instanceLabel]; value != "" && !slices.Contains(marks.written, value) {
			marks.written = append(marks.written, value)
		}
	}

	isMarked := func(o *unstructured.Unstructured) bool { return o.GetLabels()[instanceLabel] != "" }
	if !slices.ContainsFunc(m.pruning.written, isMarked) {
		return nil
	}

	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"})

	err := c.List(ctx, list)
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return fmt.Errorf("failed to list Applications of Argo CD in the management cluster: %w", err)
	}

	for i := range list.Items {
		marks.applications = append(marks.applications, list.Items[i].GetName())
	}

	marks.note = "; " + instanceLabel + " alone does not identify a tool, because you may not list an Argo CD " +
		"Application with that name"

	return nil
}

// gitOps returns the GitOps tool of an object, judging by its labels and annotations, or "".
func (i instanceMarks) gitOps(object client.Object) string {
	labels, annotations := object.GetLabels(), object.GetAnnotations()
	if name := labels["kustomize.toolkit.fluxcd.io/name"]; name != "" {
		return "Flux Kustomization " + labels["kustomize.toolkit.fluxcd.io/namespace"] + "/" + name
	}

	if name := labels["helm.toolkit.fluxcd.io/name"]; name != "" {
		return "Flux HelmRelease " + labels["helm.toolkit.fluxcd.io/namespace"] + "/" + name
	}

	if application := trackedBy(object); application != "" {
		return "Argo CD Application " + application
	}

	for _, known := range []struct{ key, name string }{
		{"argocd.argoproj.io/instance", "Argo CD Application"},
		{"applyset.kubernetes.io/part-of", "apply set"},
		{"kapp.k14s.io/app", "kapp"},
		{"objectset.rio.cattle.io/hash", "Fleet bundle"},
	} {
		if value := labels[known.key]; value != "" {
			return known.name + " " + value
		}
	}

	if value := annotations["config.k8s.io/owning-inventory"]; value != "" {
		return "inventory " + value
	}

	if name := annotations["meta.helm.sh/release-name"]; name != "" {
		return "Helm release " + annotations["meta.helm.sh/release-namespace"] + "/" + name
	}

	switch value := labels[instanceLabel]; {
	case value != "" && slices.Contains(i.applications, value):
		return "Argo CD Application " + value
	case value != "" && slices.Contains(i.written, value):
		return "instance " + value
	}

	return ""
}

// trackedBy returns the Application in the tracking ID of an object, or "". A tracking ID is valid only for one object.
// Controllers copy annotations of other objects. A copied ID does not count, because Argo CD does not prune the copy.
func trackedBy(object client.Object) string {
	application, tracked, found := strings.Cut(object.GetAnnotations()["argocd.argoproj.io/tracking-id"], ":")

	kind, name, named := strings.Cut(tracked, ":")
	kind = kind[strings.LastIndex(kind, "/")+1:]
	own := object.GetObjectKind().GroupVersionKind().Kind

	if !found || !named || own != "" && own != kind || name != object.GetNamespace()+"/"+object.GetName() {
		return ""
	}

	return application
}

// forbidsPruning reports whether an object forbids its GitOps tool to prune it. Argo CD's Delete=false does not count,
// because it applies only to the deletion of the Application.
func forbidsPruning(object client.Object) bool {
	labels, annotations := object.GetLabels(), object.GetAnnotations()

	for _, key := range []string{"kustomize.toolkit.fluxcd.io/prune", "kustomize.toolkit.fluxcd.io/reconcile"} {
		if labels[key] == "disabled" || annotations[key] == "disabled" {
			return true
		}
	}

	for _, option := range strings.Split(annotations["argocd.argoproj.io/sync-options"], ",") {
		if strings.TrimSpace(option) == "Prune=false" {
			return true
		}
	}

	return annotations["helm.sh/resource-policy"] == "keep" ||
		annotations["kapp.k14s.io/delete-strategy"] == "orphan" ||
		annotations["client.lifecycle.config.k8s.io/deletion"] == "detach"
}

// findPrunedAccess adds a tool's objects for engine access if the manifests lack them. If a cluster outlives its
// Secret, it can no longer be changed or deleted. It omits objects without a tool, because users also create such
// objects by hand.
func (m *Input) findPrunedAccess() {
	p := &m.pruning
	consider := func(kind string, object client.Object, written bool) {
		tool := p.marks.gitOps(object)
		if written || !slices.Contains(p.tools, tool) || forbidsPruning(object) ||
			len(object.GetOwnerReferences()) > 0 ||
			p.asked != nil && !*p.asked {
			return
		}

		p.objects = append(p.objects, Pruned{
			Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), By: tool,
		})
	}

	before := len(p.objects)

	for key, secret := range m.Running.Secrets {
		consider("Secret", secret, m.Written.Secrets[key] != nil || m.Written.Encrypted[key] != "")
	}

	for key, configMap := range m.Running.ConfigMaps {
		consider("ConfigMap", configMap, m.Written.ConfigMaps[key] != nil)
	}

	for key, identity := range m.Running.Identities {
		consider("OLVMClusterIdentity", identity, m.Written.Identities[key] != nil)
	}

	slices.SortFunc(p.objects[before:], func(a, b Pruned) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name))
	})
}
