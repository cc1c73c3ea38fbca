package clusterfile

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Names of providers.
const (
	OLVMProvider = "olvm"
	OCIProvider  = "oci"
)

// provider has the specifics of a provider of cluster files.
type provider struct {
	// path of its settings. Every provider has the fields below.
	path        string
	namespace   *string
	selfManaged *bool
	proxy       *Proxy
	// setDefaults sets its missing settings, and check finds errors in them.
	setDefaults func()
	check       func(*Source)
	// networks returns its machines' networks by path.
	networks func() map[string]string
	// manifests returns the objects of a cluster. It is nil if they depend on facts known only to the cloud.
	manifests func(s *Source, flavor string) ([]*unstructured.Unstructured, error)
}

// allProviders returns the providers by name.
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

// selectProvider returns the provider of the file; olvm if it names no known one.
func (f *File) selectProvider() provider {
	all := f.allProviders()
	if found, ok := all[f.Provider]; ok {
		return found
	}

	return all[OLVMProvider]
}

// ProviderNames returns the names of all providers, sorted.
func ProviderNames() []string { return slices.Sorted(maps.Keys((&File{}).allProviders())) }

// providerNames lists the names of all providers for users.
func (f *File) providerNames() string {
	return strings.Join(ProviderNames(), " or ")
}

// ProviderName returns the name of the cluster's provider.
func (f *File) ProviderName() string { return cmp.Or(f.Provider, OLVMProvider) }

// UsesTerraform reports whether Terraform makes the machines. If so, their plans can be shown.
func (f *File) UsesTerraform() bool { return f.selectProvider().manifests != nil }

// Namespace of all objects in the management cluster.
func (f *File) Namespace() string { return cmp.Or(*f.selectProvider().namespace, defaultNamespace) }

// NamespaceKey returns the namespace's key in the file.
func (f *File) NamespaceKey() string { return f.selectProvider().path + "namespace" }

// SelfManaged reports whether the cluster is to manage itself.
func (f *File) SelfManaged() bool { return *f.selectProvider().selfManaged }
