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

// Validate returns an error that lists all mistakes, each with the path of its field.
func (inv *Inventory) Validate() error {
	v := &validation{ids: map[string]bool{}}
	if inv.Version != "" && !versionPattern.MatchString(inv.Version) {
		v.addProblem("version", "%q is not a version such as 4.5.4", inv.Version)
	}

	if len(inv.DataCenters) == 0 {
		v.addProblem("dataCenters", "is empty; name at least one")
	}

	centers := v.nameChecker("dataCenters")

	types := v.nameChecker("instanceTypes")
	for i, t := range inv.InstanceTypes {
		types(i, t.Name, t.ID)
	}

	users := v.nameChecker("users")
	for i, u := range inv.Users {
		users(i, u.Name, "")
		if u.Password == "" {
			v.addProblem(fmt.Sprintf("users[%d].password", i), "is empty")
		}
	}

	tags := v.nameChecker("tags")
	for i, t := range inv.Tags {
		tags(i, t, "")
	}

	for i, dc := range inv.DataCenters {
		centers(i, dc.Name, dc.ID)
		v.checkDataCenter(fmt.Sprintf("dataCenters[%d].", i), dc)
	}

	return errors.Join(v.errs...)
}

type validation struct {
	errs []error
	ids  map[string]bool
}

func (v *validation) addProblem(path, format string, args ...any) {
	v.errs = append(v.errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
}

// nameChecker checks the objects of a list for unique names, and for UUIDs as IDs.
func (v *validation) nameChecker(path string) func(i int, name, id string) {
	seen := map[string]bool{}

	return func(i int, name, id string) {
		at := fmt.Sprintf("%s[%d]", path, i)

		switch {
		case name == "":
			v.addProblem(at, "has no name")
		case seen[name]:
			v.addProblem(at, "the name %q is used twice", name)
		}

		seen[name] = true
		if id != "" {
			if _, err := uuid.Parse(id); err != nil {
				v.addProblem(at+".id", "%q is not a UUID", id)
			}

			if v.ids[id] {
				v.addProblem(at+".id", "%s is used twice", id)
			}

			v.ids[id] = true
		}
	}
}

// centerNames are the names to which objects of a data center can refer.
type centerNames struct {
	networks, domains, clusters, templates []string
	// profiles are names of the form NETWORK/PROFILE.
	profiles []string
}

func (v *validation) checkDataCenter(at string, dc DataCenter) {
	var names centerNames
	v.checkNetworks(at, dc, &names)
	v.checkStorageDomains(at, dc, &names)
	v.checkClusters(at, dc, &names)
	v.checkTemplates(at, dc, &names)
	v.checkVMs(at, dc, &names)
}

func (v *validation) checkNetworks(at string, dc DataCenter, names *centerNames) {
	named := v.nameChecker(at + "networks")
	for i, n := range dc.Networks {
		named(i, n.Name, n.ID)
		names.networks = append(names.networks, n.Name)

		for _, p := range n.VNICProfiles {
			names.profiles = append(names.profiles, n.Name+"/"+p)
		}

		if n.DHCP != nil {
			v.checkDHCP(fmt.Sprintf("%snetworks[%d].dhcp", at, i), n.DHCP)
		}

		prefix, err := netip.ParsePrefix(n.SLAAC)
		if n.SLAAC != "" && (err != nil || !prefix.Addr().Is6() || prefix.Bits() != 64) {
			v.addProblem(fmt.Sprintf("%snetworks[%d].slaac", at, i), "%q is not an IPv6 prefix of 64 bits", n.SLAAC)
		}

		for j, address := range n.Router {
			if _, err := netip.ParsePrefix(address); err != nil {
				v.addProblem(fmt.Sprintf("%snetworks[%d].router[%d]", at, i, j),
					"%q is not an address with its prefix, such as 10.198.0.1/24", address)
			}
		}
	}
}

func (v *validation) checkStorageDomains(at string, dc DataCenter, names *centerNames) {
	named := v.nameChecker(at + "storageDomains")
	for i, d := range dc.StorageDomains {
		named(i, d.Name, d.ID)
		names.domains = append(names.domains, d.Name)
		if d.Type != "" && !slices.Contains(storageTypes, d.Type) {
			v.addProblem(fmt.Sprintf("%sstorageDomains[%d].type", at, i), "%q is none of %v", d.Type, storageTypes)
		}
	}
}

func (v *validation) checkClusters(at string, dc DataCenter, names *centerNames) {
	named := v.nameChecker(at + "clusters")
	for i, c := range dc.Clusters {
		named(i, c.Name, c.ID)
		names.clusters = append(names.clusters, c.Name)
		here := fmt.Sprintf("%sclusters[%d].", at, i)

		hosts := v.nameChecker(here + "hosts")
		for j, h := range c.Hosts {
			hosts(j, h.Name, h.ID)
			if h.Cores < 0 || h.Sockets < 0 || h.Threads < 0 {
				v.addProblem(fmt.Sprintf("%shosts[%d]", here, j), "cores, sockets and threads must not be negative")
			}
		}

		var vms []string

		for _, m := range dc.VMs {
			if m.Cluster == c.Name {
				vms = append(vms, m.Name)
			}
		}

		groups := v.nameChecker(here + "affinityGroups")
		for j, g := range c.AffinityGroups {
			groups(j, g.Name, g.ID)

			for _, name := range g.VMs {
				v.checkKnown(fmt.Sprintf("%saffinityGroups[%d].vms", here, j), name, vms, false)
			}
		}
	}
}

func (v *validation) checkTemplates(at string, dc DataCenter, names *centerNames) {
	named := v.nameChecker(at + "templates")
	for i, t := range dc.Templates {
		named(i, t.Name, t.ID)
		names.templates = append(names.templates, t.Name)
		here := fmt.Sprintf("%stemplates[%d].", at, i)
		if t.Cores < 0 {
			v.addProblem(here+"cores", "must not be negative")
		}

		if !slices.Contains(store.Images, t.Image) {
			v.addProblem(here+"image", "%q is not one of %s", t.Image, strings.Join(store.Images[1:], ", "))
		}

		v.checkKnown(here+"cluster", t.Cluster, names.clusters, true)
		v.checkTemplateDisks(here, t, names)

		for j, n := range t.NICs {
			profile := n.Network + "/" + cmp.Or(n.VNICProfile, n.Network)
			v.checkKnown(fmt.Sprintf("%snics[%d].network", here, j), n.Network, names.networks, false)
			v.checkKnown(fmt.Sprintf("%snics[%d].vnicProfile", here, j), profile, names.profiles, false)
		}
	}
}

func (v *validation) checkTemplateDisks(here string, t Template, names *centerNames) {
	for i, d := range t.Disks {
		v.checkKnown(fmt.Sprintf("%sdisks[%d].storageDomain", here, i), d.StorageDomain, names.domains, true)

		for j, copied := range d.Copies {
			v.checkKnown(fmt.Sprintf("%sdisks[%d].copies[%d]", here, i, j), copied, names.domains, false)
		}

		if d.Size <= 0 {
			v.addProblem(fmt.Sprintf("%sdisks[%d].size", here, i), "must be positive")
		}

		if d.Format != "" && d.Format != "cow" && d.Format != "raw" {
			v.addProblem(fmt.Sprintf("%sdisks[%d].format", here, i), "%q is neither cow nor raw", d.Format)
		}
	}

	if len(t.Disks) > 0 && len(names.domains) == 0 {
		v.addProblem(here+"disks", "the data center has no storage domain for them")
	}
}

func (v *validation) checkVMs(at string, dc DataCenter, names *centerNames) {
	named := v.nameChecker(at + "vms")
	for i, m := range dc.VMs {
		named(i, m.Name, m.ID)
		here := fmt.Sprintf("%svms[%d].", at, i)
		if !store.IsPlainName(m.Name) {
			v.addProblem(here+"name", "%q may hold only letters, digits, dash, underscore and dot", m.Name)
		}

		v.checkKnown(here+"cluster", m.Cluster, names.clusters, false)
		v.checkKnown(here+"template", m.Template, append(slices.Clone(names.templates), "Blank"), false)
	}
}

func (v *validation) checkDHCP(at string, d *store.DHCP) {
	first, err := netip.ParseAddr(d.First)

	last, err2 := netip.ParseAddr(d.Last)
	switch {
	case err != nil:
		v.addProblem(at+".first", "%v", err)
	case err2 != nil:
		v.addProblem(at+".last", "%v", err2)
	case last.Less(first) || first.Is4() != last.Is4():
		v.addProblem(at+".last", "%s does not follow %s", d.Last, d.First)
	}

	if d.Bits < 1 || d.Bits > 128 || first.Is4() && d.Bits > 32 {
		v.addProblem(at+".bits", "%d is not the length of a prefix", d.Bits)
	}

	if d.Gateway != "" {
		if _, err := netip.ParseAddr(d.Gateway); err != nil {
			v.addProblem(at+".gateway", "%v", err)
		}
	}
}

func (v *validation) checkKnown(at, name string, names []string, optional bool) {
	if optional && name == "" || slices.Contains(names, name) {
		return
	}

	v.addProblem(at, "%q is none of %q", name, names)
}
