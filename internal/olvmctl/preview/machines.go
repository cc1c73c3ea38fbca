// Package preview computes the machines requested by manifests, and plans each machine as the controllers do. It uses
// the code of the controllers to resolve names to UUIDs, to render configurations and to run plans.
package preview

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
)

// Machine is one machine requested by the manifests.
type Machine struct {
	// Cluster is the name of the cluster. From is the requesting object as Kind/name.
	Cluster, From string
	// Namespace and Name identify the machine. Cluster API appends random letters to the owner's name to name a new
	// machine. The preview appends a number instead.
	Namespace, Name string
	// Addresses are the addresses of the machine that are known without a management cluster.
	Addresses []string
	// VM is the OLVMInventoryVM claimed by the machine or chosen for it. It is empty if the machine gets a new VM.
	VM string

	// Replaced is the reason why a rollout replaces the machine. Replaces is the name of the machine replaced by this
	// one. Both are empty without a rollout.
	Replaced, Replaces string
	// Destroyed is the reason why the machine is deleted without a replacement. MayGo is the reason why Cluster API may
	// choose the machine for deletion. Both are empty if the machine stays.
	Destroyed, MayGo string

	infraName string    // of the OLVMMachine
	template  string    // name of the OLVMMachineTemplate of a machine that does not exist yet
	uid       types.UID // of the OLVMMachine; empty before it exists
	// role and failureDomain are those of the Machine.
	role    infrav1.MachineRole
	service string // the support service of the machine; empty for a node
	// services are the support services of the cluster, or nil.
	services      *infrav1alpha1.OLVMSupportServices
	failureDomain string
	version       string // of Kubernetes
	// format is the format of the machine's bootstrap data. It is empty if the manifests do not contain it.
	format   bootstrap.Format
	spec     infrav1.OLVMMachineSpec
	recorded addressing.Addresses
	live     bool // the machine exists
	// deleting reports whether the Machine is being deleted. provisioned reports whether the machine has ever had a VM.
	deleting, provisioned bool
	// undoes reports whether the manifests revert an unfinished change of the machine.
	undoes bool
	// pool is the inventory making the VM; nil for a machine of a cluster.
	pool *infrav1alpha1.OLVMInventory
	// newTag reports whether the tag of its pool must be created first.
	newTag bool
	// olvmCluster is nil for a VM of an inventory.
	olvmCluster *infrav1.OLVMCluster
}

// AskForMachines reports whether the manifests, or the objects beside them in the management cluster, request machines.
func (m *Manifests) AskForMachines() bool {
	return len(m.Owners) > 0 || len(m.provisioningInventories()) > 0 || len(m.Services) > 0
}

// Machines lists the machines requested by the manifests, in their order. Existing machines in the manifests, for
// example in a dump of a running cluster, count towards the replicas of their owners.
func (m *Manifests) Machines() ([]Machine, error) {
	machines, _, err := m.Expand()
	return machines, err
}

// Expand lists the machines requested by the manifests, and the changes to existing machines in the management cluster.
func (m *Manifests) Expand() ([]Machine, []planreport.OwnerChange, error) {
	if err := errors.Join(m.checkTopologies(), m.checkRemediations(), m.checkMachinePools()); err != nil {
		return nil, nil, err
	}

	var out []Machine
	var changes []planreport.OwnerChange
	replaced := map[types.NamespacedName]string{}
	m.notes = nil
	m.noteWaiting()

	for _, owner := range m.Owners {
		for name, reason := range m.findOutdated(owner) {
			replaced[types.NamespacedName{Namespace: owner.GetNamespace(), Name: name}] = reason
		}
	}

	for _, owner := range m.Owners {
		machines, change, err := m.machinesOf(owner, replaced)
		if err != nil {
			return nil, nil, fmt.Errorf("%s %s/%s: %w", owner.GetKind(), owner.GetNamespace(), owner.GetName(), err)
		}

		if out = append(out, machines...); len(out) > maxMachines {
			return nil, nil, fmt.Errorf("%s: the manifests request more than %d machines in total; plan fewer "+
				"manifests at once", ownerName(owner), maxMachines)
		}

		if change != nil {
			m.noteMarked(owner, change)
		}

		if change != nil && (len(change.Replaced)+len(change.Destroyed) > 0 || change.Machines != change.Replicas) {
			changes = append(changes, *change)
		}
	}

	supported, err := m.supportMachines()
	changes = slices.DeleteFunc(changes, func(c planreport.OwnerChange) bool {
		return m.IsReadForDeletions(c.Namespace)
	})

	supported = append(supported, m.unrequestedSupport(supported)...)

	out = append(out, supported...)
	giveNames(out)

	return m.markDestroyed(out, changes), changes, err
}

