package preview

import "github.com/capolvm/cluster-api-provider-olvm/internal/desired"

// nameIDs maps the UUIDs in a machine's plan to readable names.
func nameIDs(built *desired.Built) map[string]string {
	out := map[string]string{}
	if names := built.Names; names != nil {
		out[names.ClusterID], out[names.VMTemplateID] = names.ClusterName, names.VMTemplateName
		out[names.NetworkID], out[names.VNICProfileID] = names.NetworkName, names.VNICProfileName
	}

	for name, id := range built.Machine.AffinityGroups {
		out[id] = name
	}

	delete(out, "")
	delete(out, notMade)

	return out
}

// nameOf returns the name for a UUID in the plan of a machine, or "" if the name is unknown.
func (r Rendered) nameOf(id string) string {
	if name := r.names[id]; name != "" || r.knownName == nil {
		return name
	}

	return r.knownName(id)
}
