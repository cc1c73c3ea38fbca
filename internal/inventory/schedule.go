package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
)

// VM is a VM of a pool as the selection sees it.
type VM struct {
	// Name of the OLVMInventoryVM.
	Name   string
	Labels map[string]string
	// Networks are those on which the VM has an address of its own.
	Networks []string
	// Unfit is why it cannot be claimed, or used where it is reserved, such as PoweredOn; empty where it can.
	Unfit string
	// Claim on it; nil while nobody has it.
	Claim *infrav1alpha1.InventoryClaim
}

// Group is a group of machines that get their VMs together: those of a MachineSet, or of a control plane.
type Group struct {
	// Cluster, Role and Name are those of claims.
	Cluster, Role, Name string
	// Machines are the names of the OLVMMachines that exist and are not being deleted.
	Machines []string
	// Replicas is how many there are to be.
	Replicas int
	// Selector chooses by labels, TopologyKey is the label of which the role has one VM for each value at most, and
	// Network is one on which the VM must have an address; empty for no such rule.
	Selector    labels.Selector
	TopologyKey string
	Network     string
	// Standby reports that the VMs are kept for machines of the role. Such a group gets as many as there are.
	Standby bool
}

// key identifies a group within an inventory.
func (g Group) key() [2]string { return [2]string{g.Cluster, g.Name} }

// Change is what becomes of one VM.
type Change struct {
	// VM is the name of the OLVMInventoryVM.
	VM string
	// Claim is the new one, without an ID where it is a new claim; nil releases a VM that was reserved and never used.
	Claim *infrav1alpha1.InventoryClaim
}

// Plan is what a pass over an inventory does.
type Plan struct {
	Changes []Change
	// Unschedulable are the groups for which there are not enough VMs.
	Unschedulable []infrav1alpha1.UnschedulableGroup
	// Unreachable are VMs that have no address on a network that a group wants, by their names.
	Unreachable map[string]string
}

// Schedule decides which VMs the groups get. A group gets all the VMs that it needs, or none. The machines of a role
// have at most one VM for each value of the group's topology label; VMs that are claimed already count, and VMs without
// the label are not bound by the rule. VMs are taken in the order of their names, groups in the order that they have.
// clusters are the names of those that exist and are not paused: reservations are given back for no others.
func Schedule(vms []VM, groups []Group, clusters map[string]bool) Plan {
	s := &scheduler{
		vms:   slices.SortedFunc(slices.Values(vms), func(a, b VM) int { return cmp.Compare(a.Name, b.Name) }),
		taken: map[string]*infrav1alpha1.InventoryClaim{},
		plan:  Plan{Unreachable: map[string]string{}},
	}
	for _, vm := range s.vms {
		if vm.Claim != nil {
			s.taken[vm.Name] = vm.Claim
		}
	}

	s.dropBroken()

	known := map[[2]string]bool{}
	for _, group := range groups {
		known[group.key()] = true
		s.giveBack(group)
	}

	s.giveBackOfUnknown(known, clusters)

	// What is kept for later comes last: machines take it, and then it is filled up again.
	groups = slices.SortedStableFunc(slices.Values(groups), func(a, b Group) int {
		return cmp.Compare(btoi(a.Standby), btoi(b.Standby))
	})

	for _, group := range groups {
		s.serve(group, groups)
		s.noteUnreachable(group)
	}

	s.diff()

	return s.plan
}

// GroupOf is the name of the group of a Machine: kind and name of what makes it, or its own where nothing does.
func GroupOf(machine *clusterv1.Machine) string {
	if maker := metav1.GetControllerOf(machine); maker != nil {
		return maker.Kind + "/" + maker.Name
	}

	return "Machine/" + machine.Name
}

func btoi(b bool) int {
	if b {
		return 1
	}

	return 0
}

// scheduler has the claims as they become.
type scheduler struct {
	vms   []VM
	taken map[string]*infrav1alpha1.InventoryClaim // by the name of the VM
	plan  Plan
}

// reserved reports whether a claim waits for a machine of the group.
func (g Group) reserved(claim *infrav1alpha1.InventoryClaim) bool {
	return claim != nil && claim.ClusterName == g.Cluster && claim.Group == g.Name && claim.MachineName == "" &&
		!claim.Released
}

