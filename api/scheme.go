// Package api registers the kinds of Cluster API Provider OLVM, of all versions.
package api

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

// GroupVersionOf returns the group and version that serve a kind, and false if the kind is not one of this provider.
func GroupVersionOf(kind string) (schema.GroupVersion, bool) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		return schema.GroupVersion{}, false
	}

	for _, version := range []schema.GroupVersion{infrav1.GroupVersion, infrav1alpha1.GroupVersion} {
		if scheme.Recognizes(version.WithKind(kind)) {
			return version, true
		}
	}

	return schema.GroupVersion{}, false
}
