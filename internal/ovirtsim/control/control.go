package control

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// Path is what all paths of the control API begin with.
const Path = "/ovirtsim"

// Control is what tests and people see and do besides the engine's API. It stands in front of the engine: it records
// requests and applies faults.
type Control struct {
	engine   *api.Engine
	watchers *watchers
	mux      *http.ServeMux

	// mu guards what follows.
	mu       sync.Mutex
	requests []*Request
	received int
	faults   []*Fault
	faultIDs int
	random   *rand.Rand
}

// New makes one with faults that are set from the beginning; a seed makes those with a probability repeatable, 0 means
// random. It has an engine once watch has given it one.
func New(faults []Fault, seed uint64) (*Control, error) {
	s := &Control{watchers: newWatchers(), random: newRandom(seed)}
	s.mux = s.routes()
	for _, fault := range faults {
		if err := s.Inject(fault); err != nil {
			return nil, fmt.Errorf("fault: %w", err)
		}
	}
	return s, nil
}

// Watch says which engine is behind it.
func (s *Control) Watch(engine *api.Engine) { s.engine = engine }

// Changed wakes those who look.
func (s *Control) Changed() { s.watchers.changed() }

// Request is one request that the engine received.
type Request struct {
	// Seq counts the requests from 1.
	Seq    int       `json:"seq"`
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	// Path below /ovirt-engine.
	Path  string `json:"path"`
	Query string `json:"query,omitempty"`
	// Status of the answer; 0 while there is none, or when the connection was cut.
	Status int `json:"status"`
	// Millis is how long the answer took.
	Millis int64 `json:"millis"`
	// Fault is the ID of the rule that hit the request.
	Fault int `json:"fault,omitempty"`
}

// maxRequests bounds the list of requests that the control API shows.
const maxRequests = 20000

// record notes a request that has come in.
func (s *Control) record(r *http.Request) *Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) >= maxRequests {
		s.requests = append([]*Request(nil), s.requests[maxRequests/2:]...)
	}
	s.received++
	entry := &Request{Seq: s.received, Time: time.Now(), Method: r.Method, Path: strings.TrimPrefix(r.URL.Path, wire.EnginePath), Query: r.URL.RawQuery}
	s.requests = append(s.requests, entry)
	return entry
}

func (s *Control) recorded(entry *Request, answer *wire.StatusRecorder) {
	s.mu.Lock()
	entry.Status, entry.Millis = answer.Status, time.Since(entry.Time).Milliseconds()
	s.mu.Unlock()
	s.Changed()
}

func (s *Control) noteFault(entry *Request, fault *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry.Fault = fault.ID
}

// Requests returns the requests received so far, oldest first.
func (s *Control) Requests() []Request { return s.requestsAfter(0) }

func (s *Control) requestsAfter(seq int) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Request{}
	for _, r := range s.requests {
		if r.Seq > seq {
			out = append(out, *r)
		}
	}
	return out
}

// Logins counts the successful logins so far.
func (s *Control) Logins() int {
	_, logins := s.engine.Sessions()
	return logins
}

// ExpireSessions ends all sessions.
func (s *Control) ExpireSessions() { s.engine.ExpireSessions() }

// Summary counts what is in the engine.
type Summary struct {
	VMs  int `json:"vms"`
	NICs int `json:"nics"`
	// Disks besides those of templates.
	Disks int `json:"disks"`
	// Templates besides Blank.
	Templates      int `json:"templates"`
	Tags           int `json:"tags"`
	AffinityGroups int `json:"affinityGroups"`
	Transfers      int `json:"transfers"`
	Sessions       int `json:"sessions"`
	Logins         int `json:"logins"`
}

