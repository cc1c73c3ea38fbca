package inventory

import (
	"cmp"
	"fmt"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

// FillStore adds the inventory's objects to an empty store, except its VMs and affinity groups. The engine creates
// these VMs and groups.
func (inv Inventory) FillStore(s *store.Store) {
	now := time.Now()
	s.Templates.Put(store.BlankTemplateID, &store.Template{
		Hardware:     store.BlankHardware(),
		ID:           store.BlankTemplateID,
		Name:         "Blank",
		Description:  "Blank template",
		Status:       store.StatusOK,
		Base:         store.BlankTemplateID,
		NotDeletable: true,
		Consoles:     []store.GraphicsConsole{{ID: store.ConsoleIDs["vnc"], Protocol: "vnc"}}, Created: now,
	})

	for _, t := range inv.InstanceTypes {
		id := s.IDOf(t.ID, "instancetype", t.Name)
		made := &store.InstanceType{Hardware: store.BlankHardware(), ID: id, Name: t.Name, Created: now}
		made.SetMemory(int64(cmp.Or(t.Memory, store.GiB)))
		made.CPU = store.Topology{Cores: 1, Sockets: cmp.Or(t.Cores, 1), Threads: 1}
		made.Settings.SetText("0", "io", "threads")
		s.InstanceTypes.Put(id, made)
	}

	description := "root"
	root := &store.Tag{ID: store.RootTagID, Name: "root", Description: &description}
	s.Tags.Put(root.ID, root)

	for _, name := range inv.Tags {
		s.EnsureTag(name)
	}

	for _, u := range inv.Users {
		s.EnsureUser(u.Name, u.Password, cmp.Or(u.Role, "UserRole"))
		s.UserNamed(u.Name).Permits = u.Permits
	}

	for _, dc := range inv.DataCenters {
		fillDataCenter(s, dc, now)
	}
}

func fillDataCenter(s *store.Store, dc DataCenter, now time.Time) {
	center := &store.DataCenter{ID: s.IDOf(dc.ID, "datacenter", dc.Name), Name: dc.Name, Description: dc.Description}
	s.DataCenters.Put(center.ID, center)

	for _, n := range dc.Networks {
		fillNetwork(s, dc.Name, center.ID, n)
	}

	for _, d := range dc.StorageDomains {
		id := s.IDOf(d.ID, "storagedomain", dc.Name, d.Name)
		s.StorageDomains.Put(id, &store.StorageDomain{
			ID:          id,
			Name:        d.Name,
			DataCenter:  center.ID,
			Bytes:       int64(cmp.Or(d.Size, 1024*store.GiB)),
			StorageType: cmp.Or(d.Type, "nfs"),
			Maintenance: d.Maintenance,
		})
	}

	for _, c := range dc.Clusters {
		fillCluster(s, dc.Name, center.ID, c)
	}

	for _, t := range dc.Templates {
		fillTemplate(s, dc, center.ID, t, now)
	}
}

func fillNetwork(s *store.Store, dcName, dcID string, n Network) {
	net := &store.Network{
		ID:         s.IDOf(n.ID, "network", dcName, n.Name),
		Name:       n.Name,
		DataCenter: dcID,
		VLAN:       n.VLAN,
		DHCP:       n.DHCP,
		SLAAC:      n.SLAAC,
		Proxy:      n.Proxy,
		Router:     n.Router,
		Leases:     map[string]string{},
	}
	s.Networks.Put(net.ID, net)

	for _, p := range n.VNICProfiles {
		id := s.IDOf("", "vnicprofile", dcName, n.Name, p)
		s.VNICProfiles.Put(id, &store.VNICProfile{ID: id, Name: p, Network: net.ID})
	}
}

// clusterID returns the ID of the data center's cluster with the given name, or "" if there is none.
func (dc DataCenter) clusterID(s *store.Store, name string) string {
	for _, c := range dc.Clusters {
		if c.Name == name && name != "" {
			return s.IDOf(c.ID, "cluster", dc.Name, name)
		}
	}

	return ""
}

// domainID returns the ID of the data center's storage domain with the given name. An empty name means the first
// domain.
func (dc DataCenter) domainID(s *store.Store, name string) string {
	for i, d := range dc.StorageDomains {
		if d.Name == name || name == "" && i == 0 {
			return s.IDOf(d.ID, "storagedomain", dc.Name, d.Name)
		}
	}

	return ""
}

func fillTemplate(s *store.Store, dc DataCenter, dcID string, t Template, now time.Time) {
	made := &store.Template{
		Hardware:    store.BlankHardware(),
		ID:          s.IDOf(t.ID, "template", dc.Name, t.Name),
		Name:        t.Name,
		DataCenter:  dcID,
		Description: t.Description,
		Cluster:     dc.clusterID(s, t.Cluster),
		Status:      store.StatusOK,
		Version:     1,
		VersionName: store.BaseVersion,
		Kubernetes:  t.Kubernetes,
		Ignition:    t.Ignition,
		Image:       t.Image,
		Created:     now,
		Consoles:    []store.GraphicsConsole{{ID: store.ConsoleIDs["vnc"], Protocol: "vnc"}},
	}
	made.OSType, made.Type = cmp.Or(t.OSType, "other"), cmp.Or(t.Type, "server")
	made.SetMemory(int64(cmp.Or(t.Memory, store.GiB)))
	made.CPU = store.Topology{Cores: cmp.Or(t.Cores, 1), Sockets: 1, Threads: 1}
	made.Base = made.ID
	s.Templates.Put(made.ID, made)

	for i, d := range t.Disks {
		fillTemplateDisk(s, dc, made, i, d)
	}

	for _, n := range t.NICs {
		id := s.IDOf("", "nic", dc.Name, t.Name, n.Name)
		s.NICs.Put(id, &store.NIC{
			ID:        id,
			Name:      n.Name,
			Owner:     made.ID,
			Interface: "virtio",
			Order:     s.NextNumber("nics"),
			Profile:   s.IDOf("", "vnicprofile", dc.Name, n.Network, cmp.Or(n.VNICProfile, n.Network)),
		})
	}
}

func fillTemplateDisk(s *store.Store, dc DataCenter, t *store.Template, index int, d TemplateDisk) {
	id := s.IDOf("", "disk", dc.Name, t.Name, fmt.Sprint(index))
	format := cmp.Or(d.Format, "cow")

	var copies []string
	for _, name := range d.Copies {
		copies = append(copies, dc.domainID(s, name))
	}

	s.Disks.Put(id, &store.Disk{
		ID:          id,
		Name:        cmp.Or(d.Name, fmt.Sprintf("%s_Disk%d", t.Name, index+1)),
		Domain:      dc.domainID(s, d.StorageDomain),
		Copies:      copies,
		Format:      format,
		Sparse:      format == "cow",
		Status:      store.StatusOK,
		ContentType: "data",
		Provisioned: int64(d.Size),
		Actual:      int64(d.Size) / 10,
		Made:        true,
	})
	s.AttachDisk(t.ID, id, "virtio_scsi", index == 0)
}

func fillCluster(s *store.Store, dcName, dcID string, c Cluster) {
	group := &store.Cluster{
		ID:          s.IDOf(c.ID, "cluster", dcName, c.Name),
		Name:        c.Name,
		Description: c.Description,
		DataCenter:  dcID,
		CPUType:     cmp.Or(c.CPUType, "Secure Intel Skylake Server Family"),
		BiosType:    store.DefaultBios,
	}
	s.Clusters.Put(group.ID, group)

	for _, h := range c.Hosts {
		made := &store.Host{
			ID:      s.IDOf(h.ID, "host", dcName, c.Name, h.Name),
			Name:    h.Name,
			Cluster: group.ID,
			Address: h.Name + ".example.com",
			Status:  store.HostUp,
			Memory:  int64(cmp.Or(h.Memory, 64*store.GiB)),
			CPU: store.Topology{
				Cores:   cmp.Or(h.Cores, 8),
				Sockets: cmp.Or(h.Sockets, 2),
				Threads: cmp.Or(h.Threads, 2),
			},
		}
		made.Devices, made.MediatedTypes = h.Devices, h.MediatedDeviceTypes
		if h.Maintenance {
			made.Status = store.HostMaintenance
		}

		s.Hosts.Put(made.ID, made)

		for _, name := range h.AffinityLabels {
			label := s.Labels.Get(s.IDOf("", "label", name))
			if label == nil {
				label = &store.AffinityLabel{ID: s.IDOf("", "label", name), Name: name}
			}

			label.Hosts = append(label.Hosts, made.ID)
			s.Labels.Put(label.ID, label)
		}
	}
}
