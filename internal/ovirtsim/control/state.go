package control

import (
	"slices"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

// Summary counts the engine's objects.
type Summary struct {
	VMs  int `json:"vms"`
	NICs int `json:"nics"`
	// Disks does not count the disks of templates.
	Disks int `json:"disks"`
	// Templates does not count Blank.
	Templates      int `json:"templates"`
	Tags           int `json:"tags"`
	AffinityGroups int `json:"affinityGroups"`
	Transfers      int `json:"transfers"`
	Sessions       int `json:"sessions"`
	Logins         int `json:"logins"`
}

// Summarize counts the engine's present objects.
func (s *Control) Summarize() Summary {
	st := s.engine.Lock()

	out := Summary{
		VMs:            len(st.VMs.Rows),
		Templates:      len(st.Templates.Rows) - 1,
		Tags:           len(st.Tags.Rows) - 1,
		AffinityGroups: len(st.Groups.Rows),
	}
	for _, n := range st.NICs.Rows {
		if st.VMs.Get(n.Owner) != nil {
			out.NICs++
		}
	}

	for _, d := range st.Disks.Rows {
		if !st.IsTemplateDisk(d) {
			out.Disks++
		}
	}

	for _, t := range st.Transfers.Rows {
		if t.Until.Status != api.StatusRemoved {
			out.Transfers++
		}
	}

	s.engine.Unlock()

	out.Sessions, out.Logins = s.engine.CountSessions()

	return out
}

// VMInfo is a VM in the control API and on the page.
type VMInfo struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Comment string `json:"comment,omitempty"`
	Status  string `json:"status"`
	// DataCenter and Cluster are names.
	DataCenter string `json:"dataCenter"`
	Cluster    string `json:"cluster"`
	Host       string `json:"host,omitempty"`
	// MemoryBytes and CPUs are the VM's current resources.
	MemoryBytes int64      `json:"memoryBytes"`
	CPUs        int64      `json:"cpus"`
	Addresses   []string   `json:"addresses,omitempty"`
	NICs        []NICInfo  `json:"nics,omitempty"`
	Disks       []DiskInfo `json:"disks,omitempty"`
	Tags        []string   `json:"tags,omitempty"`
	// GuestError is the reason why the guest failed to start.
	GuestError string `json:"guestError,omitempty"`
	// Node is the VM's Kubernetes node.
	Node *api.GuestNode `json:"node,omitempty"`
	// Boots is the number of the VM's boots.
	Boots int `json:"boots"`
}

// NICInfo is a network interface.
type NICInfo struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac"`
	Network   string   `json:"network"`
	Addresses []string `json:"addresses,omitempty"`
}

// DiskInfo is a disk.
type DiskInfo struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	Status        string `json:"status"`
	Format        string `json:"format"`
	Sparse        bool   `json:"sparse"`
	StorageDomain string `json:"storageDomain"`
	// ProvisionedBytes is the disk's size, and ActualBytes is its space on storage.
	ProvisionedBytes int64 `json:"provisionedBytes"`
	ActualBytes      int64 `json:"actualBytes"`
	Bootable         bool  `json:"bootable,omitempty"`
	// SHA256 is the checksum of the latest upload to the disk.
	SHA256 string `json:"sha256,omitempty"`
}

func diskInfo(st *store.Store, d *store.Disk) DiskInfo {
	out := DiskInfo{
		ID:               d.ID,
		Name:             d.Name,
		Status:           d.Status,
		Format:           d.Format,
		Sparse:           d.Sparse,
		ProvisionedBytes: d.Provisioned,
		ActualBytes:      d.Actual,
		SHA256:           d.SHA256,
	}
	if domain := st.StorageDomains.Get(d.Domain); domain != nil {
		out.StorageDomain = domain.Name
	}

	return out
}

