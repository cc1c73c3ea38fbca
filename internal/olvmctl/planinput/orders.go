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

// orders are the annotations by which manifests would change machines unseen, with the reason and the remedy. Cluster
// API's webhook restores fields missing in v1beta1 from the first one.
var orders = map[string]string{
	"cluster.x-k8s.io/conversion-data": "is reserved for Cluster API; remove it",
	clusterv1.RemediateMachineAnnotation: "makes a MachineHealthCheck destroy machines; remove it, and use kubectl " +
		"annotate instead",
}

// annotatedParts are the metadata of a manifest, and those copied to the machines of an owner in place.
var annotatedParts = [][]string{
	{"metadata"}, {"spec", "template", "metadata"}, {"spec", "machineTemplate", "metadata"},
}

// checkAnnotations refuses annotations with orders to Cluster API.
func checkAnnotations(objects []source.Object) error {
	var errs []error

	for _, object := range objects {
		if !strings.HasSuffix(object.GroupVersionKind().Group, clusterv1.GroupVersion.Group) {
			continue
		}

		for _, part := range annotatedParts {
			path := append(slices.Clone(part), "annotations")
			annotations, _, _ := unstructured.NestedMap(object.Object, path...)

			for _, name := range slices.Sorted(maps.Keys(orders)) {
				if _, found := annotations[name]; !found {
					continue
				}

				at := strings.Join(path, ".")
				errs = append(errs, problemOf(object, schema.Problem{
					Line: schema.LineOf(object.Node, at), Path: at, Message: fmt.Sprintf("%s %s", name, orders[name]),
				}))
			}
		}
	}

	return errors.Join(errs...)
}
