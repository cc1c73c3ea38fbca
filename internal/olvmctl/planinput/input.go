// Package planinput reads the input of a plan: manifests of files, folders and kustomizations, and the objects of a
// management cluster. It rejects input like an API server, and asks no engine.
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

// Input is all input of a plan except engines: the manifests, and the objects of a management cluster.
type Input struct {
	OLVMClusters map[types.NamespacedName]*infrav1.OLVMCluster
	Templates    map[types.NamespacedName]*infrav1.OLVMMachineTemplate
	OLVMMachines map[types.NamespacedName]*infrav1.OLVMMachine
	Inventories  map[types.NamespacedName]*infrav1alpha1.OLVMInventory
	InventoryVMs map[types.NamespacedName]*infrav1alpha1.OLVMInventoryVM
	Services     map[types.NamespacedName]*infrav1alpha1.OLVMSupportServices
	// Written is the engine access in the manifests, and Running the management cluster's. They never mix: the author
	// of manifests must not decide the destination of a Secret of the management cluster.
	Written, Running Access
	// KubeadmConfigs are the KubeadmConfigs and KubeadmConfigTemplates.
	KubeadmConfigs map[KubeadmConfigKey]*unstructured.Unstructured
	// Clusters and Owners (control planes, MachineDeployments, MachineSets, Machines) keep the order of the files.
	Clusters []*unstructured.Unstructured
	Owners   []*unstructured.Unstructured
	// LiveClusters are the OLVMClusters of the management cluster, and LiveServices the OLVMSupportServices.
	LiveClusters map[types.NamespacedName]*infrav1.OLVMCluster
	LiveServices map[types.NamespacedName]*infrav1alpha1.OLVMSupportServices
	// Elsewhere has the management cluster's objects in other namespaces, as far as they affect addresses.
	Elsewhere struct {
		Clusters []infrav1.OLVMCluster
		Machines []infrav1.OLVMMachine
		Services []infrav1alpha1.OLVMSupportServices
	}
	// CheckedBy names the checker of the manifests.
	CheckedBy string
	// Connected reports whether a management cluster was read.
	Connected bool

	// live has the objects of a management cluster for LiveOf.
	live map[string]*unstructured.Unstructured
	// converted are those of them whose manifests have or had another apiVersion, read in it; nil if that failed.
	converted map[string]*unstructured.Unstructured
	// sources are the objects of the manifests with their files.
	sources []source.Object
	// ofClusterFile reports whether the machine templates have names from a cluster file.
	ofClusterFile bool
	// classParts are ClusterClasses and their templates. classes are the parts used by running Clusters.
	classParts []*unstructured.Unstructured
	classes    []ClassPart
	// passedOver are objects of the manifests of which nothing is planned, and controlPlanes those of other providers.
	passedOver    []*unstructured.Unstructured
	controlPlanes []ControlPlane
	// pruning is what would be deleted of the management cluster.
	pruning pruning
	// count of the objects read, of all kinds.
	count int
}

// Load is LoadWith without options.
func Load(paths []string, stdin io.Reader) (*Input, error) {
	return LoadWith(paths, stdin, source.Options{})
}

// LoadWith reads manifests: files, folders, or "-" for stdin, according to the options. It skips kinds irrelevant for
// VMs. An unknown field of an OLVM kind is an error, and so are paths without any object.
func LoadWith(paths []string, stdin io.Reader, options source.Options) (*Input, error) {
	m := newInput()

	objects, err := source.Read(paths, stdin, options)
	if err != nil {
		return nil, err
	}

	for _, object := range objects {
		if err := checkNames(object.Unstructured); err != nil {
			return nil, fmt.Errorf("%s: %w", object.DescribeSource(), err)
		}
	}

	if err := errors.Join(checkKinds(objects), checkFields(objects), checkOnce(objects)); err != nil {
		return nil, err
	}

	for _, object := range objects {
		if err := m.addManifest(object.Unstructured); err != nil {
			return nil, fmt.Errorf("%s: %w", object.DescribeSource(), err)
		}
	}

	m.sources = objects

	if named := slices.Concat(paths, options.Kustomizations); m.count == 0 && len(named) > 0 && !options.MayBeEmpty {
		return nil, fmt.Errorf("there are no objects in %s; give manifests, or a cluster file",
			strings.Join(named, ", "))
	}

	return m, nil
}

