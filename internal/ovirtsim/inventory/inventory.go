package inventory

import (
	"cmp"
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

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
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
	DHCP *store.DHCP `json:"dhcp,omitempty"`
	// SLAAC is the IPv6 prefix that the network's router announces, such as fd00:20:30::/64.
	SLAAC string `json:"slaac,omitempty"`
}

// StorageDomain for disks.
type StorageDomain struct {
	Name string `json:"name"`
	ID   string `json:"id,omitempty"`
	// Size is 1Ti where it is not set.
	Size Size `json:"size,omitempty"`
	// Type is nfs, iscsi, fcp, glusterfs, posixfs, localfs; empty means nfs. Raw disks on block storage are
	// preallocated.
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

// Default is a small site: one data center with one cluster of three hosts, two networks, two storage domains,
// and templates for cloud-init and Ignition guests.
func Default() Inventory {
	disks := []TemplateDisk{{Size: 20 * store.GiB}}

	return Inventory{
		DataCenters: []DataCenter{{
			Name: "Default",
			Clusters: []Cluster{
				{Name: "Default", Hosts: []Host{{Name: "host-1"}, {Name: "host-2"}, {Name: "host-3"}}},
			},
			Networks: []Network{
				{Name: "ovirtmgmt", VNICProfiles: []string{"ovirtmgmt"}},
				{Name: "kvm-vlan", VLAN: 20, VNICProfiles: []string{"kvm-vlan"}},
			},
			StorageDomains: []StorageDomain{{Name: "olvm-data"}, {Name: "olvm-data-2"}},
			Templates: []Template{
				{
					Name:       "ol9-k8s",
					Cluster:    "Default",
					OSType:     "ol_9x64",
					Disks:      disks,
					Memory:     4 * store.GiB,
					Kubernetes: "v1.36.1",
				},
				{
					Name:       "ock-1.36",
					Cluster:    "Default",
					OSType:     store.OSRHCOS,
					Disks:      disks,
					Memory:     4 * store.GiB,
					Kubernetes: "v1.36.1",
				},
			},
		}},
		InstanceTypes: []InstanceType{
			{Name: "Tiny", Memory: store.GiB / 2, Cores: 1},
			{Name: "Small", Memory: 2 * store.GiB, Cores: 1},
			{Name: "Medium", Memory: 4 * store.GiB, Cores: 2},
			{Name: "Large", Memory: 8 * store.GiB, Cores: 2}, {Name: "XLarge", Memory: 16 * store.GiB, Cores: 4},
		},
	}
}

// Load reads and validates a YAML file.
func Load(path string) (Inventory, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Inventory{}, fmt.Errorf("failed to read the inventory: %w", err)
	}

	inventory, err := Parse(content)
	if err != nil {
		return Inventory{}, fmt.Errorf("%s: %w", path, err)
	}

	return inventory, nil
}

// Parse reads and validates YAML. Unknown fields are errors.
func Parse(content []byte) (Inventory, error) {
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

// centerNames are the names that objects of a data center may refer to.
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

// Fill puts the inventory's objects into an empty store, besides its VMs and affinity groups, which an engine makes of
// them.
func (inv Inventory) Fill(s *store.Store) {
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
		made.Settings.Put("0", "io", "threads")
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
		Leases:     map[string]string{},
	}
	s.Networks.Put(net.ID, net)

	for _, p := range n.VNICProfiles {
		id := s.IDOf("", "vnicprofile", dcName, n.Name, p)
		s.VNICProfiles.Put(id, &store.VNICProfile{ID: id, Name: p, Network: net.ID})
	}
}

// clusterID is the ID of a cluster of the data center by its name; empty where there is none.
func (dc DataCenter) clusterID(s *store.Store, name string) string {
	for _, c := range dc.Clusters {
		if c.Name == name && name != "" {
			return s.IDOf(c.ID, "cluster", dc.Name, name)
		}
	}

	return ""
}

// domainID is the ID of a storage domain of the data center by its name; an empty name is the first one's.
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
			Order:     s.Next("nics"),
			Profile:   s.IDOf("", "vnicprofile", dc.Name, n.Network, cmp.Or(n.VNICProfile, n.Network)),
		})
	}
}

func fillTemplateDisk(s *store.Store, dc DataCenter, t *store.Template, index int, d TemplateDisk) {
	id := s.IDOf("", "disk", dc.Name, t.Name, fmt.Sprint(index))
	format := cmp.Or(d.Format, "cow")
	s.Disks.Put(id, &store.Disk{
		ID:          id,
		Name:        cmp.Or(d.Name, fmt.Sprintf("%s_Disk%d", t.Name, index+1)),
		Domain:      dc.domainID(s, d.StorageDomain),
		Format:      format,
		Sparse:      format == "cow",
		Status:      store.StatusOK,
		ContentType: "data",
		Provisioned: int64(d.Size),
		Actual:      int64(d.Size) / 10,
		Made:        true,
	})
	s.Attach(t.ID, id, "virtio_scsi", index == 0)
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