// Summary counts what is in the engine now.
func (s *Control) Summary() Summary {
	st := s.engine.Lock()
	out := Summary{VMs: len(st.VMs.Rows), Templates: len(st.Templates.Rows) - 1, Tags: len(st.Tags.Rows) - 1, AffinityGroups: len(st.Groups.Rows)}
	for _, n := range st.NICs.Rows {
		if st.VMs.Get(n.Owner) != nil {
			out.NICs++
		}
	}
	for _, d := range st.Disks.Rows {
		if !st.OfTemplate(d) {
			out.Disks++
		}
	}
	for _, t := range st.Transfers.Rows {
		if t.Until.Status != api.StatusRemoved {
			out.Transfers++
		}
	}
	s.engine.Unlock()

	out.Sessions, out.Logins = s.engine.Sessions()
	return out
}

// VMInfo is a VM as the control API and the page show it.
type VMInfo struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Comment string `json:"comment,omitempty"`
	Status  string `json:"status"`
	// DataCenter and Cluster by name.
	DataCenter string `json:"dataCenter"`
	Cluster    string `json:"cluster"`
	Host       string `json:"host,omitempty"`
	// MemoryBytes and CPUs that it has.
	MemoryBytes int64      `json:"memoryBytes"`
	CPUs        int64      `json:"cpus"`
	Addresses   []string   `json:"addresses,omitempty"`
	NICs        []NICInfo  `json:"nics,omitempty"`
	Disks       []DiskInfo `json:"disks,omitempty"`
	Tags        []string   `json:"tags,omitempty"`
	// GuestError is why the guest did not come up.
	GuestError string `json:"guestError,omitempty"`
	// Node is the Kubernetes node that the VM became.
	Node *api.GuestNode `json:"node,omitempty"`
	// Boots counts how often it booted.
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
	// ProvisionedBytes is its size, ActualBytes what it takes.
	ProvisionedBytes int64 `json:"provisionedBytes"`
	ActualBytes      int64 `json:"actualBytes"`
	Bootable         bool  `json:"bootable,omitempty"`
	// SHA256 of what was uploaded last.
	SHA256 string `json:"sha256,omitempty"`
}

func diskInfo(st *store.Store, d *store.Disk) DiskInfo {
	out := DiskInfo{ID: d.ID, Name: d.Name, Status: d.Status, Format: d.Format, Sparse: d.Sparse, ProvisionedBytes: d.Provisioned, ActualBytes: d.Actual, SHA256: d.SHA256}
	if domain := st.StorageDomains.Get(d.Domain); domain != nil {
		out.StorageDomain = domain.Name
	}
	return out
}