// held are the VMs that the machines of a group have, and those that are reserved for it, by name.
func (s *scheduler) held(group Group) (of map[string]string, reserved []string) {
	of = map[string]string{}

	for _, vm := range s.vms {
		claim := s.taken[vm.Name]

		switch {
		case group.reserved(claim):
			reserved = append(reserved, vm.Name)
		case claim != nil && !claim.Released && claim.ClusterName == group.Cluster && claim.MachineName != "" &&
			slices.Contains(group.Machines, claim.MachineName):
			of[claim.MachineName] = vm.Name
		}
	}

	return of, reserved
}

// wanted is how many VMs a group is to have: during a rollout there are more machines than replicas.
func (g Group) wanted() int { return max(g.Replicas, len(g.Machines)) }

// giveBack gives up reservations that a group does not need any more, the last ones first.
func (s *scheduler) giveBack(group Group) {
	of, reserved := s.held(group)

	for len(reserved) > 0 && len(of)+len(reserved) > group.wanted() {
		delete(s.taken, reserved[len(reserved)-1])
		reserved = reserved[:len(reserved)-1]
	}
}

// dropBroken gives up reservations of VMs that cannot be used any more.
func (s *scheduler) dropBroken() {
	for _, vm := range s.vms {
		claim := s.taken[vm.Name]
		if claim != nil && claim.MachineName == "" && !claim.Released && vm.Unfit != "" {
			delete(s.taken, vm.Name)
		}
	}
}

// giveBackOfUnknown gives up the reservations of groups that are gone, in clusters that can be seen.
func (s *scheduler) giveBackOfUnknown(known map[[2]string]bool, clusters map[string]bool) {
	for _, vm := range s.vms {
		claim := s.taken[vm.Name]
		if claim == nil || claim.MachineName != "" || claim.Released {
			continue
		}

		if clusters[claim.ClusterName] && !known[[2]string{claim.ClusterName, claim.Group}] {
			delete(s.taken, vm.Name)
		}
	}
}

// serve claims what a group lacks, and gives what is reserved to its machines.
func (s *scheduler) serve(group Group, groups []Group) {
	of, reserved := s.held(group)

	need := group.wanted() - len(of) - len(reserved)
	if need > 0 {
		kept := s.keptFor(group, groups)
		found, passed := s.find(group, need, kept)
		if len(found) < need {
			s.plan.Unschedulable = append(s.plan.Unschedulable, short(group, need, len(found), passed))
			if !group.Standby {
				found = nil
			}
		}

		for _, name := range found {
			s.taken[name] = s.claimFor(group, name)
		}

		reserved = append(reserved, found...)
	}

	for _, machine := range slices.Sorted(slices.Values(group.Machines)) {
		if of[machine] != "" || len(reserved) == 0 {
			continue
		}

		claim := s.taken[reserved[0]].DeepCopy()
		claim.MachineName = machine
		s.taken[reserved[0]] = claim
		reserved = reserved[1:]
	}
}

// claimFor is the claim of a group on a VM. One that was kept for its role keeps its ID: the engine has it.
func (s *scheduler) claimFor(group Group, name string) *infrav1alpha1.InventoryClaim {
	out := &infrav1alpha1.InventoryClaim{ClusterName: group.Cluster, Role: group.Role, Group: group.Name}
	if before := s.taken[name]; before != nil {
		out.ID = before.ID
	}

	return out
}

// keptFor are the VMs that are kept for machines such as those of a group, by name.
func (s *scheduler) keptFor(group Group, groups []Group) map[string]bool {
	out := map[string]bool{}
	if group.Standby {
		return out
	}

	for _, standby := range groups {
		if !standby.Standby || standby.Cluster != group.Cluster || standby.Role != group.Role {
			continue
		}

		_, reserved := s.held(standby)
		for _, name := range reserved {
			out[name] = true
		}
	}

	return out
}

