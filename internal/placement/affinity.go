package placement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// defaultGroups returns the groups of OLVMClusters that request no others.
func defaultGroups() []infrav1.AffinityGroup {
	return []infrav1.AffinityGroup{
		{
			Name:        "control-plane",
			Role:        infrav1.ControlPlaneRole,
			Priority:    5,
			Description: "Control plane machines on different hosts",
		},
		{Name: "workers", Role: infrav1.WorkerRole, Priority: 3, Description: "Worker machines on different hosts"},
	}
}

// hasDefaultGroups reports whether an OLVMCluster requests the default groups.
func hasDefaultGroups(spec infrav1.OLVMClusterSpec) bool {
	if spec.DefaultAffinityGroups == "" {
		return spec.AffinityGroups == nil
	}

	return spec.DefaultAffinityGroups == infrav1.DefaultAffinityGroupsEnabled
}

// CollectAffinityGroups returns the groups that an OLVMCluster requests. These are its own groups, the default groups
// unless it turns them off, and the groups of its support services. The parameter of is nil for a cluster without
// support services.
func CollectAffinityGroups(
	spec infrav1.OLVMClusterSpec, of *infrav1alpha1.OLVMSupportServices,
) []infrav1.AffinityGroup {
	out := slices.Clone(spec.AffinityGroups)
	if hasDefaultGroups(spec) {
		for _, group := range defaultGroups() {
			named := func(g infrav1.AffinityGroup) bool { return g.Name == group.Name }
			if !slices.ContainsFunc(out, named) {
				out = append(out, group)
			}
		}
	}

	if len(out) == 0 {
		return out // the cluster wants no groups
	}

	for _, service := range support.CollectServices(of) {
		named := func(g infrav1.AffinityGroup) bool { return g.Name == service.Name }
		if service.Replicas > 1 && !slices.ContainsFunc(out, named) {
			out = append(out, infrav1.AffinityGroup{
				Name:        service.Name,
				Priority:    4,
				Description: "VMs of " + service.Name + " on different hosts",
			})
		}
	}

	return out
}

// GetRole returns the role of a Machine. It is "" for the stand-in of a support service's Machine.
func GetRole(machine *clusterv1.Machine) infrav1.MachineRole {
	switch {
	case support.GetServiceName(machine) != "":
		return ""
	case util.IsControlPlaneMachine(machine):
		return infrav1.ControlPlaneRole
	}

	return infrav1.WorkerRole
}

// CollectGroupNames returns the names of a machine's groups. These are the group of its role, the group of its support
// service, and the groups that it names itself.
func CollectGroupNames(
	groups []infrav1.AffinityGroup, spec infrav1.OLVMMachineSpec, role infrav1.MachineRole, service string,
) ([]string, error) {
	named := spec.VirtualMachine.Placement.AffinityGroupNames

	var out, all []string
	for _, g := range groups {
		all = append(all, g.Name)
		if role != "" && g.Role == role || service != "" && g.Name == service || slices.Contains(named, g.Name) {
			out = append(out, g.Name)
		}
	}

	for _, name := range named {
		if !slices.Contains(all, name) {
			return nil, &blocker.Error{
				Reason: infrav1.AffinityGroupNotFoundReason,
				Field:  "spec.virtualMachine.placement.affinityGroupNames",
				Message: fmt.Sprintf(
					"OLVMCluster spec.affinityGroups has no group %q; %s; correct the name or add the group", name,
					formatKnown(all),
				),
			}
		}
	}

	slices.Sort(out)

	return out, nil
}

// Member is a machine in the form that affinity groups need.
type Member struct {
	// Name is the name of the OLVMMachine.
	Name string
	// Groups are the names of the machine's groups.
	Groups []string
	// ClusterID is the ID of the engine's cluster for the VM.
	ClusterID engine.ID
	// HostIDs are the hosts on which the VM may run; empty means all hosts of the cluster.
	HostIDs []engine.ID
	// HasVM and Created determine the order of the machines if there is not enough room for all.
	HasVM   bool
	Created time.Time
}

