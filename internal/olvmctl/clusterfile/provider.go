package clusterfile

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// These are the names of the providers.
const (
	OLVMProvider = "olvm"
	OCIProvider  = "oci"
)

// provider has the parts of cluster files that depend on the provider.
type provider struct {
	// path is the path of the provider's settings. The fields below point to settings that every provider has.
	path        string
	namespace   *string
	selfManaged *bool
	proxy       *Proxy
	// setDefaults sets missing settings. check finds errors in the settings.
	setDefaults func()
	check       func(*Source)
	// networks returns the networks of the machines by path.
	networks func() map[string]string
	// manifests returns the manifests of a cluster. It is nil if the manifests depend on facts known only to the cloud.
	manifests func(s *Source, flavor string) ([]*unstructured.Unstructured, error)
}

// allProviders returns all providers by name.
func (f *File) allProviders() map[string]provider {
	o, c := &f.Providers.OLVM, &f.Providers.OCI

	return map[string]provider{
		OLVMProvider: {
			path:        "providers.olvm.",
			namespace:   &o.Namespace,
			selfManaged: &o.SelfManaged,
			proxy:       &o.Proxy,
			setDefaults: f.setOLVMDefaults,
			check:       (*Source).checkOLVM,
			networks:    f.olvmNetworks,
			manifests:   (*Source).olvmManifests,
		},
		OCIProvider: {
			path:        "providers.oci.",
			namespace:   &c.Namespace,
			selfManaged: &c.SelfManaged,
			proxy:       &c.Proxy,
			setDefaults: f.setOCIDefaults,
			check:       (*Source).checkOCI,
			networks:    func() map[string]string { return map[string]string{"providers.oci": vcnNetwork} },
		},
	}
}

// selectProvider returns the provider named in the file, or olvm if the file names no known provider.
func (f *File) selectProvider() provider {
	all := f.allProviders()
	if found, ok := all[f.Provider]; ok {
		return found
	}

	return all[OLVMProvider]
}

// ProviderNames returns the names of all providers, sorted.
func ProviderNames() []string { return slices.Sorted(maps.Keys((&File{}).allProviders())) }

// providerNames returns a text with the names of all providers.
func (f *File) providerNames() string {
	return strings.Join(ProviderNames(), " or ")
}

// ProviderName returns the name of the cluster's provider.
func (f *File) ProviderName() string { return cmp.Or(f.Provider, OLVMProvider) }

// UsesTerraform reports whether Terraform creates the machines. If it does, olvmctl can show plans for them.
func (f *File) UsesTerraform() bool { return f.selectProvider().manifests != nil }

// Namespace returns the namespace of all objects in the management cluster.
func (f *File) Namespace() string { return cmp.Or(*f.selectProvider().namespace, defaultNamespace) }

// NamespaceKey returns the path of the namespace in the file.
func (f *File) NamespaceKey() string { return f.selectProvider().path + "namespace" }

// SelfManaged reports whether the cluster should manage itself.
func (f *File) SelfManaged() bool { return *f.selectProvider().selfManaged }
