package planinput

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/schema"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/source"
)

// order is an annotation or a label by which a manifest would change machines unseen, with the reason and the remedy.
type order struct {
	// name is a name, or a pattern with a star in front.
	name string
	// values are parts of comma-separated values with this effect. If empty, all values have it.
	values []string
	// inTemplates refuses it only in the metadata of machines to create. The plan shows the effect on one machine.
	inTemplates bool
	reason      string
}

// orders are the orders to Cluster API, and to the tools that apply the manifests. Cluster API's webhook restores
// fields missing in v1beta1 from the first one.
var orders = []order{
	{name: "cluster.x-k8s.io/conversion-data", reason: "is reserved for Cluster API; remove it"},
	{name: "*.internal.cluster.x-k8s.io", reason: "is reserved for Cluster API; remove it"},
	{name: clusterv1.RemediateMachineAnnotation, reason: "makes a MachineHealthCheck destroy machines; remove it, " +
		"and use kubectl annotate"},
	{name: clusterv1.DeleteMachineAnnotation, inTemplates: true, reason: "marks all machines alike, so that their " +
		"age and health no longer decide which is destroyed first; remove it, and annotate one Machine"},
	{name: clusterv1.MachineCertificatesExpiryDateAnnotation, inTemplates: true, reason: "has all machines replaced " +
		"at a time; remove it, and set rollout.after"},
	{name: "argocd.argoproj.io/sync-options", values: []string{"Force=true", "Replace=true"}, reason: "may have Argo " +
		"CD delete the object with its machines, and make it anew; remove Force and Replace"},
	{name: "argocd.argoproj.io/hook", reason: "has Argo CD delete the object with its machines, and make it anew, at " +
		"each sync; remove it"},
	{name: "helm.sh/hook", reason: "has Helm or Argo CD delete the object with its machines, and make it anew; " +
		"remove it"},
	{name: "kustomize.toolkit.fluxcd.io/force", values: []string{"enabled"}, reason: "may have Flux delete the " +
		"object with its machines, and make it anew; remove it"},
	{name: "kapp.k14s.io/update-strategy", values: []string{"always-replace", "fallback-on-replace"}, reason: "may " +
		"have kapp delete the object with its machines, and make it anew; remove it"},
	{name: "config.kubernetes.io/local-config", reason: "has kustomize and Flux leave the object out, so that it is " +
		"pruned with its machines; remove it"},
}

// annotatedParts are the metadata of a manifest, and those copied to the machines of an owner in place.
var annotatedParts = [][]string{
	{"metadata"}, {"spec", "template", "metadata"}, {"spec", "machineTemplate", "metadata"},
}

// appliesTo reports whether an annotation or label is the order.
func (o order) appliesTo(name, value string) bool {
	if domain, isPattern := strings.CutPrefix(o.name, "*"); isPattern {
		prefix, _, _ := strings.Cut(name, "/")
		return strings.HasSuffix(prefix, domain)
	}

	if o.name != name {
		return false
	}

	return len(o.values) == 0 || slices.ContainsFunc(strings.Split(value, ","), func(part string) bool {
		return slices.Contains(o.values, strings.TrimSpace(part))
	})
}

// checkOrders refuses annotations and labels with orders to Cluster API, or to the tools that apply the manifests.
func checkOrders(objects []source.Object) error {
	var errs []error

	for _, object := range objects {
		if !strings.HasSuffix(object.GroupVersionKind().Group, clusterv1.GroupVersion.Group) {
			continue
		}

		for i, part := range annotatedParts {
			for _, field := range []string{"annotations", "labels"} {
				path := append(slices.Clone(part), field)
				values, _, _ := unstructured.NestedMap(object.Object, path...)

				for _, name := range slices.Sorted(maps.Keys(values)) {
					at := slices.IndexFunc(orders, func(o order) bool {
						return o.appliesTo(name, fmt.Sprint(values[name])) && (i > 0 || !o.inTemplates)
					})
					if at < 0 {
						continue
					}

					where := strings.Join(path, ".")
					errs = append(errs, problemOf(object, schema.Problem{
						Line: schema.LineOf(object.Node, where), Path: where,
						Message: fmt.Sprintf("%s %s", name, orders[at].reason),
					}))
				}
			}
		}
	}

	return errors.Join(errs...)
}