// GroupKey distinguishes the groups of one OLVMCluster.
type GroupKey struct {
	Name      string
	ClusterID engine.ID
}

// String returns the key in the form used in configurations and states.
func (k GroupKey) String() string { return k.Name + "/" + k.ClusterID.String() }

// ParseGroupKey parses the result of String.
func ParseGroupKey(text string) GroupKey {
	name, id, _ := strings.Cut(text, "/")
	return GroupKey{Name: name, ClusterID: engine.ID(id)}
}

// Group is the desired state of an affinity group.
type Group struct {
	infrav1.AffinityGroup
	ClusterID engine.ID
	// Off reports that the cluster no longer requests the group. The group loses its rule. It is deleted together with
	// the OLVMCluster.
	Off bool
	// Hard reports that a VM must not run if it would violate the rule.
	Hard bool
	// Machines is the number of machines in the group. Hosts is the number of running hosts in the group's cluster.
	Machines, Hosts int
	// Short reports that there are not enough hosts to keep all machines apart.
	Short bool
	// Waiting are the names of the machines for which a hard group without enough hosts has no room.
	Waiting []string
}

// Key returns the key of the group.
func (g Group) Key() GroupKey { return GroupKey{Name: g.Name, ClusterID: g.ClusterID} }

// DecideGroups determines the groups that should exist, and whether each of them is hard. The parameter existing
// contains the groups that exist already. They stay until the OLVMCluster is deleted.
//
// A group that keeps machines apart has room if each of its machines can have its own running host. All existing
// machines count, even those in deletion and those that a rollout adds. For example, a fourth control plane machine on
// three hosts makes the group soft before its VM starts. The group becomes hard again after the old machine is gone.
func DecideGroups(asked []infrav1.AffinityGroup, members []Member, hosts []engine.Host, existing []GroupKey) []Group {
	byKey := map[GroupKey][]Member{}
	for _, key := range existing {
		byKey[key] = nil
	}

	for _, m := range members {
		for _, name := range m.Groups {
			key := GroupKey{Name: name, ClusterID: m.ClusterID}
			byKey[key] = append(byKey[key], m)
		}
	}

	up := map[engine.ID][]engine.ID{}

	for _, h := range hosts {
		if h.Status == engine.HostUp {
			cluster := engine.RefID(h.Cluster)
			up[cluster] = append(up[cluster], h.ID)
		}
	}

	var out []Group

	for key, inGroup := range byKey {
		g := Group{ClusterID: key.ClusterID, Machines: len(inGroup), Hosts: len(up[key.ClusterID])}
		at := slices.IndexFunc(asked, func(a infrav1.AffinityGroup) bool { return a.Name == key.Name })
		if at < 0 {
			g.Name, g.Off = key.Name, true
			out = append(out, g)
			continue
		}

		g.AffinityGroup = asked[at]
		var waiting []string
		if !g.Positive {
			waiting = findWithoutRoom(inGroup, up[key.ClusterID])
		}

		switch cmp.Or(g.Enforcing, infrav1.AffinityAuto) {
		case infrav1.AffinityAlways:
			g.Hard, g.Short, g.Waiting = true, len(waiting) > 0, waiting
		case infrav1.AffinityAuto:
			g.Short = len(waiting) > 0
			g.Hard = !g.Short && !g.Positive
		case infrav1.AffinityNever:
		}

		out = append(out, g)
	}

	slices.SortFunc(out, func(a, b Group) int { return cmp.Compare(a.Key().String(), b.Key().String()) })

	return out
}

// findWithoutRoom assigns each machine its own host: first to machines with a VM, then to older machines. It returns
// the machines without a host. A machine with a host never loses it to a later machine, but may get another host
// instead.
func findWithoutRoom(members []Member, hosts []engine.ID) []string {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b Member) int {
		if a.HasVM != b.HasVM {
			if a.HasVM {
				return -1
			}

			return 1
		}

		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	holder := map[engine.ID]int{} // machine by host
	var out []string

	for i, m := range members {
		if len(holder) == len(hosts) || !assignHost(members, hosts, holder, i, map[engine.ID]bool{}) {
			out = append(out, m.Name)
		}
	}

	return out
}