// vmInfo is all but the node, which the guest knows.
func vmInfo(st *store.Store, v *store.VM, tags map[string][]string) VMInfo {
	out := VMInfo{
		ID: v.ID, Name: v.Name, Comment: v.Comment, Status: v.Status, DataCenter: st.DataCenterName(st.DataCenterOf(v.Cluster)),
		Cluster: st.ClusterName(v.Cluster), Host: st.HostName(v.Host),
		MemoryBytes: v.Memory, CPUs: v.CPU.Count(), Addresses: v.Addresses(), GuestError: v.GuestError, Boots: v.Boots, Tags: tags[v.ID],
	}
	for _, n := range st.NICsOf(v.ID) {
		info := NICInfo{Name: n.Name, MAC: n.MAC}
		if p := st.VNICProfiles.Get(n.Profile); p != nil {
			info.Network = st.Networks.Get(p.Network).Name
		}
		for _, device := range v.Reported {
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

func (s *Control) vmInfos() []VMInfo {
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
	if s.engine.Guest() != nil { // not under our lock: guests have one of their own
		for i := range out {
			if node, ok := s.engine.Guest().Node(out[i].ID); ok {
				out[i].Node = &node
			}
		}
	}
	return out
}

// VMs lists the VMs by name, with what their guests did.
func (s *Control) VMs() []VMInfo { return s.vmInfos() }

// Disks lists the disks besides those of templates, by name.
func (s *Control) Disks() []DiskInfo {
	st := s.engine.Lock()
	defer s.engine.Unlock()
	out := []DiskInfo{}
	for _, d := range st.Disks.Where(func(d *store.Disk) bool { return !st.OfTemplate(d) }, func(d *store.Disk) string { return d.Name + d.ID }) {
		out = append(out, diskInfo(st, d))
	}
	return out
}

// State is the whole site as the page shows it.
type State struct {
	// Version of the engine.
	Version string    `json:"version"`
	URL     string    `json:"url"`
	Time    time.Time `json:"time"`
	Summary Summary   `json:"summary"`

	DataCenters []DataCenterInfo `json:"dataCenters"`
	VMs         []VMInfo         `json:"vms"`
	// Disks that are attached to no VM.
	Disks []DiskInfo `json:"disks"`
	// Requests are the latest, the newest first.
	Requests []Request `json:"requests"`
	Faults   []Fault   `json:"faults"`
	// Events are the latest, the newest first.
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

// AffinityGroupInfo is an affinity group with the names of its VMs.
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

// latest is how many requests and events the page shows.
const latest = 40

// State describes the site now.
func (s *Control) State() State {
	out := State{Version: s.engine.Version(), URL: s.engine.URL(), Time: time.Now(), Summary: s.Summary(), VMs: s.vmInfos(), Disks: []DiskInfo{}, Faults: s.Faults(), Events: []EventInfo{}, DataCenters: []DataCenterInfo{}}
	requests := s.Requests()
	slices.Reverse(requests)
	out.Requests = requests[:min(len(requests), latest)]
	st := s.engine.Lock()
	defer s.engine.Unlock()
	for _, d := range st.Disks.Where(nil, func(d *store.Disk) string { return d.Name + d.ID }) {
		if len(st.AttachmentsOfDisk(d.ID)) == 0 {
			out.Disks = append(out.Disks, diskInfo(st, d))
		}
	}
	events := st.Events.Where(nil, store.EventKey)
	slices.Reverse(events)
	for _, e := range events[:min(len(events), latest)] {
		out.Events = append(out.Events, EventInfo{Time: e.Time, Severity: e.Severity, Description: e.Description})
	}
	used := map[string]int64{}
	for _, v := range st.VMs.Rows {
		used[v.Host] += v.Memory
	}
	for _, dc := range st.DataCenters.Where(nil, func(d *store.DataCenter) string { return d.Name }) {
		center := DataCenterInfo{Name: dc.Name, Networks: []string{}, StorageDomains: []StorageDomainInfo{}, Clusters: []ClusterInfo{}}
		for _, n := range st.Networks.Where(func(n *store.Network) bool { return n.DataCenter == dc.ID }, func(n *store.Network) string { return n.Name }) {
			center.Networks = append(center.Networks, n.Name)
		}
		for _, d := range st.StorageDomains.Where(func(d *store.StorageDomain) bool { return d.DataCenter == dc.ID }, func(d *store.StorageDomain) string { return d.Name }) {
			taken, _ := st.Usage(d.ID)
			center.StorageDomains = append(center.StorageDomains, StorageDomainInfo{Name: d.Name, Bytes: d.Bytes, UsedBytes: taken})
		}
		for _, g := range st.Clusters.Where(func(g *store.Cluster) bool { return g.DataCenter == dc.ID }, store.ClusterKey) {
			group := ClusterInfo{Name: g.Name, Hosts: []HostInfo{}, AffinityGroups: []AffinityGroupInfo{}}
			for _, h := range st.Hosts.Where(func(h *store.Host) bool { return h.Cluster == g.ID }, func(h *store.Host) string { return h.Name }) {
				group.Hosts = append(group.Hosts, HostInfo{Name: h.Name, Status: h.Status, MemoryBytes: h.Memory, UsedBytes: used[h.ID]})
			}
			for _, a := range st.Groups.Where(func(a *store.AffinityGroup) bool { return a.Cluster == g.ID }, store.GroupKey) {
				info := AffinityGroupInfo{Name: a.Name, Positive: a.VMsRule.Positive, Enforcing: a.VMsRule.Enforcing, VMs: []string{}}
				for _, id := range a.VMs {
					if v := st.VMs.Get(id); v != nil {
						info.VMs = append(info.VMs, v.Name)
					}
				}
				group.AffinityGroups = append(group.AffinityGroups, info)
			}
			center.Clusters = append(center.Clusters, group)
		}
		out.DataCenters = append(out.DataCenters, center)
	}
	return out
}

// withVM runs a change on the VM of an ID or a name.
func (s *Control) withVM(idOrName string, change func(*store.VM) error) error {
	st := s.engine.Lock()
	defer s.engine.Unlock()
	v := st.VMs.Get(idOrName)
	for _, other := range st.VMs.Rows {
		if v == nil && other.Name == idOrName {
			v = other
		}
	}
	if v == nil {
		return fmt.Errorf("there is no VM %q", idOrName)
	}
	err := change(v)
	s.Changed()
	return errors.Join(err, st.Flush())
}

// Crash makes a running VM die by itself; a highly available one starts again.
func (s *Control) Crash(vm string) error {
	return s.withVM(vm, func(v *vmObject) error {
		if v.Status != store.StatusUp && v.Status != store.StatusPoweringUp {
			return fmt.Errorf("VM %s is %s, not up", v.Name, v.Status)
		}
		s.engine.Crash(v)
		return nil
	})
}

// vmObject is the VM of the inventory, where a parameter is called vm.
type vmObject = store.VM

// SetNodeReady makes the kubelet of a VM report a Ready condition of True, False or Unknown.
func (s *Control) SetNodeReady(vm, status, reason string) error {
	if s.engine.Guest() == nil {
		return errors.New("nothing runs in the VMs")
	}
	id := ""
	if err := s.withVM(vm, func(v *vmObject) error {
		id = v.ID
		return nil
	}); err != nil {
		return err
	}
	defer s.Changed()
	return s.engine.Guest().SetNodeReady(id, status, reason)
}

func (s *Control) withHost(name string, change func(*store.Host) error) error {
	st := s.engine.Lock()
	defer s.engine.Unlock()
	for _, h := range st.Hosts.Rows {
		if h.Name == name || h.ID == name {
			err := change(h)
			s.Changed()
			return errors.Join(err, st.Flush())
		}
	}
	return fmt.Errorf("there is no host %q", name)
}

// FailHost makes a host unreachable: its VMs are unknown, and down once it has been fenced.
func (s *Control) FailHost(name string) error {
	return s.withHost(name, func(h *store.Host) error {
		s.engine.Lose(h)
		return nil
	})
}

// RecoverHost brings a host back, from failure or from maintenance.
func (s *Control) RecoverHost(name string) error {
	return s.withHost(name, func(h *store.Host) error {
		s.engine.Recover(h)
		return nil
	})
}

// MaintainHost empties a host by migration and takes it out of service.
func (s *Control) MaintainHost(name string) error {
	return s.withHost(name, s.engine.Maintain)
}

// UnlockUser lets a user log in again after too many wrong passwords.
func (s *Control) UnlockUser(name string) error {
	st := s.engine.Lock()
	defer s.engine.Unlock()
	u := st.UserNamed(name)
	if u == nil {
		return fmt.Errorf("there is no user %q", name)
	}
	u.Failures, u.Locked = 0, false
	st.Users.Put(u.ID, u)
	return st.Flush()
}

// SetPassword changes a user's password. Sessions that are open stay.
func (s *Control) SetPassword(name, password string) error {
	st := s.engine.Lock()
	defer s.engine.Unlock()
	u := st.UserNamed(name)
	if u == nil {
		return fmt.Errorf("there is no user %q", name)
	}
	u.Password = password
	st.Users.Put(u.ID, u)
	return st.Flush()
}

const controlHelp = `known:
  GET requests[?after=SEQ], summary, state, vms, disks, faults
  POST faults; DELETE faults, faults/ID
  POST expire-sessions, users/NAME/unlock
  POST vms/NAME/crash, vms/NAME/node {"ready":"True|False|Unknown","reason":"..."}
  POST hosts/NAME/fail, hosts/NAME/recover, hosts/NAME/maintenance
`

// controlRoutes is the API for tests and for people who look.
func (s *Control) routes() *http.ServeMux {
	mux := http.NewServeMux()
	show := func(pattern string, what func(*http.Request) any) {
		mux.HandleFunc("GET "+Path+pattern, func(w http.ResponseWriter, r *http.Request) { wire.AnswerJSON(w, http.StatusOK, what(r)) })
	}
	do := func(pattern string, what func(*http.Request) error) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+Path+path, func(w http.ResponseWriter, r *http.Request) {
			if err := what(r); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			wire.AnswerJSON(w, http.StatusOK, struct{}{})
		})
	}
	show("/requests", func(r *http.Request) any {
		after, _ := strconv.Atoi(r.URL.Query().Get("after"))
		return s.requestsAfter(after)
	})
	show("/summary", func(*http.Request) any { return s.Summary() })
	show("/state", func(*http.Request) any { return s.State() })
	show("/vms", func(*http.Request) any { return s.VMs() })
	show("/disks", func(*http.Request) any { return s.Disks() })
	show("/faults", func(*http.Request) any { return s.Faults() })
	do("POST /faults", func(r *http.Request) error {
		var fault Fault
		if err := readStrict(r.Body, &fault); err != nil {
			return err
		}
		return s.Inject(fault)
	})
	do("DELETE /faults", func(*http.Request) error {
		s.ClearFaults()
		return nil
	})
	do("DELETE /faults/{id}", func(r *http.Request) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		before := len(s.faults)
		s.faults = slices.DeleteFunc(s.faults, func(f *Fault) bool { return strconv.Itoa(f.ID) == r.PathValue("id") })
		if len(s.faults) == before {
			return fmt.Errorf("there is no fault %s", r.PathValue("id"))
		}
		return nil
	})
	do("POST /expire-sessions", func(*http.Request) error {
		s.ExpireSessions()
		return nil
	})
	do("POST /users/{name}/unlock", func(r *http.Request) error { return s.UnlockUser(r.PathValue("name")) })
	do("POST /vms/{name}/crash", func(r *http.Request) error { return s.Crash(r.PathValue("name")) })
	do("POST /vms/{name}/node", func(r *http.Request) error {
		var in struct {
			Ready  string `json:"ready"`
			Reason string `json:"reason"`
		}
		if err := readStrict(r.Body, &in); err != nil {
			return err
		}
		return s.SetNodeReady(r.PathValue("name"), in.Ready, cmp.Or(in.Reason, "SetByTest"))
	})
	do("POST /hosts/{name}/fail", func(r *http.Request) error { return s.FailHost(r.PathValue("name")) })
	do("POST /hosts/{name}/recover", func(r *http.Request) error { return s.RecoverHost(r.PathValue("name")) })
	do("POST /hosts/{name}/maintenance", func(r *http.Request) error { return s.MaintainHost(r.PathValue("name")) })
	mux.HandleFunc(Path+"/", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, controlHelp, http.StatusNotFound) })
	return mux
}

func readStrict(from io.Reader, into any) error {
	decoder := json.NewDecoder(io.LimitReader(from, 1<<20))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// watchers wakes those who show the state when it has changed.
type watchers struct {
	mu   sync.Mutex
	wait chan struct{}
}

func newWatchers() *watchers { return &watchers{wait: make(chan struct{})} }

// changed wakes all who wait.
func (w *watchers) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.wait)
	w.wait = make(chan struct{})
}

// next is closed with the next change.
func (w *watchers) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wait
}