// find looks for VMs, those that are kept for the group first and then in the order of their names, and says why others
// were passed over.
func (s *scheduler) find(group Group, need int, kept map[string]bool) (found []string, passed map[string]string) {
	used, passed := s.topology(group), map[string]string{}
	order := slices.SortedStableFunc(slices.Values(s.vms), func(a, b VM) int {
		return cmp.Compare(btoi(!kept[a.Name]), btoi(!kept[b.Name]))
	})

	for _, vm := range order {
		if len(found) == need {
			break
		}

		value := vm.Labels[group.TopologyKey]

		switch {
		case s.taken[vm.Name] != nil && !kept[vm.Name]:
			passed[vm.Name] = "claimed by " + s.taken[vm.Name].ClusterName
		case !group.Selector.Matches(labels.Set(vm.Labels)):
			passed[vm.Name] = "not selected"
		case vm.Unfit != "":
			passed[vm.Name] = vm.Unfit
		case group.Network != "" && !slices.Contains(vm.Networks, group.Network):
			passed[vm.Name] = "no address on network " + group.Network
		case group.TopologyKey != "" && value != "" && used[value] != "" && used[value] != vm.Name:
			passed[vm.Name] = fmt.Sprintf("%s has the same %s, %s", used[value], group.TopologyKey, value)
		default:
			found = append(found, vm.Name)
			if value != "" {
				used[value] = vm.Name
			}
		}
	}

	return found, passed
}

// noteUnreachable notes the free VMs that a group would choose if they had an address on its network.
func (s *scheduler) noteUnreachable(group Group) {
	for _, vm := range s.vms {
		if group.Network != "" && s.taken[vm.Name] == nil && group.Selector.Matches(labels.Set(vm.Labels)) &&
			!slices.Contains(vm.Networks, group.Network) {
			s.plan.Unreachable[vm.Name] = group.Network
		}
	}
}

// topology has the VM of the group's role for each value of its topology label.
func (s *scheduler) topology(group Group) map[string]string {
	used := map[string]string{}
	if group.TopologyKey == "" {
		return used
	}

	for _, vm := range s.vms {
		claim, value := s.taken[vm.Name], vm.Labels[group.TopologyKey]
		if claim != nil && claim.ClusterName == group.Cluster && claim.Role == group.Role && value != "" {
			used[value] = vm.Name
		}
	}

	return used
}

// maxPassed is how many VMs a message names for each reason, and maxReasons how many reasons it has.
const (
	maxPassed  = 3
	maxReasons = 8
)

// short says what a group lacks, and why VMs were passed over: each reason once, with some of the VMs that it is for.
func short(group Group, need, found int, passed map[string]string) infrav1alpha1.UnschedulableGroup {
	byReason := map[string][]string{}
	for vm, why := range passed {
		byReason[why] = append(byReason[why], vm)
	}

	var parts []string

	for why, vms := range byReason {
		slices.Sort(vms)
		more := ""
		if len(vms) > maxPassed {
			more = fmt.Sprintf(" and %d more", len(vms)-maxPassed)
			vms = vms[:maxPassed]
		}

		parts = append(parts, strings.Join(vms, ", ")+more+": "+why)
	}

	slices.Sort(parts)

	switch {
	case len(parts) == 0:
		parts = []string{"the pool has no other VM"}
	case len(parts) > maxReasons:
		parts = append(parts[:maxReasons], fmt.Sprintf("and %d other reasons", len(parts)-maxReasons))
	}

	return infrav1alpha1.UnschedulableGroup{
		ClusterName: group.Cluster,
		Group:       group.Name,
		Role:        group.Role,
		Wanted:      int32(need),  //nolint:gosec // a number of machines
		Found:       int32(found), //nolint:gosec // a number of machines
		Message:     strings.Join(parts, "; "),
	}
}

// Shortage says what a group of machines lacks.
func Shortage(group infrav1alpha1.UnschedulableGroup) string {
	return fmt.Sprintf("%s %s of cluster %s wants %d VMs more, and %d can be claimed (%s)", group.Role, group.Group,
		group.ClusterName, group.Wanted, group.Found, group.Message)
}

// diff turns the claims as they became into changes.
func (s *scheduler) diff() {
	for _, vm := range s.vms {
		claim := s.taken[vm.Name]
		if vm.Claim == claim {
			continue
		}

		s.plan.Changes = append(s.plan.Changes, Change{VM: vm.Name, Claim: claim})
	}
}
