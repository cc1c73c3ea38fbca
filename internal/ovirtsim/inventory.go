package ovirtsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// Inventory is the world before the first request. Names refer to each other. An object without an ID gets a random
// UUID; the Blank template has the zero UUID as on every engine, and is there even if no inventory names it.
type Inventory struct {
	// Version of the engine, such as 4.5.4; empty means 4.5.4.
	Version string `json:"version,omitempty"`
	// DataCenters with all that lives in them.
	DataCenters []DataCenter `json:"dataCenters"`
	// InstanceTypes that size VMs.
	InstanceTypes []InstanceType `json:"instanceTypes,omitempty"`
	// Tags that exist from the beginning.
	Tags []string `json:"tags,omitempty"`
	// Users besides the one of the options.
	Users []User `json:"users,omitempty"`
}

// DataCenter is a data center and all that lives in it.
type DataCenter struct {
	Name        string `json:"name"`
	ID          string `json:"id,omitempty"`
	Description string `json:"description,omitempty"`
	// Clusters of hosts.
	Clusters []Cluster `json:"clusters"`
	// Networks, each with its vNIC profiles.
	Networks []Network `json:"networks"`
	// StorageDomains for disks; the first is used where a request names none.
	StorageDomains []StorageDomain `json:"storageDomains"`
	// Templates of VMs.
	Templates []Template `json:"templates,omitempty"`
	// VMs that exist from the beginning; they are down unless they say up.
	VMs []VM `json:"vms,omitempty"`
}

// Cluster of hosts.
type Cluster struct {
	Name        string `json:"name"`
	ID          string `json:"id,omitempty"`
	Description string `json:"description,omitempty"`
	// CPUType of all hosts; empty means a secure Skylake.
	CPUType string `json:"cpuType,omitempty"`
	Hosts   []Host `json:"hosts"`
	// AffinityGroups of the cluster.
	AffinityGroups []AffinityGroup `json:"affinityGroups,omitempty"`
}

// Host of VMs.
type Host struct {
	Name string `json:"name"`
	ID   string `json:"id,omitempty"`
	// Memory is 64Gi where it is not set.
	Memory Size `json:"memory,omitempty"`
	// Cores per socket is 8, Sockets 2 and Threads 2 where they are not set.
	Cores   int64 `json:"cores,omitempty"`
	Sockets int64 `json:"sockets,omitempty"`
	Threads int64 `json:"threads,omitempty"`
	// Maintenance keeps it from running VMs.
	Maintenance bool `json:"maintenance,omitempty"`
	// AffinityLabels that the host has; they come into being by being named.
	AffinityLabels []string `json:"affinityLabels,omitempty"`
}

// Network with its vNIC profiles.
type Network struct {
	Name string `json:"name"`
	ID   string `json:"id,omitempty"`
	VLAN int64  `json:"vlan,omitempty"`
	// VNICProfiles by name.
	VNICProfiles []string `json:"vnicProfiles"`
	// DHCP is the network's DHCP server; OLVM itself has none.
	DHCP *DHCP `json:"dhcp,omitempty"`
	// SLAAC is the IPv6 prefix that the network's router announces, such as fd00:20:30::/64.
	SLAAC string `json:"slaac,omitempty"`
}

// DHCP is the simulated DHCP server of a network.
type DHCP struct {
	// First and Last address that it gives out.
	First string `json:"first"`
	Last  string `json:"last"`
	// Bits is the length of the prefix.
	Bits int `json:"bits"`
	// Gateway that comes with the lease.
	Gateway string `json:"gateway,omitempty"`
}

// StorageDomain for disks.
type StorageDomain struct {
	Name string `json:"name"`
	ID   string `json:"id,omitempty"`
	// Size is 1Ti where it is not set.
	Size Size `json:"size,omitempty"`
	// Type is nfs, iscsi, fcp, glusterfs, posixfs, localfs; empty means nfs. Raw disks on block storage are preallocated.
	Type string `json:"type,omitempty"`
}

// Template of VMs.
type Template struct {
	Name        string `json:"name"`
	ID          string `json:"id,omitempty"`
	Description string `json:"description,omitempty"`
	// Cluster by name; empty means that it can be used in all clusters of the data center.
	Cluster string `json:"cluster,omitempty"`
	// OSType decides what reads the user data: Ignition where it is rhcos_x64, else cloud-init.
	OSType string `json:"os,omitempty"`
	// Type of VM: server, desktop or high_performance.
	Type string `json:"type,omitempty"`
	// Disks; the first one is bootable.
	Disks []TemplateDisk `json:"disks,omitempty"`
	// NICs by name and vNIC profile, copied into each VM.
	NICs []TemplateNIC `json:"nics,omitempty"`
	// Memory is 1Gi where it is not set.
	Memory Size `json:"memory,omitempty"`
	// Cores is 1 where it is not set.
	Cores int64 `json:"cores,omitempty"`
	// Kubernetes is the version of kubelet and kubeadm in the image, such as v1.36.1; empty means that it has none.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Ignition is the highest specification that the image reads; empty means 3.4.0.
	Ignition string `json:"ignition,omitempty"`
}

