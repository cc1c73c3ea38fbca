package ovirtsim

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// This file has what every engine has from the beginning: operating systems, roles, network filters and the like.

//go:embed catalog.txt
var catalogText string

type (
	operatingSystem  struct{ id, name, architecture, tpm, description string }
	networkFilter    struct{ name, version string }
	role             struct{ name, administrative, mutable, description string }
	schedulingPolicy struct {
		name, isDefault, locked string
		properties              []property
	}
	cpuType struct{ level, architecture, rank, name string }
	permit  struct{ id, name, administrative string }
)

// catalogue is the parsed catalog.txt.
type catalogue struct {
	systems  []operatingSystem
	filters  []networkFilter
	roles    []role
	policies []schedulingPolicy
	cpus     []cpuType
	permits  []permit
}

var catalog = sync.OnceValue(func() *catalogue { return parseCatalog(catalogText) })

func parseCatalog(text string) *catalogue {
	out := &catalogue{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		rest := func(n int) string { return strings.SplitN(line, " ", n+1)[n] }
		switch words[0] {
		case "os":
			out.systems = append(out.systems, operatingSystem{words[1], words[2], words[3], words[4], rest(5)})
		case "filter":
			out.filters = append(out.filters, networkFilter{words[1], words[2]})
		case "role":
			out.roles = append(out.roles, role{words[1], words[2], words[3], rest(4)})
		case "policy":
			made := schedulingPolicy{name: words[1], isDefault: words[2], locked: words[3]}
			for _, word := range words[4:] {
				name, value, _ := strings.Cut(word, "=")
				made.properties = append(made.properties, property{name, value})
			}
			out.policies = append(out.policies, made)
		case "cpu":
			out.cpus = append(out.cpus, cpuType{words[1], words[2], words[3], rest(4)})
		case "permit":
			out.permits = append(out.permits, permit{words[1], words[2], words[3]})
		}
	}
	return out
}

// osNamed is the operating system of a name; nil where the engine does not know it.
func (c *catalogue) osNamed(name string) *operatingSystem {
	for i := range c.systems {
		if c.systems[i].name == name {
			return &c.systems[i]
		}
	}
	return nil
}

// tpm says whether guests of an operating system can have a TPM.
func (c *catalogue) tpm(os string) bool {
	found := c.osNamed(os)
	return found != nil && found.tpm != "unsupported"
}

// versionElement writes a version such as 4.8 or 3.2 in its parts.
func versionElement(version string) *element {
	out := el("version")
	for i, part := range strings.Split(version, ".") {
		out.str([]string{"major", "minor", "build", "revision"}[i], part)
	}
	return out
}

func (c *call) icons(of string) (large, small *element) {
	return ref("large_icon", "icons", c.store.idOf("", "large icon", of)), ref("small_icon", "icons", c.store.idOf("", "small icon", of))
}

func osDocument(c *call, s operatingSystem) *element {
	large, small := c.icons(strings.SplitN(s.name, "_", 2)[0])
	return object("operating_system", s.id, "operatingsystems", s.id).str("name", s.name).str("description", s.description).
		str("architecture", s.architecture).str("tpm_support", s.tpm).add(large, small)
}

// listOperatingSystems has a root element that is not called as its path is.
func listOperatingSystems(c *call) (*element, error) {
	out := el("operation_systems")
	for _, s := range catalog().systems {
		out.items(osDocument(c, s))
	}
	return out, nil
}

func getOperatingSystem(c *call) (*element, error) {
	for _, s := range catalog().systems {
		if s.id == c.id("id") {
			return osDocument(c, s), nil
		}
	}
	return nil, brokenPage()
}

func (s *store) filterID(name string) string { return s.idOf("", "networkfilter", name) }

func filterDocument(c *call, f networkFilter) *element {
	return object("network_filter", c.store.filterID(f.name), "networkfilters", c.store.filterID(f.name)).str("name", f.name).add(versionElement(f.version))
}

func listNetworkFilters(c *call) (*element, error) {
	out := el("network_filters")
	for _, f := range catalog().filters {
		out.items(filterDocument(c, f))
	}
	return out, nil
}

func policyDocument(c *call, p schedulingPolicy) *element {
	id := c.store.idOf("", "schedulingpolicy", p.name)
	properties := el("properties")
	for _, one := range p.properties {
		properties.items(el("property").str("name", one.Name).str("value", one.Value))
	}
	return object("scheduling_policy", id, "schedulingpolicies", id).str("name", p.name).str("default_policy", p.isDefault).str("locked", p.locked).add(properties)
}

func listSchedulingPolicies(c *call) (*element, error) {
	out := el("scheduling_policies")
	for _, p := range catalog().policies {
		out.items(policyDocument(c, p))
	}
	return out, nil
}

// clusterLevels are the compatibility versions of a 4.5 engine, in its order.
var clusterLevels = []string{"4.2", "4.7", "4.8", "4.6", "4.5", "4.4", "4.3"}

func levelDocument(level string) *element {
	types := el("cpu_types")
	for _, t := range catalog().cpus {
		if t.level == level {
			types.items(el("cpu_type").str("architecture", t.architecture).str("level", t.rank).str("name", t.name))
		}
	}
	permits := el("permits")
	for _, p := range catalog().permits {
		permits.items(el("permit").set("id", p.id).str("name", p.name).str("administrative", p.administrative))
	}
	return object("cluster_level", level, "clusterlevels", level).add(types, permits)
}

func listClusterLevels(*call) (*element, error) {
	out := el("cluster_levels")
	for _, level := range clusterLevels {
		out.items(levelDocument(level))
	}
	return out, nil
}

func getClusterLevel(c *call) (*element, error) {
	if !slices.Contains(clusterLevels, c.id("id")) {
		return nil, gone()
	}
	return levelDocument(c.id("id")), nil
}

func (s *store) macPoolID() string { return s.idOf("", "macpool", "Default") }

func macPoolDocument(c *call) *element {
	id := c.store.macPoolID()
	ranges := el("ranges").items(el("range").str("from", "56:6f:1a:00:00:00").str("to", "56:6f:1a:ff:ff:ff"))
	return object("mac_pool", id, "macpools", id).str("name", "Default").str("description", "Default MAC pool").flag("allow_duplicates", false).flag("default_pool", true).add(ranges)
}

func listMACPools(c *call) (*element, error) { return el("mac_pools").items(macPoolDocument(c)), nil }

// hexID is the ID of a directory's entry: the engine shows the bytes of its name.
func hexID(text string) string { return fmt.Sprintf("%X", text) }
