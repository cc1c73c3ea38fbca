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

// provider is what a provider of cluster files has of its own.
type provider struct {
	// path of its settings, of which every provider has these.
	path        string
	namespace   *string
	selfManaged *bool
	proxy       *Proxy
	// setDefaults fills in what its settings leave out, and check says what is wrong with them.
	setDefaults func()
	check       func(*Source)
	// networks are those of its machines, by their paths.
	networks func() map[string]string
	// manifests are the objects of a cluster; nil where they depend on what only the cloud knows.
	manifests func(s *Source, flavor string) ([]*unstructured.Unstructured, error)
}

// providers by their names.
func (f *File) providers() map[string]provider {
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

// provider of the file; that of olvm where it names none that there is.
func (f *File) provider() provider {
	all := f.providers()
	if found, ok := all[f.Provider]; ok {
		return found
	}

	return all[OLVMProvider]
}

// ProviderNames are all that there are, sorted.
func ProviderNames() []string { return slices.Sorted(maps.Keys((&File{}).providers())) }

// providerNames are all that there are, for people.
func (f *File) providerNames() string {
	return strings.Join(ProviderNames(), " or ")
}

// ProviderName is the provider that makes the cluster.
func (f *File) ProviderName() string { return cmp.Or(f.Provider, OLVMProvider) }

// ByTerraform reports that Terraform makes the machines, so that their plans can be shown.
func (f *File) ByTerraform() bool { return f.provider().manifests != nil }

// Namespace of all objects in the management cluster.
func (f *File) Namespace() string { return cmp.Or(*f.provider().namespace, defaultNamespace) }

// NamespaceKey is where the file says it.
func (f *File) NamespaceKey() string { return f.provider().path + "namespace" }

// SelfManaged reports that the cluster is to manage itself.
func (f *File) SelfManaged() bool { return *f.provider().selfManaged }
