package api

import (
	"slices"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

var vnicProfileRoutes = []route{
	{"GET", "/networks/{id}/vnicprofiles", listNetworkProfiles},
	{"GET", "/vnicprofiles", listVNICProfiles},
	{"POST", "/vnicprofiles", addVNICProfile},
	{"GET", "/vnicprofiles/{id}", getVNICProfile},
	{"PUT", "/vnicprofiles/{id}", updateVNICProfile},
	{"DELETE", "/vnicprofiles/{id}", removeVNICProfile},
	{"GET", "/vnicprofiles/{id}/permissions", permissionsOf("vnic_profile", "vnicprofiles", "id")},
}

func profileDocument(c *call, p *store.VNICProfile) *wire.Element {
	out := wire.NewObject("vnic_profile", p.ID, "vnicprofiles", p.ID).Str("name", p.Name).
		StrIfSet("description", p.Description).
		Add(wire.El("pass_through").Str("mode", "disabled")).Flag("port_mirroring", p.Mirroring).
		Add(wire.Ref("network", "networks", p.Network))

	return out.Add(wire.Ref("network_filter", "networkfilters", c.store.FilterID("vdsm-no-mac-spoofing")))
}

func profilesOf(c *call, networkID string) (*wire.Element, error) {
	of := fields[*store.VNICProfile]{
		"name": singleValue(func(p *store.VNICProfile) string { return p.Name }),
		"id":   singleValue(func(p *store.VNICProfile) string { return p.ID }),
	}
	on := func(p *store.VNICProfile) bool { return networkID == "" || p.Network == networkID }

	return answerList(c, "vnic_profiles", c.store.VNICProfiles.Where(on, func(p *store.VNICProfile) string {
		return p.Name + p.ID
	}), of, profileDocument)
}

func listVNICProfiles(c *call) (*wire.Element, error) { return profilesOf(c, "") }

func listNetworkProfiles(c *call) (*wire.Element, error) { return profilesOf(c, c.pathID("id")) }

// changeProfile applies a request to a vNIC profile.
func (c *call) changeProfile(p *store.VNICProfile, in *wire.Element, verb string) error {
	next := *p
	next.Name, next.Description = textOr(in, "name", p.Name), textOr(in, "description", p.Description)
	if in.Has("port_mirroring") {
		next.Mirroring = in.IsTrue("port_mirroring")
	}

	for _, other := range c.store.VNICProfiles.Rows {
		if other.ID != p.ID && other.Network == next.Network && other.Name == next.Name {
			return wire.Conflict(
				"Cannot %s VM network interface profile. The VM network interface profile's name is already used by "+
					"an existing profile for the same network.\n-Please choose a different name.",
				verb,
			)
		}
	}

	*p = next

	return nil
}

// addVNICProfile creates a vNIC profile. The texts of its refusals are from the engine's sources.
func addVNICProfile(c *call) (*wire.Element, error) {
	in := c.body
	if err := requireParameter(in, "profile", "name"); err != nil {
		return nil, err
	}

	if wire.RefID(in.Get("network")) == "" {
		return nil, invalidInput("Parameter 'profile.network.id' is mandatory but was not provided.")
	}

	if err := requireElements(in, "VnicProfile", "name"); err != nil {
		return nil, err
	}

	if err := checkRef(in.Get("network")); err != nil {
		return nil, err
	}

	on := c.store.Networks.Get(wire.RefID(in.Get("network")))
	if on == nil {
		return nil, wire.EntityNotFound("Network: id=" + wire.RefID(in.Get("network")))
	}

	made := &store.VNICProfile{ID: store.NewID(), Network: on.ID}
	if err := c.changeProfile(made, in, "add"); err != nil {
		return nil, err
	}

	c.store.VNICProfiles.Put(made.ID, made)

	return c.answerCreated(profileDocument(c, made)), nil
}

func updateVNICProfile(c *call) (*wire.Element, error) {
	p, err := findRow(c.store.VNICProfiles, c.pathID("id"))
	if err != nil {
		return nil, err
	}

	if err := c.changeProfile(p, c.body, "edit"); err != nil {
		return nil, err
	}

	c.store.VNICProfiles.Put(p.ID, p)

	return profileDocument(c, p), nil
}

// checkProfileUnused rejects a command that removes a profile in use by VMs or templates. The parameter what is the
// kind of the removed object, such as "VM network interface profile". The texts are from the engine's sources; for a
// network, they are only approximate.
func (c *call) checkProfileUnused(p *store.VNICProfile, command, what string) error {
	vms, templates := map[string]bool{}, map[string]bool{}

	for _, n := range c.store.NICs.Rows {
		if n.Profile != p.ID {
			continue
		}

		if t := c.store.Templates.Get(n.Owner); t != nil {
			templates[t.Name] = true
		} else {
			vms[c.store.VMName(n.Owner)] = true
		}
	}

	kind, names := "virtual machine", wire.SortedKeys(vms)
	if len(names) == 0 {
		kind, names = "template", wire.SortedKeys(templates)
	}

	switch len(names) {
	case 0:
		return nil
	case 1:
		return wire.Conflict("Cannot %s. This %s is used by %s:  %s.\n - Please remove it from this %s and try again.",
			command, what, kind, nameLines(names), kind)
	default:
		return wire.Conflict("Cannot %s. This %s is used by %ss (%d): %s\n - Please detach %ss using this profile "+
			"and try "+
			"again.", command, what, kind, len(names), nameLines(names), kind)
	}
}

// nameLines formats names in the form of the engine's refusals: one per line, at most five.
func nameLines(names []string) string {
	const most = 5
	if len(names) > most {
		names = append(slices.Clone(names[:most]), "...")
	}

	return "\t" + strings.Join(names, ",\n\t")
}

func removeVNICProfile(c *call) (*wire.Element, error) {
	p, err := findRow(c.store.VNICProfiles, c.pathID("id"))
	if err != nil {
		return nil, err
	}

	const what = "VM network interface profile"
	if err := c.checkProfileUnused(p, "remove "+what, what); err != nil {
		return nil, err
	}

	c.store.VNICProfiles.Drop(p.ID)

	return c.answerComplete(), nil
}

func getVNICProfile(c *call) (*wire.Element, error) {
	p, err := findRow(c.store.VNICProfiles, c.pathID("id"))
	if err != nil {
		return nil, err
	}

	return profileDocument(c, p), nil
}
