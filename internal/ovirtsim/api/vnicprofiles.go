package api

import (
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
	out := wire.Object("vnic_profile", p.ID, "vnicprofiles", p.ID).Str("name", p.Name).
		Opt("description", p.Description).
		Add(wire.El("pass_through").Str("mode", "disabled")).Flag("port_mirroring", p.Mirroring).
		Add(wire.Ref("network", "networks", p.Network))

	return out.Add(wire.Ref("network_filter", "networkfilters", c.store.FilterID("vdsm-no-mac-spoofing")))
}

func profilesOf(c *call, networkID string) (*wire.Element, error) {
	of := fields[*store.VNICProfile]{
		"name": val(func(p *store.VNICProfile) string { return p.Name }),
		"id":   val(func(p *store.VNICProfile) string { return p.ID }),
	}
	on := func(p *store.VNICProfile) bool { return networkID == "" || p.Network == networkID }

	return collect(c, "vnic_profiles", c.store.VNICProfiles.Where(on, func(p *store.VNICProfile) string {
		return p.Name + p.ID
	}), of, profileDocument)
}

func listVNICProfiles(c *call) (*wire.Element, error) { return profilesOf(c, "") }

func listNetworkProfiles(c *call) (*wire.Element, error) { return profilesOf(c, c.id("id")) }

// changeProfile applies a request to a vNIC profile.
func (c *call) changeProfile(p *store.VNICProfile, in *wire.Element, verb string) error {
	next := *p
	next.Name, next.Description = textOr(in, "name", p.Name), textOr(in, "description", p.Description)
	if in.Has("port_mirroring") {
		next.Mirroring = in.Yes("port_mirroring")
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

func addVNICProfile(c *call) (*wire.Element, error) {
	in := c.body
	if err := require(in, "VnicProfile", "name", "network.id"); err != nil {
		return nil, err
	}

	if err := checkRef(in.Get("network")); err != nil {
		return nil, err
	}

	on := c.store.Networks.Get(wire.RefID(in.Get("network")))
	if on == nil {
		return nil, wire.Invalid(
			"Cannot add VM network interface profile. The specified Logical Network doesn't exist.",
		)
	}

	made := &store.VNICProfile{ID: store.NewID(), Network: on.ID}
	if err := c.changeProfile(made, in, "add"); err != nil {
		return nil, err
	}

	c.store.VNICProfiles.Put(made.ID, made)

	return c.created(profileDocument(c, made)), nil
}

func updateVNICProfile(c *call) (*wire.Element, error) {
	p, err := one(c.store.VNICProfiles, c.id("id"))
	if err != nil {
		return nil, err
	}

	if err := c.changeProfile(p, c.body, "edit"); err != nil {
		return nil, err
	}

	c.store.VNICProfiles.Put(p.ID, p)

	return profileDocument(c, p), nil
}

// profileUnused refuses to take away what VMs or templates use.
func (c *call) profileUnused(p *store.VNICProfile, command string) error {
	for _, n := range c.store.NICs.Rows {
		if n.Profile == p.ID {
			return wire.Conflict("Cannot %s. %s", command, c.store.VMName(n.Owner))
		}
	}

	return nil
}

func removeVNICProfile(c *call) (*wire.Element, error) {
	p, err := one(c.store.VNICProfiles, c.id("id"))
	if err != nil {
		return nil, err
	}

	if err := c.profileUnused(p, "remove VM network interface profile. Several VMs or templates use it"); err != nil {
		return nil, err
	}

	c.store.VNICProfiles.Drop(p.ID)

	return c.complete(), nil
}

func getVNICProfile(c *call) (*wire.Element, error) {
	p, err := one(c.store.VNICProfiles, c.id("id"))
	if err != nil {
		return nil, err
	}

	return profileDocument(c, p), nil
}