// TemplateDisk is a disk of a template.
type TemplateDisk struct {
	Name string `json:"name,omitempty"`
	Size Size   `json:"size"`
	// StorageDomain by name; empty means the data center's first.
	StorageDomain string `json:"storageDomain,omitempty"`
	// Format is cow or raw; empty means cow.
	Format string `json:"format,omitempty"`
}

// TemplateNIC is a network interface of a template.
type TemplateNIC struct {
	Name string `json:"name"`
	// Network and VNICProfile by name; an empty profile means that of the network's name.
	Network     string `json:"network"`
	VNICProfile string `json:"vnicProfile,omitempty"`
}

// VM that exists from the beginning.
type VM struct {
	Name     string `json:"name"`
	ID       string `json:"id,omitempty"`
	Cluster  string `json:"cluster"`
	Template string `json:"template"`
	Comment  string `json:"comment,omitempty"`
	Memory   Size   `json:"memory,omitempty"`
	// Up starts it.
	Up bool `json:"up,omitempty"`
	// DeleteProtected refuses its removal.
	DeleteProtected bool     `json:"deleteProtected,omitempty"`
	Tags            []string `json:"tags,omitempty"`
}

// AffinityGroup of a cluster; VMs and hosts by name.
type AffinityGroup struct {
	Name string   `json:"name"`
	ID   string   `json:"id,omitempty"`
	VMs  []string `json:"vms,omitempty"`
	// Positive keeps VMs together, else apart. Enforcing makes the rule hard.
	Positive  bool `json:"positive,omitempty"`
	Enforcing bool `json:"enforcing,omitempty"`
}

// InstanceType sizes VMs.
type InstanceType struct {
	Name   string `json:"name"`
	ID     string `json:"id,omitempty"`
	Memory Size   `json:"memory"`
	Cores  int64  `json:"cores,omitempty"`
}

// User of the engine.
type User struct {
	// Name with its domain, such as admin@internal.
	Name     string `json:"name"`
	Password string `json:"password"`
	// Role on the whole system, such as SuperUser; empty means UserRole, which sees VMs and may start and stop them.
	Role string `json:"role,omitempty"`
}

// Size in bytes, written as a Kubernetes quantity: 4Gi, 500M, 1048576.
type Size int64

// UnmarshalJSON reads a quantity.
func (s *Size) UnmarshalJSON(raw []byte) error {
	text := string(raw)
	if len(text) > 1 && text[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("%q is not a size such as 4Gi: %w", text, err)
	}
	if quantity.Sign() < 0 {
		return fmt.Errorf("the size %q is negative", text)
	}
	*s = Size(quantity.Value())
	return nil
}

// MarshalJSON writes a quantity.
func (s Size) MarshalJSON() ([]byte, error) {
	return json.Marshal(resource.NewQuantity(int64(s), resource.BinarySI).String())
}

// DefaultInventory is a small site: one data center with one cluster of three hosts, two networks, two storage domains,
// and templates for cloud-init and Ignition guests.
func DefaultInventory() Inventory {
	disks := []TemplateDisk{{Size: 20 * gib}}
	return Inventory{
		DataCenters: []DataCenter{{
			Name:           "Default",
			Clusters:       []Cluster{{Name: "Default", Hosts: []Host{{Name: "host-1"}, {Name: "host-2"}, {Name: "host-3"}}}},
			Networks:       []Network{{Name: "ovirtmgmt", VNICProfiles: []string{"ovirtmgmt"}}, {Name: "kvm-vlan", VLAN: 20, VNICProfiles: []string{"kvm-vlan"}}},
			StorageDomains: []StorageDomain{{Name: "olvm-data"}, {Name: "olvm-data-2"}},
			Templates: []Template{
				{Name: "ol9-k8s", Cluster: "Default", OSType: "ol_9x64", Disks: disks, Memory: 4 * gib, Kubernetes: "v1.36.1"},
				{Name: "ock-1.36", Cluster: "Default", OSType: osRHCOS, Disks: disks, Memory: 4 * gib, Kubernetes: "v1.36.1"},
			},
		}},
		InstanceTypes: []InstanceType{
			{Name: "Tiny", Memory: gib / 2, Cores: 1}, {Name: "Small", Memory: 2 * gib, Cores: 1}, {Name: "Medium", Memory: 4 * gib, Cores: 2},
			{Name: "Large", Memory: 8 * gib, Cores: 2}, {Name: "XLarge", Memory: 16 * gib, Cores: 4},
		},
	}
}

