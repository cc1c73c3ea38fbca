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

// VM is a VM in the form that the scheduler needs.
type VM struct {
	// Name is the name of the OLVMInventoryVM.
	Name   string
	Labels map[string]string
	// Networks are the networks on which the VM has a static address.
	Networks []string
	// Unfit explains why the VM cannot be claimed, such as PoweredOn, or why a reserved VM cannot be used. It is "" if
	// it can.
	Unfit string
	// Claim is the claim on the VM, or nil.
	Claim *infrav1alpha1.InventoryClaim
}

// Group is a group of machines that get their VMs together, such as the machines of a MachineSet or a control plane.
type Group struct {
	// Cluster, Role and Name identify the group in claims.
	Cluster, Role, Name string
	// Machines has the names of the OLVMMachines that are not being deleted.
	Machines []string
	// Replicas is the desired number of machines.
	Replicas int
	// Selector selects VMs by label. TopologyKey is a label, and the role gets at most one VM for each value of it.
	// Network is a network on which the VM must have an address. An empty value means that there is no such rule.
	Selector    labels.Selector
	TopologyKey string
	Network     string
	// Standby reports whether the VMs are for future machines of the role. Such a group gets as many VMs as are
	// available.
	Standby bool
}

// key identifies a group within an inventory.
func (g Group) key() [2]string { return [2]string{g.Cluster, g.Name} }

// Change is a change of the claim on a VM.
type Change struct {
	// VM is the name of the OLVMInventoryVM.
	VM string
	// Claim is the claim from now on. A new claim has no ID. nil releases a VM that is reserved but not used.
	Claim *infrav1alpha1.InventoryClaim
}

// Plan lists the changes of a pass over an inventory.
type Plan struct {
	Changes []Change
	// Unschedulable lists the groups that do not get enough VMs.
	Unschedulable []infrav1alpha1.UnschedulableGroup
	// Unreachable maps VMs to the wanted network on which they have no address.
	Unreachable map[string]string
}

// Schedule assigns VMs to groups. A group gets all VMs it needs, or none. A role gets at most one VM for each value of
// the group's topology label. Claimed VMs count for this rule, but VMs without the label do not. Schedule assigns VMs
// in the order of their names, and serves groups in the given order. clusters has the existing Clusters that are not
// paused. Schedule releases only the reservations of these clusters.
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

	s.releaseBroken()

	known := map[[2]string]bool{}
	for _, group := range groups {
		known[group.key()] = true
		s.releaseSurplus(group)
	}

	s.releaseUnknown(known, clusters)

	// Standby groups come last, because machines take their VMs first, and then the groups are refilled.
	groups = slices.SortedStableFunc(slices.Values(groups), func(a, b Group) int {
		return cmp.Compare(boolToInt(a.Standby), boolToInt(b.Standby))
	})

	for _, group := range groups {
		s.serveGroup(group, groups)
		s.noteUnreachable(group)
	}

	s.recordChanges()

	return s.plan
}

// GetGroupName returns the name of a Machine's group: the kind and name of its controller, or its own if it has none.
func GetGroupName(machine *clusterv1.Machine) string {
	if maker := metav1.GetControllerOf(machine); maker != nil {
		return maker.Kind + "/" + maker.Name
	}

	return "Machine/" + machine.Name
}

func boolToInt(b bool) int {
	if b {
		return 1
	}

	return 0
}

// scheduler has the claims as the plan changes them.
type scheduler struct {
	vms   []VM
	taken map[string]*infrav1alpha1.InventoryClaim // by the name of the VM
	plan  Plan
}

// isReservation reports whether a claim is a reservation of the group.
func (g Group) isReservation(claim *infrav1alpha1.InventoryClaim) bool {
	return claim != nil && claim.ClusterName == g.Cluster && claim.Group == g.Name && claim.MachineName == "" &&
		!claim.Released
}

// findHeld returns the VMs of a group's machines by machine, and the names of the VMs reserved for the group.
func (s *scheduler) findHeld(group Group) (of map[string]string, reserved []string) {
	of = map[string]string{}

	for _, vm := range s.vms {
		claim := s.taken[vm.Name]

		switch {
		case group.isReservation(claim):
			reserved = append(reserved, vm.Name)
		case claim != nil && !claim.Released && claim.ClusterName == group.Cluster && claim.MachineName != "" &&
			slices.Contains(group.Machines, claim.MachineName):
			of[claim.MachineName] = vm.Name
		}
	}

	return of, reserved
}

// wantedCount returns the number of VMs that a group needs. During a rollout, there are more machines than replicas.
func (g Group) wantedCount() int { return max(g.Replicas, len(g.Machines)) }

