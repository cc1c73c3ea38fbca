package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

// Validate returns an error listing all mistakes, with the path of each field.
func (inv *Inventory) Validate() error {
	v := &validation{ids: map[string]bool{}}
	if inv.Version != "" && !versionPattern.MatchString(inv.Version) {
		v.wrong("version", "%q is not a version such as 4.5.4", inv.Version)
	}

	if len(inv.DataCenters) == 0 {
		v.wrong("dataCenters", "is empty; name at least one")
	}

	centers := v.names("dataCenters")

	types := v.names("instanceTypes")
	for i, t := range inv.InstanceTypes {
		types(i, t.Name, t.ID)
	}

	users := v.names("users")
	for i, u := range inv.Users {
		users(i, u.Name, "")
		if u.Password == "" {
			v.wrong(fmt.Sprintf("users[%d].password", i), "is empty")
		}
	}

	tags := v.names("tags")
	for i, t := range inv.Tags {
		tags(i, t, "")
	}

	for i, dc := range inv.DataCenters {
		centers(i, dc.Name, dc.ID)
		v.dataCenter(fmt.Sprintf("dataCenters[%d].", i), dc)
	}

	return errors.Join(v.errs...)
}

type validation struct {
	errs []error
	ids  map[string]bool
}

func (v *validation) wrong(path, format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

// names checks the objects of a list for unique names, and for UUIDs as IDs.
func (v *validation) names(path string) func(i int, name, id string) {
	seen := map[string]bool{}

	return func(i int, name, id string) {
		at := fmt.Sprintf("%s[%d]", path, i)

		switch {
		case name == "":
			v.wrong(at, "has no name")
		case seen[name]:
			v.wrong(at, "the name %q is used twice", name)
		}

		seen[name] = true
		if id != "" {
			if _, err := uuid.Parse(id); err != nil {
				v.wrong(at+".id", "%q is not a UUID", id)
			}

			if v.ids[id] {
				v.wrong(at+".id", "%s is used twice", id)
			}

			v.ids[id] = true
		}
	}
}

// centerNames are the names available for references within a data center.
type centerNames struct {
	networks, domains, clusters, templates []string
	// profiles are named NETWORK/PROFILE.
	profiles []string
}

func (v *validation) dataCenter(at string, dc DataCenter) {
	var names centerNames
	v.networks(at, dc, &names)
	v.storageDomains(at, dc, &names)
	v.clusters(at, dc, &names)
	v.templates(at, dc, &names)
	v.vms(at, dc, &names)
}

func (v *validation) networks(at string, dc DataCenter, names *centerNames) {
	named := v.names(at + "networks")
	for i, n := range dc.Networks {
		named(i, n.Name, n.ID)
		names.networks = append(names.networks, n.Name)

		for _, p := range n.VNICProfiles {
			names.profiles = append(names.profiles, n.Name+"/"+p)
		}

		if n.DHCP != nil {
			v.dhcp(fmt.Sprintf("%snetworks[%d].dhcp", at, i), n.DHCP)
		}

		prefix, err := netip.ParsePrefix(n.SLAAC)
		if n.SLAAC != "" && (err != nil || !prefix.Addr().Is6() || prefix.Bits() != 64) {
			v.wrong(fmt.Sprintf("%snetworks[%d].slaac", at, i), "%q is not an IPv6 prefix of 64 bits", n.SLAAC)
		}

		for j, address := range n.Router {
			if _, err := netip.ParsePrefix(address); err != nil {
				v.wrong(fmt.Sprintf("%snetworks[%d].router[%d]", at, i, j),
					"%q is not an address with its prefix, such as 10.198.0.1/24", address)
			}
		}
	}
}

func (v *validation) storageDomains(at string, dc DataCenter, names *centerNames) {
	named := v.names(at + "storageDomains")
	for i, d := range dc.StorageDomains {
		named(i, d.Name, d.ID)
		names.domains = append(names.domains, d.Name)
		if d.Type != "" && !slices.Contains(storageTypes, d.Type) {
			v.wrong(fmt.Sprintf("%sstorageDomains[%d].type", at, i), "%q is none of %v", d.Type, storageTypes)
		}
	}
}

func (v *validation) clusters(at string, dc DataCenter, names *centerNames) {
	named := v.names(at + "clusters")
	for i, c := range dc.Clusters {
		named(i, c.Name, c.ID)
		names.clusters = append(names.clusters, c.Name)
		here := fmt.Sprintf("%sclusters[%d].", at, i)

		hosts := v.names(here + "hosts")
		for j, h := range c.Hosts {
			hosts(j, h.Name, h.ID)
			if h.Cores < 0 || h.Sockets < 0 || h.Threads < 0 {
				v.wrong(fmt.Sprintf("%shosts[%d]", here, j), "cores, sockets and threads must not be negative")
			}
		}

		var vms []string

		for _, m := range dc.VMs {
			if m.Cluster == c.Name {
				vms = append(vms, m.Name)
			}
		}

		groups := v.names(here + "affinityGroups")
		for j, g := range c.AffinityGroups {
			groups(j, g.Name, g.ID)

			for _, name := range g.VMs {
				v.known(fmt.Sprintf("%saffinityGroups[%d].vms", here, j), name, vms, false)
			}
		}
	}
}

func (v *validation) templates(at string, dc DataCenter, names *centerNames) {
	named := v.names(at + "templates")
	for i, t := range dc.Templates {
		named(i, t.Name, t.ID)
		names.templates = append(names.templates, t.Name)
		here := fmt.Sprintf("%stemplates[%d].", at, i)
		if t.Cores < 0 {
			v.wrong(here+"cores", "must not be negative")
		}

		if !slices.Contains(store.Images, t.Image) {
			v.wrong(here+"image", "%q is not one of %s", t.Image, strings.Join(store.Images[1:], ", "))
		}

		v.known(here+"cluster", t.Cluster, names.clusters, true)
		v.templateDisks(here, t, names)

		for j, n := range t.NICs {
			profile := n.Network + "/" + cmp.Or(n.VNICProfile, n.Network)
			v.known(fmt.Sprintf("%snics[%d].network", here, j), n.Network, names.networks, false)
			v.known(fmt.Sprintf("%snics[%d].vnicProfile", here, j), profile, names.profiles, false)
		}
	}
}

func (v *validation) templateDisks(here string, t Template, names *centerNames) {
	for i, d := range t.Disks {
		v.known(fmt.Sprintf("%sdisks[%d].storageDomain", here, i), d.StorageDomain, names.domains, true)

		for j, copied := range d.Copies {
			v.known(fmt.Sprintf("%sdisks[%d].copies[%d]", here, i, j), copied, names.domains, false)
		}

		if d.Size <= 0 {
			v.wrong(fmt.Sprintf("%sdisks[%d].size", here, i), "must be positive")
		}

		if d.Format != "" && d.Format != "cow" && d.Format != "raw" {
			v.wrong(fmt.Sprintf("%sdisks[%d].format", here, i), "%q is neither cow nor raw", d.Format)
		}
	}

	if len(t.Disks) > 0 && len(names.domains) == 0 {
		v.wrong(here+"disks", "the data center has no storage domain for them")
	}
}

func (v *validation) vms(at string, dc DataCenter, names *centerNames) {
	named := v.names(at + "vms")
	for i, m := range dc.VMs {
		named(i, m.Name, m.ID)
		here := fmt.Sprintf("%svms[%d].", at, i)
		if !store.PlainName(m.Name) {
			v.wrong(here+"name", "%q may hold only letters, digits, dash, underscore and dot", m.Name)
		}

		v.known(here+"cluster", m.Cluster, names.clusters, false)
		v.known(here+"template", m.Template, append(slices.Clone(names.templates), "Blank"), false)
	}
}

func (v *validation) dhcp(at string, d *store.DHCP) {
	first, err := netip.ParseAddr(d.First)

	last, err2 := netip.ParseAddr(d.Last)
	switch {
	case err != nil:
		v.wrong(at+".first", "%v", err)
	case err2 != nil:
		v.wrong(at+".last", "%v", err2)
	case last.Less(first) || first.Is4() != last.Is4():
		v.wrong(at+".last", "%s does not follow %s", d.Last, d.First)
	}

	if d.Bits < 1 || d.Bits > 128 || first.Is4() && d.Bits > 32 {
		v.wrong(at+".bits", "%d is not the length of a prefix", d.Bits)
	}

	if d.Gateway != "" {
		if _, err := netip.ParseAddr(d.Gateway); err != nil {
			v.wrong(at+".gateway", "%v", err)
		}
	}
}

func (v *validation) known(at, name string, names []string, optional bool) {
	if optional && name == "" || slices.Contains(names, name) {
		return
	}

	v.wrong(at, "%q is none of %q", name, names)
}
