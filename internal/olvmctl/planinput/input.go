// Package planinput reads what a plan depends on: manifests of files, folders and
// kustomizations, and the objects of a management cluster. It refuses what an API
// server would refuse, and asks no engine.
package planinput

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/source"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// Input is all that a plan depends on, except engines: manifests, and what a management cluster has.
type Input struct {
	OLVMClusters map[types.NamespacedName]*infrav1.OLVMCluster
	Templates    map[types.NamespacedName]*infrav1.OLVMMachineTemplate
	OLVMMachines map[types.NamespacedName]*infrav1.OLVMMachine
	Inventories  map[types.NamespacedName]*infrav1alpha1.OLVMInventory
	InventoryVMs map[types.NamespacedName]*infrav1alpha1.OLVMInventoryVM
	Services     map[types.NamespacedName]*infrav1alpha1.OLVMSupportServices
	// Written is what the manifests say of access to engines, and Running what the management cluster has. They never
	// mix: who writes manifests must not decide where a Secret of the management cluster is sent.
	Written, Running Access
	// KubeadmConfigs are the KubeadmConfigs and KubeadmConfigTemplates.
	KubeadmConfigs map[KubeadmConfigKey]*unstructured.Unstructured
	// Clusters and Owners (control planes, MachineDeployments, MachineSets, Machines) keep the order of the files.
	Clusters []*unstructured.Unstructured
	Owners   []*unstructured.Unstructured
	// LiveClusters are the OLVMClusters of the management cluster, and LiveServices the OLVMSupportServices.
	LiveClusters map[types.NamespacedName]*infrav1.OLVMCluster
	LiveServices map[types.NamespacedName]*infrav1alpha1.OLVMSupportServices
	// Elsewhere is what the management cluster has in other namespaces, as far as addresses are concerned.
	Elsewhere struct {
		Clusters []infrav1.OLVMCluster
		Machines []infrav1.OLVMMachine
		Services []infrav1alpha1.OLVMSupportServices
	}
	// CheckedBy says who has checked the manifests.
	CheckedBy string
	// Connected reports that a management cluster was read.
	Connected bool

	// live are the objects of a management cluster, as LiveOf finds them.
	live map[string]*unstructured.Unstructured
	// sources are the objects of the manifests with their files.
	sources []source.Object
	// ofClusterFile reports that the templates of machines have the names of a cluster file.
	ofClusterFile bool
	// classParts are ClusterClasses and their templates, and classes those of them that running Clusters are made of.
	classParts []*unstructured.Unstructured
	classes    []ClassPart
	// pruning is what would be deleted of the management cluster.
	pruning pruning
	// count of the objects that were read, of all kinds.
	count int
}

// Load reads manifests as LoadWith does, with no options.
func Load(paths []string, stdin io.Reader) (*Input, error) {
	return LoadWith(paths, stdin, source.Options{})
}

// LoadWith reads manifests: files, folders, or "-" for stdin, as the options say. Kinds that decide nothing about VMs
// are passed over; a field that an OLVM kind does not have is an error, and so are paths without any object.
func LoadWith(paths []string, stdin io.Reader, options source.Options) (*Input, error) {
	m := newInput()

	objects, err := source.Read(paths, stdin, options)
	if err != nil {
		return nil, err
	}

	for _, object := range objects {
		if err := checkNames(object.Unstructured); err != nil {
			return nil, fmt.Errorf("%s: %w", object.Where(), err)
		}
	}

	if err := errors.Join(checkKinds(objects), checkFields(objects), checkOnce(objects)); err != nil {
		return nil, err
	}

	for _, object := range objects {
		if err := m.add(object.Unstructured); err != nil {
			return nil, fmt.Errorf("%s: %w", object.Where(), err)
		}
	}

	m.sources = objects

	if named := slices.Concat(paths, options.Kustomizations); m.count == 0 && len(named) > 0 && !options.MayBeEmpty {
		return nil, fmt.Errorf("there are no objects in %s; give manifests, or a cluster file",
			strings.Join(named, ", "))
	}

	return m, nil
}

// checkOnce refuses an object that is there twice: only one of them would be applied, and its machines would be counted
// with both. The objects are no Lists.
func checkOnce(objects []source.Object) error {
	type id struct{ group, kind, namespace, name string }

	var problems []error

	first := map[id]string{}

	for _, object := range objects {
		key := id{object.GroupVersionKind().Group, object.GetKind(), object.GetNamespace(), object.GetName()}
		if before, found := first[key]; found {
			problems = append(problems, fmt.Errorf("%s: %s %s is in %s already; remove one of them", object.Where(),
				key.kind, types.NamespacedName{Namespace: key.namespace, Name: key.name}, before))
		}

		first[key] = object.Where()
	}

	return errors.Join(problems...)
}

// LoadObjects is Load for objects that were read already.
func LoadObjects(objects []*unstructured.Unstructured) (*Input, error) {
	m := newInput()
	for _, object := range objects {
		if err := m.add(object); err != nil {
			return nil, err
		}
	}

	return m, nil
}

