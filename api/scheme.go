// Package api registers the kinds of Cluster API Provider OLVM, of all versions.
package api

import (
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
)

// AddToScheme registers the kinds of all versions with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	builder := runtime.NewSchemeBuilder(infrav1.AddToScheme, infrav1alpha1.AddToScheme)

	return builder.AddToScheme(scheme)
}