// vmInfo describes a VM without its node, because only the guest knows the node.
func vmInfo(st *store.Store, v *store.VM, tags map[string][]string) VMInfo {
	out := VMInfo{
		ID:         v.ID,
		Name:       v.Name,
		Comment:    v.Comment,
		Status:     v.Status,
		DataCenter: st.DataCenterName(st.DataCenterOf(v.Cluster)),
		Cluster:    st.ClusterName(v.Cluster), Host: st.HostName(v.Host),
		MemoryBytes: v.Memory,
		CPUs:        v.CPU.CountCPUs(),
		Addresses:   v.ReportedAddresses(),
		GuestError:  v.GuestError,
		Boots:       v.Boots,
		Tags:        tags[v.ID],
	}
	for _, n := range st.NICsOf(v.ID) {
		info := NICInfo{Name: n.Name, MAC: n.MAC}
		if p := st.VNICProfiles.Get(n.Profile); p != nil {
			info.Network = st.Networks.Get(p.Network).Name
		}

		for _, device := range v.Report.Interfaces {
			if device.MAC == n.MAC {
				info.Addresses = device.Addresses
			}
		}

		out.NICs = append(out.NICs, info)
	}

	for _, a := range st.AttachmentsOf(v.ID) {
		info := diskInfo(st, st.Disks.Get(a.Disk))
		info.Bootable = a.Bootable
		out.Disks = append(out.Disks, info)
	}

	return out
}

// ListVMs returns the VMs by name, with the state of their guests.
func (s *Control) ListVMs() []VMInfo {
	st := s.engine.Lock()
	tags := map[string][]string{}

	for _, t := range st.Tags.Where(nil, store.TagKey) {
		for _, id := range t.VMs {
			tags[id] = append(tags[id], t.Name)
		}
	}

	vms := st.VMs.Where(nil, store.VMKey)

	out := make([]VMInfo, 0, len(vms))
	for _, v := range vms {
		out = append(out, vmInfo(st, v, tags))
	}

	s.engine.Unlock()
	if s.engine.Guest() != nil { // without the engine's lock, because guests have their own lock
		for i := range out {
			if node, ok := s.engine.Guest().Node(out[i].ID); ok {
				out[i].Node = &node
			}
		}
	}

	return out
}

// ListDisks returns the disks by name, without the disks of templates.
func (s *Control) ListDisks() []DiskInfo {
	st := s.engine.Lock()
	defer s.engine.Unlock()

	out := []DiskInfo{}
	for _, d := range st.Disks.Where(func(d *store.Disk) bool {
		return !st.IsTemplateDisk(d)
	}, func(d *store.Disk) string { return d.Name + d.ID }) {
		out = append(out, diskInfo(st, d))
	}

	return out
}

// State is the whole site as shown on the page.
type State struct {
	// Version is the version of the engine.
	Version string    `json:"version"`
	URL     string    `json:"url"`
	Time    time.Time `json:"time,omitzero"`
	Summary Summary   `json:"summary"`

	DataCenters []DataCenterInfo `json:"dataCenters"`
	VMs         []VMInfo         `json:"vms"`
	// Disks are the disks without a VM.
	Disks []DiskInfo `json:"disks"`
	// Requests are the latest requests, the newest first.
	Requests []Request `json:"requests"`
	Faults   []Fault   `json:"faults"`
	// Events are the latest events, the newest first.
	Events []EventInfo `json:"events"`
}

// DataCenterInfo is a data center.
type DataCenterInfo struct {
	Name           string              `json:"name"`
	Clusters       []ClusterInfo       `json:"clusters"`
	Networks       []string            `json:"networks"`
	StorageDomains []StorageDomainInfo `json:"storageDomains"`
}

// ClusterInfo is a cluster.
type ClusterInfo struct {
	Name           string              `json:"name"`
	Hosts          []HostInfo          `json:"hosts"`
	AffinityGroups []AffinityGroupInfo `json:"affinityGroups"`
}

// HostInfo is a host.
type HostInfo struct {
	Name        string `json:"name"`
	Status      string `json:"status"`
	MemoryBytes int64  `json:"memoryBytes"`
	UsedBytes   int64  `json:"usedBytes"`
}

// AffinityGroupInfo is an affinity group and the names of its VMs.
type AffinityGroupInfo struct {
	Name      string   `json:"name"`
	Positive  bool     `json:"positive"`
	Enforcing bool     `json:"enforcing"`
	VMs       []string `json:"vms"`
}

// StorageDomainInfo is a storage domain.
type StorageDomainInfo struct {
	Name      string `json:"name"`
	Bytes     int64  `json:"bytes"`
	UsedBytes int64  `json:"usedBytes"`
}

// EventInfo is an entry of the engine's audit log.
type EventInfo struct {
	Time        time.Time `json:"time"`
	Severity    string    `json:"severity"`
	Description string    `json:"description"`
}

