package clusterfile

import "cmp"

// Names of providers.
const (
	OLVMProvider = "olvm"
)

// common are the settings that every provider has, and path is where they are.
type common struct {
	path        string
	namespace   *string
	selfManaged *bool
}

// common are those of the provider of the file; of olvm where it names none that there is.
func (f *File) common() common {
	all := map[string]common{
		OLVMProvider: {"providers.olvm.", &f.Providers.OLVM.Namespace, &f.Providers.OLVM.SelfManaged},
	}

	found, ok := all[f.Provider]
	if !ok {
		found = all[OLVMProvider]
	}

	return found
}

// ProviderName is the provider that makes the cluster.
func (f *File) ProviderName() string { return cmp.Or(f.Provider, OLVMProvider) }

// Namespace of all objects in the management cluster.
func (f *File) Namespace() string { return *f.common().namespace }

// NamespaceKey is where the file says it.
func (f *File) NamespaceKey() string { return f.common().path + "namespace" }

// SelfManaged reports that the cluster is to manage itself.
func (f *File) SelfManaged() bool { return *f.common().selfManaged }