// LoadClusterFile is LoadObjects for those of a cluster file. Beside a management cluster their templates of machines
// have the names that olvmctl upgrade gives them.
func LoadClusterFile(objects []*unstructured.Unstructured) (*Input, error) {
	m, err := LoadObjects(objects)
	if err == nil {
		m.ofClusterFile = true
	}

	return m, err
}

func newInput() *Input {
	return &Input{
		OLVMClusters: map[types.NamespacedName]*infrav1.OLVMCluster{},
		Templates:    map[types.NamespacedName]*infrav1.OLVMMachineTemplate{},
		OLVMMachines: map[types.NamespacedName]*infrav1.OLVMMachine{},
		Inventories:  map[types.NamespacedName]*infrav1alpha1.OLVMInventory{},
		InventoryVMs: map[types.NamespacedName]*infrav1alpha1.OLVMInventoryVM{},
		Services:     map[types.NamespacedName]*infrav1alpha1.OLVMSupportServices{},
		Written:      NewAccess(),
		Running:      NewAccess(),
		live:         map[string]*unstructured.Unstructured{},

		LiveClusters: map[types.NamespacedName]*infrav1.OLVMCluster{},
		LiveServices: map[types.NamespacedName]*infrav1alpha1.OLVMSupportServices{},

		KubeadmConfigs: map[KubeadmConfigKey]*unstructured.Unstructured{},
	}
}

func (m *Input) add(object *unstructured.Unstructured) error {
	if object.IsList() {
		return object.EachListItem(func(item runtime.Object) error { return m.add(item.(*unstructured.Unstructured)) })
	}

	m.count++

	if err := checkNames(object); err != nil {
		return err
	}

	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}

	gvk := object.GroupVersionKind()
	if isClassPart(gvk) {
		m.classParts = append(m.classParts, object)
	}

	served, isOwn := api.GroupVersionOf(gvk.Kind)

	switch {
	case gvk.Group == api.Group && isOwn && gvk.Version != served.Version:
		return fmt.Errorf("%s %s has apiVersion %s; write %s", gvk.Kind, key, object.GetAPIVersion(), served)
	case gvk.Group == api.Group:
		return m.addOwn(object, key)
	case gvk.Group == "":
		m.Written.add(object, key)
	case gvk.Group == clusterv1.GroupVersion.Group && gvk.Kind == "Cluster":
		m.Clusters = append(m.Clusters, object)
	case strings.HasPrefix(gvk.Kind, "KubeadmConfig") && gvk.Group == "bootstrap."+clusterv1.GroupVersion.Group:
		m.KubeadmConfigs[KubeadmConfigKey{gvk.Kind, key.Namespace, key.Name}] = object
	case gvk.Kind == "KubeadmControlPlane" && gvk.Group == "controlplane."+clusterv1.GroupVersion.Group,
		gvk.Group == clusterv1.GroupVersion.Group &&
			slices.Contains([]string{"MachineDeployment", "MachineSet", "Machine"}, gvk.Kind):
		m.Owners = append(m.Owners, object)
	}

	return nil
}

// addOwn adds an object of one of our kinds.
func (m *Input) addOwn(object *unstructured.Unstructured, key types.NamespacedName) error {
	switch object.GetKind() {
	case "OLVMCluster":
		return decode(object, key, m.OLVMClusters)
	case "OLVMMachineTemplate":
		return decode(object, key, m.Templates)
	case "OLVMMachine":
		return decode(object, key, m.OLVMMachines)
	case "OLVMInventory":
		return decode(object, key, m.Inventories)
	case "OLVMInventoryVM":
		return decode(object, key, m.InventoryVMs)
	case support.Kind:
		return decode(object, key, m.Services)
	case "OLVMClusterIdentity":
		return decode(object, types.NamespacedName{Name: key.Name}, m.Written.Identities)
	default:
		return nil
	}
}

// decode reads an object strictly: a field that the type does not have is a mistake that the API server would drop.
func decode[T any](
	object *unstructured.Unstructured, key types.NamespacedName, into map[types.NamespacedName]*T,
) error {
	content, err := yaml.Marshal(object.Object)
	if err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), key, err)
	}

	var typed T
	if err := yaml.UnmarshalStrict(content, &typed); err != nil {
		return fmt.Errorf("%s %s: %w", object.GetKind(), key, err)
	}

	into[key] = &typed

	return nil
}

// KubeadmConfigKey is a KubeadmConfig or a KubeadmConfigTemplate.
type KubeadmConfigKey struct{ Kind, Namespace, Name string }

// Reference names an object in the namespace of another.
type Reference struct{ Kind, Name string }

// MachineRefs reads cluster and infrastructure reference where v1beta2 and v1beta1 have them.
func MachineRefs(owner *unstructured.Unstructured) (clusterName string, ref Reference) {
	clusterName, _, _ = unstructured.NestedString(owner.Object, "spec", "clusterName")
	for _, path := range [][]string{
		{"spec", "infrastructureRef"}, {"spec", "template", "spec", "infrastructureRef"},
		{"spec", "machineTemplate", "spec", "infrastructureRef"}, {"spec", "machineTemplate", "infrastructureRef"},
	} {
		if fields, found, _ := unstructured.NestedStringMap(owner.Object, path...); found {
			return clusterName, Reference{Kind: fields["kind"], Name: fields["name"]}
		}
	}

	return clusterName, Reference{}
}
