package ovirtsim

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// registry is the engine's only store. Every method but build expects mu to be held.
type registry struct {
	mu sync.Mutex

	dataCenters    []*dataCenter
	clusters       []*cluster
	hosts          []*host
	networks       []*network
	vnicProfiles   []*vnicProfile
	storageDomains []*storageDomain
	templates      []*template

	vms   map[string]*vm
	nics  map[string]*nic
	disks map[string]*disk
	macs  int
}

func build(inventory Inventory) *registry {
	r := &registry{vms: map[string]*vm{}, nics: map[string]*nic{}, disks: map[string]*disk{}}
	named := func(name string) object { return object{id: newID(), name: name} }
	for _, dc := range inventory.DataCenters {
		center := &dataCenter{named(dc.Name)}
		r.dataCenters = append(r.dataCenters, center)
		for _, cl := range dc.Clusters {
			group := &cluster{object: named(cl.Name), dataCenter: center.id}
			r.clusters = append(r.clusters, group)
			for _, name := range cl.Hosts {
				r.hosts = append(r.hosts, &host{object: named(name), cluster: group.id, memory: 64 * gib})
			}
			for _, t := range cl.Templates {
				made := &template{object: named(t.Name), cluster: group.id, osType: t.OSType, diskBytes: t.DiskBytes, memory: t.Memory, kubernetes: t.KubernetesVersion}
				if t.Name == "Blank" {
					made.id = blankTemplateID
				}
				r.templates = append(r.templates, made)
			}
		}
		for _, n := range dc.Networks {
			net := &network{object: named(n.Name), dataCenter: center.id}
			r.networks = append(r.networks, net)
			for _, p := range n.VNICProfiles {
				r.vnicProfiles = append(r.vnicProfiles, &vnicProfile{object: named(p), network: net.id})
			}
		}
		for _, s := range dc.StorageDomains {
			r.storageDomains = append(r.storageDomains, &storageDomain{object: named(s.Name), dataCenter: center.id, bytes: s.Bytes})
		}
	}
	return r
}

// byID finds an object of the static inventory; nil where there is none.
func byID[T interface{ identity() object }](items []T, id string) (found T) {
	if i := slices.IndexFunc(items, func(item T) bool { return item.identity().id == id }); i >= 0 {
		return items[i]
	}
	return found
}

func (o object) identity() object { return o }

func (r *registry) dataCenterOf(clusterID string) string {
	if c := byID(r.clusters, clusterID); c != nil {
		return c.dataCenter
	}
	return ""
}

// nextMAC hands out addresses of oVirt's default pool.
func (r *registry) nextMAC() string {
	r.macs++
	return fmt.Sprintf("56:6f:1a:%02x:%02x:%02x", r.macs>>16&0xff, r.macs>>8&0xff, r.macs&0xff)
}

// nicsOf lists a VM's network interfaces by name.
func (r *registry) nicsOf(vmID string) []*nic {
	var out []*nic
	for _, n := range r.nics {
		if n.vm == vmID {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b *nic) int { return strings.Compare(a.name, b.name) })
	return out
}

// disksOf lists a VM's disks by alias.
func (r *registry) disksOf(vmID string) []*disk {
	var out []*disk
	for _, d := range r.disks {
		if d.vm == vmID {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *disk) int { return strings.Compare(a.name, b.name) })
	return out
}

// sortedVMs lists all VMs by name.
func (r *registry) sortedVMs() []*vm {
	out := make([]*vm, 0, len(r.vms))
	for _, v := range r.vms {
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b *vm) int { return strings.Compare(a.name, b.name) })
	return out
}

// removeVM takes a VM with its disks and network interfaces out of the inventory.
func (r *registry) removeVM(id string) {
	for _, n := range r.nicsOf(id) {
		delete(r.nics, n.id)
	}
	for _, d := range r.disksOf(id) {
		delete(r.disks, d.id)
	}
	delete(r.vms, id)
}

// place picks the host with the most free memory in the VM's cluster; nil when none has enough.
func (r *registry) place(v *vm) *host {
	free := map[string]int64{}
	for _, h := range r.hosts {
		if h.cluster == v.cluster {
			free[h.id] = h.memory
		}
	}
	for _, other := range r.vms {
		if other.host != "" {
			free[other.host] -= other.memory
		}
	}
	var best *host
	for _, h := range r.hosts {
		if h.cluster == v.cluster && free[h.id] >= v.memory && (best == nil || free[h.id] > free[best.id]) {
			best = h
		}
	}
	return best
}