// releaseSurplus releases the surplus reservations of a group, starting with the last ones.
func (s *scheduler) releaseSurplus(group Group) {
	of, reserved := s.findHeld(group)

	for len(reserved) > 0 && len(of)+len(reserved) > group.wantedCount() {
		delete(s.taken, reserved[len(reserved)-1])
		reserved = reserved[:len(reserved)-1]
	}
}

// releaseBroken releases reservations of unusable VMs.
func (s *scheduler) releaseBroken() {
	for _, vm := range s.vms {
		claim := s.taken[vm.Name]
		if claim != nil && claim.MachineName == "" && !claim.Released && vm.Unfit != "" {
			delete(s.taken, vm.Name)
		}
	}
}

// releaseUnknown releases the reservations of groups that no longer exist in known clusters.
func (s *scheduler) releaseUnknown(known map[[2]string]bool, clusters map[string]bool) {
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

// serveGroup claims the VMs that a group lacks, and assigns reserved VMs to its machines.
func (s *scheduler) serveGroup(group Group, groups []Group) {
	of, reserved := s.findHeld(group)

	need := group.wantedCount() - len(of) - len(reserved)
	if need > 0 {
		kept := s.findStandby(group, groups)
		found, passed := s.findVMs(group, need, kept)
		if len(found) < need {
			s.plan.Unschedulable = append(s.plan.Unschedulable, describeShortage(group, need, len(found), passed))
			if !group.Standby {
				found = nil
			}
		}

		for _, name := range found {
			s.taken[name] = s.newClaim(group, name)
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

// newClaim returns the claim of a group on a VM. A standby VM keeps the ID of its claim, because the engine already has
// it.
func (s *scheduler) newClaim(group Group, name string) *infrav1alpha1.InventoryClaim {
	out := &infrav1alpha1.InventoryClaim{ClusterName: group.Cluster, Role: group.Role, Group: group.Name}
	if before := s.taken[name]; before != nil {
		out.ID = before.ID
	}

	return out
}

// findStandby returns the standby VMs that a group may take.
func (s *scheduler) findStandby(group Group, groups []Group) map[string]bool {
	out := map[string]bool{}
	if group.Standby {
		return out
	}

	for _, standby := range groups {
		if !standby.Standby || standby.Cluster != group.Cluster || standby.Role != group.Role {
			continue
		}

		_, reserved := s.findHeld(standby)
		for _, name := range reserved {
			out[name] = true
		}
	}

	return out
}

// findVMs looks for VMs, first among the group's standby VMs, then by name. For all other VMs, it returns the reasons
// for skipping them.
func (s *scheduler) findVMs(group Group, need int, kept map[string]bool) (found []string, passed map[string]string) {
	used, passed := s.mapTopology(group), map[string]string{}
	order := slices.SortedStableFunc(slices.Values(s.vms), func(a, b VM) int {
		return cmp.Compare(boolToInt(!kept[a.Name]), boolToInt(!kept[b.Name]))
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

// noteUnreachable records the free VMs that the group's selector matches, but that have no address on its network.
func (s *scheduler) noteUnreachable(group Group) {
	for _, vm := range s.vms {
		if group.Network != "" && s.taken[vm.Name] == nil && group.Selector.Matches(labels.Set(vm.Labels)) &&
			!slices.Contains(vm.Networks, group.Network) {
			s.plan.Unreachable[vm.Name] = group.Network
		}
	}
}

// mapTopology maps each value of the topology label to the VM with this value that the group's role has.
func (s *scheduler) mapTopology(group Group) map[string]string {
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

// maxPassed limits the VMs named for each reason in a message, and maxReasons the reasons.
const (
	maxPassed  = 3
	maxReasons = 8
)

// describeShortage describes how many VMs a group lacks, and why VMs were skipped. It gives each reason once, with some
// of its VMs.
func describeShortage(group Group, need, found int, passed map[string]string) infrav1alpha1.UnschedulableGroup {
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

// FormatShortage describes for users how many VMs a group of machines lacks.
func FormatShortage(group infrav1alpha1.UnschedulableGroup) string {
	return fmt.Sprintf("%s %s of cluster %s needs %d more VMs, but %d can be claimed (%s)", group.Role, group.Group,
		group.ClusterName, group.Wanted, group.Found, group.Message)
}

// recordChanges records the changed claims in the plan.
func (s *scheduler) recordChanges() {
	for _, vm := range s.vms {
		claim := s.taken[vm.Name]
		if vm.Claim == claim {
			continue
		}

		s.plan.Changes = append(s.plan.Changes, Change{VM: vm.Name, Claim: claim})
	}
}
