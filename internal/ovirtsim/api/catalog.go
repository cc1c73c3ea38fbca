package api

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the initial objects of every engine: operating systems, roles, network filters and the like.

var catalogRoutes = []route{
	{"GET", "/bookmarks", listNothing("bookmarks")},
	{"GET", "/clusterlevels", listClusterLevels},
	{"GET", "/clusterlevels/{id}", getClusterLevel},
	{"GET", "/clusters/{cluster}/networkfilters", listNetworkFilters},
	{"GET", "/externalhostproviders", listNothing("external_host_providers")},
	{"GET", "/icons", listNothing("icons")},
	{"GET", "/katelloerrata", listNothing("katello_errata")},
	{"GET", "/macpools", listMACPools},
	{"GET", "/macpools/{id}", readItem(listMACPools)},
	{"GET", "/networkfilters", listNetworkFilters},
	{"GET", "/networkfilters/{id}", readItem(listNetworkFilters)},
	{"GET", "/openstackimageproviders", listNothing("openstack_image_providers")},
	{"GET", "/openstacknetworkproviders", listNothing("openstack_network_providers")},
	{"GET", "/openstackvolumeproviders", listNothing("openstack_volume_providers")},
	{"GET", "/operatingsystems", listOperatingSystems},
	{"GET", "/operatingsystems/{id}", getOperatingSystem},
	{"GET", "/schedulingpolicies", listSchedulingPolicies},
	{"GET", "/schedulingpolicies/{id}", readItem(listSchedulingPolicies)},
	{"GET", "/vmpools", listNothing("vm_pools")},
}

//go:embed catalog.txt
var catalogText string

type (
	operatingSystem  struct{ id, name, architecture, tpm, description string }
	networkFilter    struct{ name, version string }
	role             struct{ name, administrative, mutable, description string }
	schedulingPolicy struct {
		name, isDefault, locked string
		properties              []store.Property
	}
	cpuType struct{ level, architecture, rank, name string }
	permit  struct{ id, name, administrative string }
)

func (p permit) document() *wire.Element {
	return wire.El("permit").SetAttr("id", p.id).Str("name", p.name).Str("administrative", p.administrative)
}

// catalogue is the parsed catalog.txt.
type catalogue struct {
	systems  []operatingSystem
	filters  []networkFilter
	roles    []role
	policies []schedulingPolicy
	cpus     []cpuType
	permits  []permit
	grants   map[string][]string // permits of each role, by the role's name
}

var catalog = sync.OnceValue(func() *catalogue { return parseCatalog(catalogText) })

func parseCatalog(text string) *catalogue {
	out := &catalogue{grants: map[string][]string{}}

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
				made.properties = append(made.properties, store.Property{Name: name, Value: value})
			}

			out.policies = append(out.policies, made)
		case "cpu":
			out.cpus = append(out.cpus, cpuType{words[1], words[2], words[3], rest(4)})
		case "grants":
			out.grants[words[1]] = strings.Split(words[2], ",")
		case "permit":
			out.permits = append(out.permits, permit{words[1], words[2], words[3]})
		}
	}

	return out
}

// osNamed returns the operating system with the given name, or nil.
func (c *catalogue) osNamed(name string) *operatingSystem {
	for i := range c.systems {
		if c.systems[i].name == name {
			return &c.systems[i]
		}
	}

	return nil
}

// supportsTPM reports whether guests of an operating system can have a TPM.
func (c *catalogue) supportsTPM(os string) bool {
	found := c.osNamed(os)
	return found != nil && found.tpm != "unsupported"
}

// versionElement encodes a version such as 4.8 as separate numbers.
func versionElement(version string) *wire.Element {
	out := wire.El("version")
	for i, part := range strings.Split(version, ".") {
		out.Str([]string{"major", "minor", "build", "revision"}[i], part)
	}

	return out
}

func (c *call) iconRefs(of string) (large, small *wire.Element) {
	return wire.Ref(
			"large_icon",
			"icons",
			c.store.IDOf("", "large icon", of),
		), wire.Ref(
			"small_icon",
			"icons",
			c.store.IDOf("", "small icon", of),
		)
}