// LoadInventory reads and validates a YAML file.
func LoadInventory(path string) (Inventory, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Inventory{}, fmt.Errorf("failed to read the inventory: %w", err)
	}
	inventory, err := ParseInventory(content)
	if err != nil {
		return Inventory{}, fmt.Errorf("%s: %w", path, err)
	}
	return inventory, nil
}

// ParseInventory reads and validates YAML. Unknown fields are errors.
func ParseInventory(content []byte) (Inventory, error) {
	var inventory Inventory
	if err := yaml.UnmarshalStrict(content, &inventory); err != nil {
		return Inventory{}, fmt.Errorf("the inventory cannot be read: %w", err)
	}
	return inventory, inventory.Validate()
}

var (
	versionPattern = regexp.MustCompile(`^4\.\d+\.\d+(\.\d+)?$`)
	storageTypes   = []string{"nfs", "iscsi", "fcp", "glusterfs", "posixfs", "localfs"}
)

// Validate says what is wrong with the inventory, with the path of each field.
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

// names checks that the objects of a list have names, no two the same, and IDs that are UUIDs.
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

func (v *validation) dataCenter(at string, dc DataCenter) {
	var networks, domains, clusters, templates, profiles []string
	named := v.names(at + "networks")
	for i, n := range dc.Networks {
		named(i, n.Name, n.ID)
		networks = append(networks, n.Name)
		for _, p := range n.VNICProfiles {
			profiles = append(profiles, n.Name+"/"+p)
		}
		if n.DHCP != nil {
			v.dhcp(fmt.Sprintf("%snetworks[%d].dhcp", at, i), n.DHCP)
		}
		if prefix, err := netip.ParsePrefix(n.SLAAC); n.SLAAC != "" && (err != nil || !prefix.Addr().Is6() || prefix.Bits() != 64) {
			v.wrong(fmt.Sprintf("%snetworks[%d].slaac", at, i), "%q is not an IPv6 prefix of 64 bits", n.SLAAC)
		}
	}
	named = v.names(at + "storageDomains")
	for i, d := range dc.StorageDomains {
		named(i, d.Name, d.ID)
		domains = append(domains, d.Name)
		if d.Type != "" && !slices.Contains(storageTypes, d.Type) {
			v.wrong(fmt.Sprintf("%sstorageDomains[%d].type", at, i), "%q is none of %v", d.Type, storageTypes)
		}
	}
	named = v.names(at + "clusters")
	for i, c := range dc.Clusters {
		named(i, c.Name, c.ID)
		clusters = append(clusters, c.Name)
		here := fmt.Sprintf("%sclusters[%d].", at, i)
		hosts := v.names(here + "hosts")
		for j, h := range c.Hosts {
			hosts(j, h.Name, h.ID)
			if h.Cores < 0 || h.Sockets < 0 || h.Threads < 0 {
				v.wrong(fmt.Sprintf("%shosts[%d]", here, j), "cores, sockets and threads must not be negative")
			}
		}
		groups := v.names(here + "affinityGroups")
		for j, g := range c.AffinityGroups {
			groups(j, g.Name, g.ID)
			for _, name := range g.VMs {
				var vms []string
				for _, m := range dc.VMs {
					if m.Cluster == c.Name {
						vms = append(vms, m.Name)
					}
				}
				v.known(fmt.Sprintf("%saffinityGroups[%d].vms", here, j), name, vms, false)
			}
		}
	}
	named = v.names(at + "templates")
	for i, t := range dc.Templates {
		named(i, t.Name, t.ID)
		here := fmt.Sprintf("%stemplates[%d].", at, i)
		if t.Cores < 0 {
			v.wrong(here+"cores", "must not be negative")
		}
		templates = append(templates, t.Name)
		v.known(here+"cluster", t.Cluster, clusters, true)
		for j, d := range t.Disks {
			v.known(fmt.Sprintf("%sdisks[%d].storageDomain", here, j), d.StorageDomain, domains, true)
			if d.Size <= 0 {
				v.wrong(fmt.Sprintf("%sdisks[%d].size", here, j), "must be positive")
			}
			if d.Format != "" && d.Format != "cow" && d.Format != "raw" {
				v.wrong(fmt.Sprintf("%sdisks[%d].format", here, j), "%q is neither cow nor raw", d.Format)
			}
		}
		if len(t.Disks) > 0 && len(domains) == 0 {
			v.wrong(here+"disks", "the data center has no storage domain for them")
		}
		for j, n := range t.NICs {
			v.known(fmt.Sprintf("%snics[%d].network", here, j), n.Network, networks, false)
			v.known(fmt.Sprintf("%snics[%d].vnicProfile", here, j), n.Network+"/"+orElse(n.VNICProfile, n.Network), profiles, false)
		}
	}
	named = v.names(at + "vms")
	for i, m := range dc.VMs {
		named(i, m.Name, m.ID)
		here := fmt.Sprintf("%svms[%d].", at, i)
		if !plainName(m.Name) {
			v.wrong(here+"name", "%q may hold only letters, digits, dash, underscore and dot", m.Name)
		}
		v.known(here+"cluster", m.Cluster, clusters, false)
		v.known(here+"template", m.Template, append(slices.Clone(templates), "Blank"), false)
	}
}