// latest is the maximum number of requests and of events on the page.
const latest = 40

// DescribeSite describes the current state of the site.
func (s *Control) DescribeSite() State {
	out := State{
		Version:     s.engine.Version(),
		URL:         s.engine.URL(),
		Time:        time.Now(),
		Summary:     s.Summarize(),
		VMs:         s.ListVMs(),
		Disks:       []DiskInfo{},
		Faults:      s.ListFaults(),
		Events:      []EventInfo{},
		DataCenters: []DataCenterInfo{},
	}
	requests := s.ListRequests()
	slices.Reverse(requests)
	out.Requests = requests[:min(len(requests), latest)]
	st := s.engine.Lock()
	defer s.engine.Unlock()

	for _, d := range st.Disks.Where(nil, func(d *store.Disk) string { return d.Name + d.ID }) {
		if len(st.AttachmentsOfDisk(d.ID)) == 0 {
			out.Disks = append(out.Disks, diskInfo(st, d))
		}
	}

	out.Events = latestEvents(st)

	used := map[string]int64{}
	for _, v := range st.VMs.Rows {
		used[v.Host] += v.Memory
	}

	for _, dc := range st.DataCenters.Where(nil, func(d *store.DataCenter) string { return d.Name }) {
		out.DataCenters = append(out.DataCenters, dataCenterInfo(st, dc, used))
	}

	return out
}

func latestEvents(st *store.Store) []EventInfo {
	events := st.Events.Where(nil, store.EventKey)
	slices.Reverse(events)
	out := []EventInfo{}

	for _, e := range events[:min(len(events), latest)] {
		out = append(out, EventInfo{Time: e.Time, Severity: e.Severity, Description: e.Description})
	}

	return out
}

// dataCenterInfo describes a data center. The parameter used maps host IDs to the memory of the host's VMs in bytes.
func dataCenterInfo(st *store.Store, dc *store.DataCenter, used map[string]int64) DataCenterInfo {
	out := DataCenterInfo{
		Name:           dc.Name,
		Networks:       []string{},
		StorageDomains: []StorageDomainInfo{},
		Clusters:       []ClusterInfo{},
	}
	networks := st.Networks.Where(func(n *store.Network) bool {
		return n.DataCenter == dc.ID
	}, func(n *store.Network) string { return n.Name })

	for _, n := range networks {
		out.Networks = append(out.Networks, n.Name)
	}

	domains := st.StorageDomains.Where(func(d *store.StorageDomain) bool {
		return d.DataCenter == dc.ID
	}, func(d *store.StorageDomain) string { return d.Name })

	for _, d := range domains {
		taken, _ := st.Usage(d.ID)
		out.StorageDomains = append(out.StorageDomains, StorageDomainInfo{
			Name:      d.Name,
			Bytes:     d.Bytes,
			UsedBytes: taken,
		})
	}

	clusters := st.Clusters.Where(func(g *store.Cluster) bool { return g.DataCenter == dc.ID }, store.ClusterKey)
	for _, g := range clusters {
		out.Clusters = append(out.Clusters, clusterInfo(st, g, used))
	}

	return out
}

func clusterInfo(st *store.Store, g *store.Cluster, used map[string]int64) ClusterInfo {
	out := ClusterInfo{Name: g.Name, Hosts: []HostInfo{}, AffinityGroups: []AffinityGroupInfo{}}
	hosts := st.Hosts.Where(func(h *store.Host) bool {
		return h.Cluster == g.ID
	}, func(h *store.Host) string { return h.Name })

	for _, h := range hosts {
		out.Hosts = append(out.Hosts, HostInfo{
			Name:        h.Name,
			Status:      h.Status,
			MemoryBytes: h.Memory,
			UsedBytes:   used[h.ID],
		})
	}

	groups := st.Groups.Where(func(a *store.AffinityGroup) bool { return a.Cluster == g.ID }, store.GroupKey)
	for _, a := range groups {
		info := AffinityGroupInfo{
			Name:      a.Name,
			Positive:  a.VMsRule.Positive,
			Enforcing: a.VMsRule.Enforcing,
			VMs:       []string{},
		}
		for _, id := range a.VMs {
			if v := st.VMs.Get(id); v != nil {
				info.VMs = append(info.VMs, v.Name)
			}
		}

		out.AffinityGroups = append(out.AffinityGroups, info)
	}

	return out
}
