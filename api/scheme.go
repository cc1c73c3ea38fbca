// Package api registers the kinds of Cluster API Provider OLVM, of all versions.
package api

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
)

// Group is the API group of all kinds.
const Group = "infrastructure.cluster.x-k8s.io"

// AddToScheme registers the kinds of all versions with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	builder := runtime.NewSchemeBuilder(infrav1.AddToScheme, infrav1alpha1.AddToScheme)

	return builder.AddToScheme(scheme)
}

// FindGroupVersion returns the group and version serving a kind, and false if the kind is not one of this provider.
func FindGroupVersion(kind string) (schema.GroupVersion, bool) {
	for _, version := range []schema.GroupVersion{infrav1.GroupVersion, infrav1alpha1.GroupVersion} {
		if known().Recognizes(version.WithKind(kind)) {
			return version, true
		}
	}

	return schema.GroupVersion{}, false
}

// known has the kinds of all versions.
var known = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(AddToScheme(scheme))

	return scheme
})