// checkOnce refuses a duplicate object: only one copy would be applied, but both would count their machines. objects
// has no Lists.
func checkOnce(objects []source.Object) error {
	type id struct{ group, kind, namespace, name string }

	var problems []error

	first := map[id]string{}

	for _, object := range objects {
		key := id{object.GroupVersionKind().Group, object.GetKind(), object.GetNamespace(), object.GetName()}
		if before, found := first[key]; found {
			problems = append(
				problems,
				fmt.Errorf("%s: %s %s is in %s already; remove one of them", object.DescribeSource(),
					key.kind, types.NamespacedName{Namespace: key.namespace, Name: key.name}, before),
			)
		}

		first[key] = object.DescribeSource()
	}

	return errors.Join(problems...)
}

// LoadObjects is Load for objects in memory.
func LoadObjects(objects []*unstructured.Unstructured) (*Input, error) {
	m := newInput()
	for _, object := range objects {
		if err := m.addManifest(object); err != nil {
			return nil, err
		}
	}

	return m, nil
}

// LoadClusterFile is LoadObjects for the objects of a cluster file. With a management cluster, their machine templates
// get the names chosen by olvmctl upgrade.
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
		converted:    map[string]*unstructured.Unstructured{},

		LiveClusters: map[types.NamespacedName]*infrav1.OLVMCluster{},
		LiveServices: map[types.NamespacedName]*infrav1alpha1.OLVMSupportServices{},

		KubeadmConfigs: map[KubeadmConfigKey]*unstructured.Unstructured{},
	}
}

func (m *Input) addManifest(object *unstructured.Unstructured) error {
	if object.IsList() {
		return object.EachListItem(
			func(item runtime.Object) error { return m.addManifest(item.(*unstructured.Unstructured)) },
		)
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

	served, isOwn := api.FindGroupVersion(gvk.Kind)

	switch {
	case gvk.Group == api.Group && isOwn && gvk.Version != served.Version:
		return fmt.Errorf("%s %s has apiVersion %s; write %s", gvk.Kind, key, object.GetAPIVersion(), served)
	case gvk.Group == api.Group:
		return m.addOwn(object, key)
	case gvk.Group == "":
		m.Written.addObject(object, key)
	case gvk.Group == clusterv1.GroupVersion.Group && gvk.Kind == "Cluster":
		m.Clusters = append(m.Clusters, object)
	case strings.HasPrefix(gvk.Kind, "KubeadmConfig") && gvk.Group == "bootstrap."+clusterv1.GroupVersion.Group:
		m.KubeadmConfigs[KubeadmConfigKey{gvk.Kind, key.Namespace, key.Name}] = object
	case gvk.Kind == "KubeadmControlPlane" && gvk.Group == "controlplane."+clusterv1.GroupVersion.Group,
		gvk.Group == clusterv1.GroupVersion.Group &&
			slices.Contains([]string{"MachineDeployment", "MachineSet", "Machine"}, gvk.Kind):
		m.Owners = append(m.Owners, object)
	default:
		m.passedOver = append(m.passedOver, object)
	}

	return nil
}

// addOwn adds an object of one of our kinds.
func (m *Input) addOwn(object *unstructured.Unstructured, key types.NamespacedName) error {
	switch object.GetKind() {
	case "OLVMCluster":
		return decodeStrict(object, key, m.OLVMClusters)
	case "OLVMMachineTemplate":
		return decodeStrict(object, key, m.Templates)
	case "OLVMMachine":
		return decodeStrict(object, key, m.OLVMMachines)
	case "OLVMInventory":
		return decodeStrict(object, key, m.Inventories)
	case "OLVMInventoryVM":
		return decodeStrict(object, key, m.InventoryVMs)
	case support.Kind:
		return decodeStrict(object, key, m.Services)
	case "OLVMClusterIdentity":
		return decodeStrict(object, types.NamespacedName{Name: key.Name}, m.Written.Identities)
	default:
		return nil
	}
}

// decodeStrict reads an object strictly: an unknown field is a mistake, and the API server would drop it.
func decodeStrict[T any](
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

// KubeadmConfigKey identifies a KubeadmConfig or a KubeadmConfigTemplate.
type KubeadmConfigKey struct{ Kind, Namespace, Name string }

// Reference names an object in the namespace of another.
type Reference struct{ Kind, Name string }

// MachineRefs reads the cluster name and infrastructure reference from their places in v1beta2 and v1beta1.
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