// giveNames gives each future machine a name that no existing machine has. Names could collide: a control plane and a
// MachineDeployment may have the same name, and a Machine may have the name of another owner with a number.
func giveNames(machines []Machine) {
	used := map[types.NamespacedName]bool{}

	for i := range machines {
		if machines[i].live {
			used[machines[i].key()] = true
		}
	}

	for i := range machines {
		machine := &machines[i]
		if machine.live {
			continue
		}

		for name, n := machine.Name, 2; used[machine.key()]; n++ {
			machine.Name = fmt.Sprintf("%s-%d", name, n)
			machine.infraName = machine.Name
		}

		used[machine.key()] = true
	}
}

const (
	// maxReplicas limits the effect of a typing error.
	maxReplicas = 10_000
	// maxMachines is the maximum number of machines of all owners together.
	maxMachines = 20_000
)

func (m *Manifests) machinesOf(
	owner *unstructured.Unstructured, replaced map[types.NamespacedName]string,
) ([]Machine, *planreport.OwnerChange, error) {
	if owner.GetKind() == "MachineSet" && isControlled(owner, m.Owners) {
		return nil, nil, nil // the manifests have its MachineDeployment, which requests the machines
	}

	clusterName, ref := planinput.MachineRefs(owner)
	if owner.GetKind() == "KubeadmControlPlane" {
		clusterName = m.clusterOfControlPlane(owner)
	}

	if owner.GetKind() != "Machine" && m.isPruned(owner, clusterName) {
		return nil, nil, nil // its machines are deleted, and it creates none
	}

	if clusterName == "" {
		return nil, nil, errors.New("no Cluster in the manifests refers to it; add the Cluster, or correct its " +
			"controlPlaneRef")
	}

	cluster, err := m.olvmClusterOf(owner.GetNamespace(), clusterName)
	if err != nil || cluster == nil {
		return nil, nil, err
	}

	base := Machine{
		Cluster:     clusterName,
		From:        owner.GetKind() + "/" + owner.GetName(),
		Namespace:   owner.GetNamespace(),
		olvmCluster: cluster,
		services:    m.Services[types.NamespacedName{Namespace: owner.GetNamespace(), Name: clusterName}],
		role:        infrav1.WorkerRole,
		version:     versionOf(owner),
		format:      m.formatOf(owner),
	}
	key := types.NamespacedName{Namespace: owner.GetNamespace(), Name: ref.Name}

	switch {
	case owner.GetKind() == "Machine" && ref.IsOf("OLVMMachine"):
		machine, err := m.liveMachine(owner, base, key)
		machine.Replaced = replaced[types.NamespacedName{Namespace: owner.GetNamespace(), Name: owner.GetName()}]

		return []Machine{machine}, nil, err
	case owner.GetKind() != "Machine" && ref.IsOf("OLVMMachineTemplate"):
		return m.replicasOf(owner, base, key, replaced)
	}

	return nil, nil, nil // another provider's
}

// liveMachine returns the machine for a Machine object. key is the key of its OLVMMachine.
func (m *Manifests) liveMachine(
	owner *unstructured.Unstructured, machine Machine, key types.NamespacedName,
) (Machine, error) {
	found := m.OLVMMachines[key]
	if found == nil {
		return machine, fmt.Errorf("spec.infrastructureRef: OLVMMachine %s is not in the manifests; add it", key)
	}

	machine.Name, machine.spec, machine.live = owner.GetName(), found.Spec, true
	machine.infraName, machine.uid = found.Name, found.UID
	machine.deleting = owner.GetDeletionTimestamp() != nil
	machine.provisioned = ptr.Deref(found.Status.Initialization.Provisioned, false)

	if _, controlPlane := owner.GetLabels()[clusterv1.MachineControlPlaneLabel]; controlPlane {
		machine.role = infrav1.ControlPlaneRole
	}

	machine.failureDomain, _, _ = unstructured.NestedString(owner.Object, "spec", "failureDomain")
	var err error
	if machine.recorded, err = addressing.ParseRecorded(found); err != nil {
		return machine, fmt.Errorf("OLVMMachine %s: %w", key, err)
	}

	return machine, nil
}