func osDocument(c *call, s operatingSystem) *wire.Element {
	large, small := c.iconRefs(strings.SplitN(s.name, "_", 2)[0])

	return wire.NewObject("operating_system", s.id, "operatingsystems", s.id).Str("name", s.name).
		Str("description", s.description).
		Str("architecture", s.architecture).Str("tpm_support", s.tpm).Add(large, small)
}

// listOperatingSystems lists the operating systems. The name of its root element differs from its path.
func listOperatingSystems(c *call) (*wire.Element, error) {
	out := wire.El("operation_systems")
	for _, s := range catalog().systems {
		out.AddItems(osDocument(c, s))
	}

	return out, nil
}

func getOperatingSystem(c *call) (*wire.Element, error) {
	for _, s := range catalog().systems {
		if s.id == c.pathID("id") {
			return osDocument(c, s), nil
		}
	}

	return nil, wire.BrokenPage()
}

func filterDocument(c *call, f networkFilter) *wire.Element {
	return wire.NewObject("network_filter", c.store.FilterID(f.name), "networkfilters", c.store.FilterID(f.name)).
		Str("name", f.name).Add(versionElement(f.version))
}

func listNetworkFilters(c *call) (*wire.Element, error) {
	out := wire.El("network_filters")
	for _, f := range catalog().filters {
		out.AddItems(filterDocument(c, f))
	}

	return out, nil
}

func policyDocument(c *call, p schedulingPolicy) *wire.Element {
	id := c.store.IDOf("", "schedulingpolicy", p.name)

	properties := wire.El("properties")
	for _, one := range p.properties {
		properties.AddItems(wire.El("property").Str("name", one.Name).Str("value", one.Value))
	}

	return wire.NewObject("scheduling_policy", id, "schedulingpolicies", id).Str("name", p.name).
		Str("default_policy", p.isDefault).Str("locked", p.locked).Add(properties)
}

func listSchedulingPolicies(c *call) (*wire.Element, error) {
	out := wire.El("scheduling_policies")
	for _, p := range catalog().policies {
		out.AddItems(policyDocument(c, p))
	}

	return out, nil
}

// clusterLevels are the compatibility versions of a 4.5 engine, in the engine's order.
var clusterLevels = []string{"4.2", "4.7", "4.8", "4.6", "4.5", "4.4", "4.3"}

func levelDocument(level string) *wire.Element {
	types := wire.El("cpu_types")

	for _, t := range catalog().cpus {
		if t.level == level {
			types.AddItems(
				wire.El("cpu_type").Str("architecture", t.architecture).Str("level", t.rank).Str("name", t.name),
			)
		}
	}

	permits := wire.El("permits")
	for _, p := range catalog().permits {
		permits.AddItems(p.document())
	}

	return wire.NewObject("cluster_level", level, "clusterlevels", level).Add(types, permits)
}

func listClusterLevels(*call) (*wire.Element, error) {
	out := wire.El("cluster_levels")
	for _, level := range clusterLevels {
		out.AddItems(levelDocument(level))
	}

	return out, nil
}

func getClusterLevel(c *call) (*wire.Element, error) {
	if !slices.Contains(clusterLevels, c.pathID("id")) {
		return nil, wire.NotFound()
	}

	return levelDocument(c.pathID("id")), nil
}

func macPoolDocument(c *call) *wire.Element {
	id := c.store.MACPoolID()
	ranges := wire.El("ranges").
		AddItems(wire.El("range").Str("from", "56:6f:1a:00:00:00").Str("to", "56:6f:1a:ff:ff:ff"))

	return wire.NewObject("mac_pool", id, "macpools", id).Str("name", "Default").Str("description", "Default MAC pool").
		Flag("allow_duplicates", false).Flag("default_pool", true).Add(ranges)
}

func listMACPools(c *call) (*wire.Element, error) {
	return wire.El("mac_pools").AddItems(macPoolDocument(c)), nil
}

// hexID returns the ID of a directory entry: the bytes of its name in hexadecimal.
func hexID(text string) string { return fmt.Sprintf("%X", text) }
