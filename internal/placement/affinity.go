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

// defaultGroups are those of OLVMClusters that ask for no others.
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

// hasDefaultGroups reports whether an OLVMCluster asks for the default groups.
func hasDefaultGroups(spec infrav1.OLVMClusterSpec) bool {
	if spec.DefaultAffinityGroups == "" {
		return spec.AffinityGroups == nil
	}

	return spec.DefaultAffinityGroups == infrav1.DefaultAffinityGroupsEnabled
}

// CollectAffinityGroups are the groups that an OLVMCluster asks for: its own, the default ones unless it does without,
// and those of its support services. of is nil for a cluster without them.
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
		return out // none are wanted
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

// GetRole is the role of a Machine; empty for what stands for one of a support service.
func GetRole(machine *clusterv1.Machine) infrav1.MachineRole {
	switch {
	case support.GetServiceName(machine) != "":
		return ""
	case util.IsControlPlaneMachine(machine):
		return infrav1.ControlPlaneRole
	}

	return infrav1.WorkerRole
}

// CollectGroupNames are the groups of a machine: those of its role, if it has one, that of its support service, if it
// is of one, and those that it names.
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

// Member is a machine as affinity groups see it.
type Member struct {
	// Name of the OLVMMachine.
	Name string
	// Groups in which it is, by name.
	Groups []string
	// ClusterID of the engine's cluster in which it is or will be.
	ClusterID engine.ID
	// HostIDs on which it may run; empty means all of the cluster.
	HostIDs []engine.ID
	// HasVM and Created order the machines where there is no room for all.
	HasVM   bool
	Created time.Time
}

// GroupKey tells the groups of one OLVMCluster apart.
type GroupKey struct {
	Name      string
	ClusterID engine.ID
}

// String is the key as configurations and states have it.
func (k GroupKey) String() string { return k.Name + "/" + k.ClusterID.String() }

// ParseGroupKey reads what String wrote.
func ParseGroupKey(text string) GroupKey {
	name, id, _ := strings.Cut(text, "/")
	return GroupKey{Name: name, ClusterID: engine.ID(id)}
}

// Group is an affinity group as it should be now.
type Group struct {
	infrav1.AffinityGroup
	ClusterID engine.ID
	// Off reports that the group is not asked for any more: it loses its rule. It goes with the OLVMCluster.
	Off bool
	// Hard reports whether a VM that cannot keep the rule may not run.
	Hard bool
	// Machines in the group, and Hosts of its cluster that are up.
	Machines, Hosts int
	// Short reports that the machines are more than can be kept apart.
	Short bool
	// Waiting are the machines for which a hard group that is short has no room, by name.
	Waiting []string
}

// Key of the group.
func (g Group) Key() GroupKey { return GroupKey{Name: g.Name, ClusterID: g.ClusterID} }

// DecideGroups decides which groups there should be, and how hard each is. existing are those that there are already:
// they stay until the OLVMCluster goes.
//
// A group that keeps machines apart has room while each of its machines can have a host of its own among those that are
// up. Machines are counted that exist, also those that are being deleted and those that a rollout adds: a fourth
// control plane machine on three hosts makes the group soft before its VM starts, and the group is hard again when the
// old one is gone.
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

// findWithoutRoom gives each machine a host of its own, those that have a VM first, then the older ones, and returns
// the machines that got none. A machine that gets a host never loses it to a later one; it may be given another.
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
	holder := map[engine.ID]int{} // by host
	var out []string

	for i, m := range members {
		if len(holder) == len(hosts) || !assignHost(members, hosts, holder, i, map[engine.ID]bool{}) {
			out = append(out, m.Name)
		}
	}

	return out
}

// assignHost looks for a host for the machine, moving others to hosts that they may have too.
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

// FormatGroupName is the name of a group in the engine, where names of groups are unique across all clusters: it
// carries the beginning of the cluster's UUID. Namespaces and names have no underscore, so no two OLVMClusters of a
// management cluster get the same.
func FormatGroupName(owner ownermark.Owner, key GroupKey) string {
	const shown = 8

	return strings.Join(
		[]string{owner.Namespace, owner.Name, key.Name, key.ClusterID.String()[:min(shown, len(key.ClusterID))]},
		"_",
	)
}

// ParseGroupOwner reads the mark in a group's description; false where the group is not ours.
func ParseGroupOwner(description string) (ownermark.Owner, bool) {
	return ownermark.ParseOwner(ownermark.ParseSuffix(description))
}

// BuildCluster is what to render for the groups of an OLVMCluster.
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

// FindGroups looks for groups that the engine has already, of those that the state does not know: what an earlier run
// made and did not live to record. It returns what to import: the import ID by the address in the state. A group of our
// name that is not ours is an error.
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