// replicasOf returns the machines still to be created by a control plane, MachineDeployment or MachineSet, and the
// changes to its existing machines. key is the key of its OLVMMachineTemplate.
func (m *Manifests) replicasOf(
	owner *unstructured.Unstructured, base Machine, key types.NamespacedName, replaced map[types.NamespacedName]string,
) ([]Machine, *planreport.OwnerChange, error) {
	template := m.Templates[key]
	if template == nil {
		return nil, nil, fmt.Errorf("infrastructureRef: OLVMMachineTemplate %s is not in the manifests; add it, or "+
			"correct the name", key)
	}

	replicas, err := m.wantedReplicas(owner)
	if err != nil {
		return nil, nil, err
	}

	if owner.GetKind() == "KubeadmControlPlane" {
		base.role = infrav1.ControlPlaneRole
	}

	base.failureDomain, _, _ = unstructured.NestedString(owner.Object, "spec", "template", "spec", "failureDomain")
	base.spec, base.template = template.Spec.Template.Spec, key.Name
	change := m.ownerChange(owner, base, replicas, replaced)
	kept := change.Kept
	domains := base.failureDomains()
	var out []Machine

	for i := range max(0, replicas-kept) {
		machine := base
		machine.Name = fmt.Sprintf("%s-%d", owner.GetName(), i)
		machine.infraName = machine.Name
		if len(domains) > 0 { // a control plane spreads its machines evenly
			machine.failureDomain = domains[i%int64(len(domains))]
		}

		if i < int64(len(change.Replaced)) {
			machine.Replaces = change.Replaced[i]
		}

		out = append(out, machine)
	}

	if m.LiveOf(owner) == nil {
		return out, nil, nil // it is new, like all its machines
	}

	return out, change, nil
}

// wantedReplicas returns the number of machines requested by an owner.
func (m *Manifests) wantedReplicas(owner *unstructured.Unstructured) (int64, error) {
	replicas, found, err := unstructured.NestedInt64(owner.Object, "spec", "replicas")
	if err != nil {
		return 0, fmt.Errorf("spec.replicas: %w", err)
	}

	if live := m.LiveOf(owner); !found && live != nil { // another controller or a user scales it
		replicas, found, _ = unstructured.NestedInt64(live.Object, "spec", "replicas")
	}

	if !found {
		return 1, nil
	}

	if replicas < 0 || replicas > maxReplicas {
		return 0, fmt.Errorf("spec.replicas: %d is not between 0 and %d", replicas, maxReplicas)
	}

	return replicas, nil
}

// failureDomains returns the failure domains available to the machines of a control plane.
func (machine *Machine) failureDomains() []string {
	if machine.role != infrav1.ControlPlaneRole {
		return nil
	}

	var out []string

	for _, d := range machine.olvmCluster.Spec.FailureDomains {
		if d.IsForControlPlane() {
			out = append(out, d.Name)
		}
	}

	return out
}

// ownerChange returns the changes to the existing machines of an owner.
func (m *Manifests) ownerChange(
	owner *unstructured.Unstructured, base Machine, replicas int64, replaced map[types.NamespacedName]string,
) *planreport.OwnerChange {
	out := &planreport.OwnerChange{
		Cluster: base.Cluster, Namespace: base.Namespace, From: base.From, Replicas: replicas,
	}

	var kept []*unstructured.Unstructured

	for _, machine := range m.machinesMadeBy(owner) {
		if machine.GetDeletionTimestamp() != nil {
			continue // another machine already replaces it
		}

		out.Machines++
		reason := replaced[types.NamespacedName{Namespace: machine.GetNamespace(), Name: machine.GetName()}]
		if reason == "" {
			kept = append(kept, machine)
			continue
		}

		out.Replaced = append(out.Replaced, machine.GetName())
		if !slices.Contains(out.Reasons, reason) {
			out.Reasons = append(out.Reasons, reason)
		}
	}

	if len(out.Replaced) > 0 {
		out.Differences = m.rolloutDifferences(owner, base.spec)
	}

	out.Deleted = max(0, out.Machines-replicas)
	chooseDestroyed(out, owner, kept)

	return out
}

// chooseDestroyed chooses the machines deleted without a replacement. It takes the surplus machines of a rollout first,
// then the machines Cluster API would choose.
func chooseDestroyed(c *planreport.OwnerChange, owner *unstructured.Unstructured, kept []*unstructured.Unstructured) {
	c.Kept = int64(len(kept))

	places := min(max(0, c.Replicas-c.Kept), int64(len(c.Replaced)))
	c.Destroyed, c.Replaced = append([]string{}, c.Replaced[places:]...), c.Replaced[:places]

	more := c.Deleted - int64(len(c.Destroyed))
	chosen, candidates := predictDeleted(owner, kept, more)
	c.Destroyed, c.Candidates = append(c.Destroyed, chosen...), candidates
}

