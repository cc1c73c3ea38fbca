// Package planinput reads the input of a plan: manifests from files, folders and kustomizations, and the objects of a
// management cluster. It rejects the same input as an API server, and makes no requests to engines.
package planinput

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
	// Written is the access to engines in the manifests. Running is the access in the management cluster. They never
	// mix: the author of manifests must not decide where a Secret of the management cluster is sent.
	Written, Running Access
	// KubeadmConfigs has the KubeadmConfigs and the KubeadmConfigTemplates.
	KubeadmConfigs map[KubeadmConfigKey]*unstructured.Unstructured
	// Clusters and Owners (control planes, MachineDeployments, MachineSets and Machines) are in the order of the files.
	Clusters []*unstructured.Unstructured
	Owners   []*unstructured.Unstructured
	// LiveClusters and LiveServices are the OLVMClusters and the OLVMSupportServices in the management cluster.
	LiveClusters map[types.NamespacedName]*infrav1.OLVMCluster
	LiveServices map[types.NamespacedName]*infrav1alpha1.OLVMSupportServices
	// Elsewhere has the management cluster's objects in other namespaces that may hold addresses.
	Elsewhere struct {
		Clusters []infrav1.OLVMCluster
		Machines []infrav1.OLVMMachine
		Services []infrav1alpha1.OLVMSupportServices
	}
	// CheckedBy names the source of the rules used to check the manifests.
	CheckedBy string
	// Connected reports whether a management cluster was read.
	Connected bool

	// live has the objects of the management cluster, for LiveOf.
	live map[string]*unstructured.Unstructured
	// converted are those of them whose manifests have or had another apiVersion, read in it; nil if that failed.
	converted map[string]*unstructured.Unstructured
	// sources are the objects in the manifests, with their files. sourceOf has them by the key of live.
	sources  []source.Object
	sourceOf map[string]source.Object
	// ofClusterFile reports whether the names of the machine templates come from a cluster file.
	ofClusterFile bool
	// classParts are the ClusterClasses and their templates. classes are the parts used by running Clusters.
	classParts []*unstructured.Unstructured
	classes    []ClassPart
	// passedOver are the objects in the manifests without effect on the plan. controlPlanes are the control planes of
	// other providers.
	passedOver    []*unstructured.Unstructured
	controlPlanes []ControlPlane
	// healthChecks are MachineHealthChecks of the manifests for running Clusters. remediations are OLVMRemediations and
	// their templates.
	healthChecks, remediations []ClassPart
	// pruning is what would be deleted of the management cluster.
	pruning pruning
	// count is the number of objects read, of all kinds.
	count int
}

// Load is LoadWith without options.
func Load(paths []string, stdin io.Reader) (*Input, error) {
	return LoadWith(paths, stdin, source.Options{})
}

// LoadWith reads manifests from files, folders, or "-" for stdin, as configured by the options. It skips kinds without
// effect on VMs. An unknown field in an OLVM kind is an error. A path without any object is an error, too.
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

	if err := checkObjects(objects); err != nil {
		return nil, err
	}

	for _, object := range objects {
		if err := m.addManifest(object.Unstructured); err != nil {
			return nil, fmt.Errorf("%s: %w", object.DescribeSource(), err)
		}
	}

	m.addSources(objects)

	if named := slices.Concat(paths, options.Kustomizations); m.count == 0 && len(named) > 0 && !options.MayBeEmpty {
		return nil, fmt.Errorf("no objects found in %s; specify manifests or a cluster file",
			strings.Join(named, ", "))
	}

	return m, nil
}

// checkObjects rejects manifests with kinds or fields unknown to API servers, with orders, or contained twice.
func checkObjects(objects []source.Object) error {
	return errors.Join(checkKinds(objects), checkFields(objects), checkOrders(objects), checkOnce(objects))
}

// checkOnce rejects a duplicate object. Only one copy would be applied, but the machines of both would count. objects
// must not contain Lists.
func checkOnce(objects []source.Object) error {
	type id struct{ group, kind, namespace, name string }

	var problems []error

	first := map[id]string{}

	for _, object := range objects {
		key := id{object.GroupVersionKind().Group, object.GetKind(), object.GetNamespace(), object.GetName()}
		if before, found := first[key]; found {
			problems = append(
				problems,
				fmt.Errorf("%s: %s %s is already in %s; remove one of them", object.DescribeSource(),
					key.kind, types.NamespacedName{Namespace: key.namespace, Name: key.name}, before),
			)
		}

		first[key] = object.DescribeSource()
	}

	return errors.Join(problems...)
}