func (v *validation) dhcp(at string, d *DHCP) {
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

func orElse[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// idOf is the ID of an object of the inventory: its own, or one that follows from its kind and names and from a salt of
// this engine. Two engines with one inventory must not share IDs, or a client that mixes them up would not be noticed.
func (s *store) idOf(id, kind string, path ...string) string {
	if id != "" {
		return id
	}
	return uuid.NewSHA1(s.salt, fmt.Appendf(nil, "%s %q", kind, path)).String()
}

// fill puts an inventory into an empty store.
func (s *store) fill(inv Inventory) {
	now := time.Now()
	s.templates.put(blankTemplateID, &template{
		hardware: blankHardware(), ID: blankTemplateID, Name: "Blank", Description: "Blank template", Status: statusOK, Base: blankTemplateID, NotDeletable: true,
		Consoles: []graphicsConsole{{ID: consoleIDs["vnc"], Protocol: "vnc"}}, Created: now,
	})
	for _, t := range inv.InstanceTypes {
		id := s.idOf(t.ID, "instancetype", t.Name)
		made := &instanceType{hardware: blankHardware(), ID: id, Name: t.Name, Created: now}
		made.setMemory(int64(orElse(t.Memory, gib)))
		made.CPU = topology{Cores: 1, Sockets: orElse(t.Cores, 1), Threads: 1}
		made.Settings.put("0", "io", "threads")
		s.instanceTypes.put(id, made)
	}
	description := "root"
	root := &tag{ID: rootTagID, Name: "root", Description: &description}
	s.tags.put(root.ID, root)
	for _, name := range inv.Tags {
		s.ensureTag(name)
	}
	for _, u := range inv.Users {
		s.ensureUser(u.Name, u.Password, orElse(u.Role, "UserRole"))
	}
	for _, dc := range inv.DataCenters {
		s.fillDataCenter(dc, now)
	}
}

// rootTagID is the ID of the tag that all others descend from, on every engine.
const rootTagID = blankTemplateID

func (s *store) ensureTag(name string) *tag {
	for _, t := range s.tags.rows {
		if t.Name == name {
			return t
		}
	}
	made := &tag{ID: s.idOf("", "tag", name), Name: name, Parent: rootTagID}
	s.tags.put(made.ID, made)
	return made
}

func (s *store) ensureUser(name, password, role string) {
	if known := s.userNamed(name); known != nil {
		known.Password, known.Failures, known.Locked, known.Role = password, 0, false, role
		s.users.put(known.ID, known)
		return
	}
	made := &user{ID: newID(), Name: name, Password: password, Role: role}
	s.users.put(made.ID, made)
}

func (s *store) fillDataCenter(dc DataCenter, now time.Time) {
	center := &dataCenter{ID: s.idOf(dc.ID, "datacenter", dc.Name), Name: dc.Name, Description: dc.Description}
	s.dataCenters.put(center.ID, center)
	for _, n := range dc.Networks {
		net := &network{ID: s.idOf(n.ID, "network", dc.Name, n.Name), Name: n.Name, DataCenter: center.ID, VLAN: n.VLAN, DHCP: n.DHCP, SLAAC: n.SLAAC, Leases: map[string]string{}}
		s.networks.put(net.ID, net)
		for _, p := range n.VNICProfiles {
			id := s.idOf("", "vnicprofile", dc.Name, n.Name, p)
			s.vnicProfiles.put(id, &vnicProfile{ID: id, Name: p, Network: net.ID})
		}
	}
	for _, d := range dc.StorageDomains {
		id := s.idOf(d.ID, "storagedomain", dc.Name, d.Name)
		s.storageDomains.put(id, &storageDomain{ID: id, Name: d.Name, DataCenter: center.ID, Bytes: int64(orElse(d.Size, 1024*gib)), StorageType: orElse(d.Type, "nfs")})
	}
	clusterID := func(name string) string {
		if name == "" {
			return ""
		}
		for _, c := range dc.Clusters {
			if c.Name == name {
				return s.idOf(c.ID, "cluster", dc.Name, name)
			}
		}
		return ""
	}
	for _, c := range dc.Clusters {
		s.fillCluster(dc.Name, center.ID, c)
	}
	domainID := func(name string) string {
		for i, d := range dc.StorageDomains {
			if d.Name == name || name == "" && i == 0 {
				return s.idOf(d.ID, "storagedomain", dc.Name, d.Name)
			}
		}
		return ""
	}
	for _, t := range dc.Templates {
		made := &template{
			hardware: blankHardware(), ID: s.idOf(t.ID, "template", dc.Name, t.Name), Name: t.Name, DataCenter: center.ID, Description: t.Description,
			Cluster: clusterID(t.Cluster), Status: statusOK, Version: 1, VersionName: baseVersion, Kubernetes: t.Kubernetes, Ignition: t.Ignition, Created: now,
			Consoles: []graphicsConsole{{ID: consoleIDs["vnc"], Protocol: "vnc"}},
		}
		made.OSType, made.Type = orElse(t.OSType, "other"), orElse(t.Type, "server")
		made.setMemory(int64(orElse(t.Memory, gib)))
		made.CPU = topology{Cores: orElse(t.Cores, 1), Sockets: 1, Threads: 1}
		made.Base = made.ID
		s.templates.put(made.ID, made)
		for i, d := range t.Disks {
			id := s.idOf("", "disk", dc.Name, t.Name, fmt.Sprint(i))
			format := orElse(d.Format, "cow")
			s.disks.put(id, &disk{
				ID: id, Name: orElse(d.Name, fmt.Sprintf("%s_Disk%d", t.Name, i+1)), Domain: domainID(d.StorageDomain), Format: format, Sparse: format == "cow",
				Status: statusOK, ContentType: "data", Provisioned: int64(d.Size), Actual: int64(d.Size) / 10, Made: true,
			})
			s.attach(made.ID, id, "virtio_scsi", i == 0)
		}
		for _, n := range t.NICs {
			s.nics.put(s.idOf("", "nic", dc.Name, t.Name, n.Name), &nic{
				ID: s.idOf("", "nic", dc.Name, t.Name, n.Name), Name: n.Name, Owner: made.ID, Interface: "virtio", Order: s.next("nics"),
				Profile: s.idOf("", "vnicprofile", dc.Name, n.Network, orElse(n.VNICProfile, n.Network)),
			})
		}
	}
}

func (s *store) fillCluster(dcName, dcID string, c Cluster) {
	group := &cluster{ID: s.idOf(c.ID, "cluster", dcName, c.Name), Name: c.Name, Description: c.Description, DataCenter: dcID, CPUType: orElse(c.CPUType, "Secure Intel Skylake Server Family"), BiosType: defaultBios}
	s.clusters.put(group.ID, group)
	for _, h := range c.Hosts {
		made := &host{
			ID: s.idOf(h.ID, "host", dcName, c.Name, h.Name), Name: h.Name, Cluster: group.ID, Address: h.Name + ".example.com", Status: hostUp,
			Memory: int64(orElse(h.Memory, 64*gib)), CPU: topology{Cores: orElse(h.Cores, 8), Sockets: orElse(h.Sockets, 2), Threads: orElse(h.Threads, 2)},
		}
		if h.Maintenance {
			made.Status = hostMaintenance
		}
		s.hosts.put(made.ID, made)
		for _, name := range h.AffinityLabels {
			label := s.labels.get(s.idOf("", "label", name))
			if label == nil {
				label = &affinityLabel{ID: s.idOf("", "label", name), Name: name}
			}
			label.Hosts = append(label.Hosts, made.ID)
			s.labels.put(label.ID, label)
		}
	}
}

func (s *store) attach(owner, diskID, iface string, bootable bool) *attachment {
	made := &attachment{Owner: owner, Disk: diskID, Interface: orElse(iface, "virtio_scsi"), Bootable: bootable, Active: true}
	s.attachments.put(owner+"/"+diskID, made)
	return made
}