// isControlled reports whether another object in the manifests owns this object, as in a dump of a running cluster.
func isControlled(object *unstructured.Unstructured, owners []*unstructured.Unstructured) bool {
	for _, ref := range object.GetOwnerReferences() {
		owner := planinput.Reference{
			Group: schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group, Kind: ref.Kind, Name: ref.Name,
		}

		if slices.ContainsFunc(owners, func(other *unstructured.Unstructured) bool {
			return owner.Names(other) && other.GetNamespace() == object.GetNamespace()
		}) {
			return true
		}
	}

	return false
}

// machinesMadeBy returns the Machines in the manifests that belong to an owner.
func (m *Manifests) machinesMadeBy(owner *unstructured.Unstructured) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured

	for _, machine := range m.Owners {
		if machine.GetKind() != "Machine" || machine.GetNamespace() != owner.GetNamespace() ||
			owner.GetKind() == "Machine" {
			continue
		}

		if isControlled(machine, []*unstructured.Unstructured{owner}) ||
			owner.GetKind() == "MachineDeployment" &&
				machine.GetLabels()[clusterv1.MachineDeploymentNameLabel] == owner.GetName() {
			out = append(out, machine)
		}
	}

	return out
}

// formatOf returns the format of the bootstrap data for an owner's machines. It returns "" for another bootstrap
// provider, or if the manifests lack the KubeadmConfig.
func (m *Manifests) formatOf(owner *unstructured.Unstructured) bootstrap.Format {
	object, path := owner, []string{"spec", "kubeadmConfigSpec", "format"}

	if owner.GetKind() != "KubeadmControlPlane" {
		from := []string{"spec", "template", "spec", "bootstrap", "configRef"}
		path = []string{"spec", "template", "spec", "format"}
		if owner.GetKind() == "Machine" {
			from, path = []string{"spec", "bootstrap", "configRef"}, []string{"spec", "format"}
		}

		ref := planinput.ReferenceAt(owner, from...)
		object = m.KubeadmConfigs[planinput.KubeadmConfigKey{
			Kind: ref.Kind, Namespace: owner.GetNamespace(), Name: ref.Name,
		}]
		if object == nil || !ref.IsOfBootstrap() {
			return ""
		}
	}

	format, _, _ := unstructured.NestedString(object.Object, path...)

	return cmp.Or(bootstrap.Format(format), bootstrap.CloudConfig)
}

// clusterOfControlPlane names the Cluster that refers to a control plane; "" for none.
func (m *Manifests) clusterOfControlPlane(owner *unstructured.Unstructured) string {
	for _, cluster := range m.Clusters {
		if planinput.ReferenceAt(cluster, "spec", "controlPlaneRef").Names(owner) &&
			cluster.GetNamespace() == owner.GetNamespace() {
			return cluster.GetName()
		}
	}

	return ""
}

// checkProvider rejects a manifest that moves a running cluster from this provider to another one, because no plan
// would show its machines.
func (m *Manifests) checkProvider(cluster *unstructured.Unstructured) error {
	live := m.LiveOf(cluster)
	if live == nil {
		return nil
	}

	if !planinput.ReferenceAt(live, "spec", "infrastructureRef").IsOf("OLVMCluster") {
		return nil
	}

	return fmt.Errorf("%s: spec.infrastructureRef: it is an OLVMCluster in the management cluster, and a cluster "+
		"cannot change its provider; restore the old reference", ownerName(cluster))
}

// olvmClusterOf returns the OLVMCluster of a cluster, or nil for a cluster of another provider.
func (m *Manifests) olvmClusterOf(namespace, name string) (*infrav1.OLVMCluster, error) {
	for _, cluster := range m.Clusters {
		if cluster.GetName() != name || cluster.GetNamespace() != namespace {
			continue
		}

		ref := planinput.ReferenceAt(cluster, "spec", "infrastructureRef")
		if !ref.IsOf("OLVMCluster") {
			return nil, m.checkProvider(cluster)
		}

		if found := m.OLVMClusters[types.NamespacedName{Namespace: namespace, Name: ref.Name}]; found != nil {
			return found, nil
		}

		return nil, fmt.Errorf("OLVMCluster %s/%s, referenced by Cluster %s, is not in the manifests; add it",
			namespace,
			ref.Name, name)
	}

	return nil, fmt.Errorf("%s is not in the manifests; add it", "Cluster "+namespace+"/"+name)
}
