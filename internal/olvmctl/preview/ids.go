package preview

import "github.com/capolvm/cluster-api-provider-olvm/internal/desired"

// nameIDs are the names of what a machine is made of, by the UUIDs that a plan has for them.
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

// nameOf is the name of what has a UUID in the plan of a machine; empty if it is not known.
func (r Rendered) nameOf(id string) string {
	if name := r.names[id]; name != "" || r.knownName == nil {
		return name
	}

	return r.knownName(id)
}