// assignHost finds a host for the machine. For this, it may move other machines to other hosts that they may use.
func assignHost(
	members []Member, hosts []engine.ID, holder map[engine.ID]int, machine int, tried map[engine.ID]bool,
) bool {
	for _, host := range hosts {
		if tried[host] || len(members[machine].HostIDs) > 0 && !slices.Contains(members[machine].HostIDs, host) {
			continue
		}

		tried[host] = true
		if other, taken := holder[host]; !taken || assignHost(members, hosts, holder, other, tried) {
			holder[host] = machine
			return true
		}
	}

	return false
}

// FormatGroupName returns the name of a group in the engine. In an engine, names of groups are unique across all
// clusters, so the name contains the beginning of the cluster's UUID. Namespaces and names contain no underscore.
// Therefore, no two OLVMClusters of a management cluster get the same name.
func FormatGroupName(owner ownermark.Owner, key GroupKey) string {
	const shown = 8

	return strings.Join(
		[]string{owner.Namespace, owner.Name, key.Name, key.ClusterID.String()[:min(shown, len(key.ClusterID))]},
		"_",
	)
}

// ParseGroupOwner parses the owner's mark in a group's description. It returns false if the group is not ours.
func ParseGroupOwner(description string) (ownermark.Owner, bool) {
	return ownermark.ParseOwner(ownermark.ParseSuffix(description))
}

// BuildCluster returns the input for rendering the groups of an OLVMCluster.
func BuildCluster(client *engine.Client, config engine.Config, owner ownermark.Owner, groups []Group) render.Cluster {
	out := render.Cluster{Engine: connection.RenderEngine(client, config)}
	for _, g := range groups {
		out.Groups = append(out.Groups, render.AffinityGroup{
			Key:         g.Key().String(),
			Name:        FormatGroupName(owner, g.Key()),
			Description: owner.AppendTo(g.Description),
			ClusterID:   g.ClusterID.String(),
			Priority:    int64(cmp.Or(g.Priority, 1)), Positive: g.Positive, Enforcing: g.Hard, Off: g.Off,
		})
	}

	return out
}

// FindGroups finds those groups that exist in the engine but not in the state. An earlier run created them, but ended
// before it recorded them. It returns the groups to import, as import IDs by their addresses in the state. It returns
// an error if a group has a name of ours but is not ours.
func FindGroups(
	ctx context.Context, client *engine.Client, owner ownermark.Owner, groups []Group, inState []GroupKey,
) (map[render.Address]string, error) {
	imports := map[render.Address]string{}

	for _, g := range groups {
		if slices.Contains(inState, g.Key()) {
			continue
		}

		named, err := client.ListAffinityGroupsNamed(ctx, FormatGroupName(owner, g.Key()))
		if err != nil {
			return nil, err
		}

		if len(named) == 0 {
			continue
		}

		at := slices.IndexFunc(named, func(found engine.AffinityGroup) bool {
			theirs, ok := ParseGroupOwner(found.DescriptionText())
			return ok && theirs == owner && engine.RefID(found.Cluster) == g.ClusterID
		})
		if at < 0 {
			found := named[0]

			return nil, &blocker.Error{
				Reason: infrav1.AffinityGroupConflictReason,
				Field:  "spec.affinityGroups",
				Message: fmt.Sprintf(
					"the engine already has an affinity group %q (%s) that does not belong to this OLVMCluster (its "+
						"description is %q); rename or delete it",
					found.Name, found.ID, found.DescriptionText(),
				),
			}
		}

		imports[render.GroupAddress(g.Key().String())] = g.ClusterID.String() + "/" + named[at].ID.String()
	}

	return imports, nil
}