// LoadObjects is like Load, for objects in memory.
func LoadObjects(objects []*unstructured.Unstructured) (*Input, error) {
	m := newInput()
	for _, object := range objects {
		if err := m.addManifest(object); err != nil {
			return nil, err
		}
	}

	return m, nil
}

// LoadClusterFile is like LoadObjects, for the objects of a cluster file. If a management cluster is added, the machine
// templates get the names chosen by olvmctl upgrade.
func LoadClusterFile(objects []*unstructured.Unstructured) (*Input, error) {
	m, err := LoadObjects(objects)
	if err != nil {
		return nil, err
	}

	m.ofClusterFile = true

	sources := make([]source.Object, 0, len(objects))
	for _, object := range objects {
		sources = append(sources, source.Object{Unstructured: object, From: "the manifests of the cluster file"})
	}

	m.addSources(sources)

	return m, checkObjects(sources)
}

func (m *Input) addSources(objects []source.Object) {
	m.sources, m.sourceOf = objects, map[string]source.Object{}
	for _, object := range objects {
		m.sourceOf[liveKey(object.Unstructured)] = object
	}
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
		return fmt.Errorf("%s %s: unsupported apiVersion %s; use %s", gvk.Kind, key, object.GetAPIVersion(), served)
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

// addOwn adds an object of a kind of this provider.
func (m *Input) addOwn(object *unstructured.Unstructured, key types.NamespacedName) error {
	switch object.GetKind() {
	case "OLVMRemediation", "OLVMRemediationTemplate":
		m.remediations = append(m.remediations, ClassPart{Written: object})
		return nil
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

// decodeStrict decodes an object, and rejects unknown fields: they are mistakes, and the API server would drop them.
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
type Reference struct{ Group, Kind, Name string }

// IsOf reports whether a reference names a kind of this provider. An API server refuses references without a group.
func (r Reference) IsOf(kind string) bool {
	return r.Kind == kind && (r.Group == "" || r.Group == api.Group)
}

// IsOfBootstrap reports whether a reference names a kind of Cluster API's bootstrap group.
func (r Reference) IsOfBootstrap() bool {
	return r.Group == "" || r.Group == "bootstrap."+clusterv1.GroupVersion.Group
}

// Names reports whether a reference names an object of its namespace. A reference without a group may name any group.
func (r Reference) Names(object *unstructured.Unstructured) bool {
	return r.Kind == object.GetKind() && r.Name == object.GetName() &&
		(r.Group == "" || r.Group == object.GroupVersionKind().Group)
}

// ReferenceAt reads a reference of v1beta2 or v1beta1; empty for none.
func ReferenceAt(object *unstructured.Unstructured, path ...string) Reference {
	fields, _, _ := unstructured.NestedMap(object.Object, path...)
	text := func(field string) string {
		value, _ := fields[field].(string)

		return value
	}

	group := text("apiGroup")
	if version, found := fields["apiVersion"].(string); found && (group == "" || isV1Beta1(object)) {
		group = schema.FromAPIVersionAndKind(version, "").Group
	}

	return Reference{Group: group, Kind: text("kind"), Name: text("name")}
}

func isV1Beta1(object *unstructured.Unstructured) bool {
	return object.GroupVersionKind().Version == "v1beta1"
}

// MachineRefs returns the name of the cluster and the infrastructure reference of an owner, in v1beta2 or v1beta1.
func MachineRefs(owner *unstructured.Unstructured) (clusterName string, ref Reference) {
	clusterName, _, _ = unstructured.NestedString(owner.Object, "spec", "clusterName")
	for _, path := range [][]string{
		{"spec", "infrastructureRef"}, {"spec", "template", "spec", "infrastructureRef"},
		{"spec", "machineTemplate", "spec", "infrastructureRef"}, {"spec", "machineTemplate", "infrastructureRef"},
	} {
		if _, found, _ := unstructured.NestedMap(owner.Object, path...); found {
			return clusterName, ReferenceAt(owner, path...)
		}
	}

	return clusterName, Reference{}
}
