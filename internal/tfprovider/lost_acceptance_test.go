package tfprovider_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// This file loses the answer to each request of each resource: only this answer, or also all later ones of the
// operation.

// losing is a proxy before an engine. It drops answers.
type losing struct {
	*httptest.Server

	mu sync.Mutex
	// nth is the number of the request whose answer the proxy drops, counted from 1. 0 drops none.
	nth int
	// onlyChanges excludes read requests from the count.
	onlyChanges bool
	// staysDown drops all later requests until mend is called.
	staysDown      bool
	seen           int
	isLost, isDown bool
	// isRefusal reports that the lost answer refused a change.
	isRefusal bool
}

var errCut = errors.New("the connection was cut")

// newLosing puts a proxy between the runs and the engine.
func newLosing(d *direct) *losing {
	d.t.Helper()
	target, err := url.Parse(d.site.sim.URL())
	must(d.t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(d.site.sim.CA())

	l := &losing{}
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host}) },
		Transport:      &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
		ModifyResponse: l.answer,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	l.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.refuses() {
			panic(http.ErrAbortHandler)
		}

		proxy.ServeHTTP(w, r)
	}))
	d.t.Cleanup(l.Close)
	d.url = l.URL + "/ovirt-engine/api"
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.Certificate().Raw})
	d.ca = slices.Concat(own, d.site.sim.CA()) // images do not use the proxy

	return l
}

func (l *losing) refuses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	return l.isDown
}

// answer counts an answer, and returns an error if it must be lost.
func (l *losing) answer(response *http.Response) error {
	r := response.Request
	if !strings.Contains(r.URL.Path, "/api/") || l.onlyChanges && r.Method == http.MethodGet {
		return nil
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	if l.seen++; l.seen != l.nth {
		return nil
	}

	l.isLost, l.isDown = true, l.staysDown
	l.isRefusal = r.Method != http.MethodGet && response.StatusCode >= http.StatusBadRequest

	return errCut
}

// lose makes the proxy drop the answer to a request. mend makes it work again, and returns the number of requests.
func (l *losing) lose(nth int) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.nth, l.seen, l.isLost, l.isDown, l.isRefusal = nth, 0, false, false, false
}

func (l *losing) mend() (seen int) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.nth, l.isDown = 0, false

	return l.seen
}

// lostCase describes a resource for the tests with lost answers.
type lostCase struct {
	// prepare creates the objects the resource needs, and returns its attributes.
	prepare func(d *direct) set
	// change returns attributes with another value that can change in place. It is nil if there are none.
	change func(d *direct) set
	// count counts the objects of the resource in the engine. It is nil if the resource has no object of its own.
	count func(d *direct, of set) int
}

// one returns a function that always returns this one change.
func one(name string, value any) func(*direct) set {
	return func(*direct) set { return set{name: value} }
}

// length returns the length of a list, and fails the test on an error.
func length[T any](d *direct) func([]T, error) int {
	return func(all []T, err error) int {
		d.t.Helper()
		must(d.t, err)

		return len(all)
	}
}

func vmOf(of set) engine.ID {
	id, _ := of["vm_id"].(string)
	return engine.ID(id)
}

// disksOf counts the disks with an alias.
func disksOf(d *direct, of set) int {
	alias, _ := of["alias"].(string)
	return length[engine.Disk](d)(d.site.client.FindDisks(d.t.Context(), nil, alias))
}

func textOf(of set, name string) string {
	text, _ := of[name].(string)
	return text
}

// lostCases has a case for each resource.
func lostCases() map[string]lostCase {
	out := map[string]lostCase{}

	for _, some := range []map[string]lostCase{
		lostCasesOfVMs(), lostCasesOfDisks(), lostCasesOfGroups(), lostCasesOfDevices(),
	} {
		for name, c := range some {
			out[name] = c
		}
	}

	return out
}

func lostCasesOfVMs() map[string]lostCase {
	named := func(d *direct, of set) int {
		return length[engine.VM](d)(d.site.client.FindVMs(d.t.Context(), nil, textOf(of, "name")))
	}

	return map[string]lostCase{
		"ovirt_vm": {
			prepare: func(d *direct) set {
				return set{"name": "x", "cluster_id": d.site.ids["$cluster"], "template_id": d.site.ids["$template"]}
			},
			change: one("description", "changed"), count: named,
		},
		"ovirt_adopted_vm": {prepare: func(d *direct) set {
			vm := d.vm("a", set{"initialization_hostname": "before"})
			return set{"vm_id": vm, "initialization_hostname": "node-1"}
		}},
		"ovirt_vm_start": {
			prepare: func(d *direct) set { return set{"vm_id": d.vm("a", nil), "stop_behavior": "stop"} },
			change:  one("force_stop", true),
		},
		"ovirt_template": {
			prepare: func(d *direct) set { return set{"name": "golden", "vm_id": d.vm("a", nil)} },
			change:  one("description", "changed"),
			count: func(d *direct, of set) int {
				return length[engine.Template](d)(d.site.client.FindTemplates(d.t.Context(), nil, "golden"))
			},
		},
		"ovirt_vm_snapshot": {
			prepare: func(d *direct) set { return set{"vm_id": d.vm("a", nil), "description": "x"} },
			count: func(d *direct, of set) int {
				return length[engine.Snapshot](d)(d.site.client.ListSnapshots(d.t.Context(), vmOf(of)))
			},
		},
		"ovirt_vm_template_nics": {
			prepare: func(d *direct) set { return set{"vm_id": d.vm("a", nil), "kept": []string{"nic1"}} },
			change:  one("kept", []string{"nic2"}),
		},
		"ovirt_vm_graphics_consoles": {prepare: func(d *direct) set { return set{"vm_id": d.vm("a", nil)} }},
		"ovirt_vm_optimize_cpu_settings": {prepare: func(d *direct) set {
			return set{"vm_id": d.vm("a", d.pinned())}
		}},
		"ovirt_vm_cdrom": {
			prepare: func(d *direct) set {
				return set{"vm_id": d.vm("a", nil), "disk_id": d.site.isoDisk(d.t, "first").String()}
			},
			change: func(d *direct) set { return set{"disk_id": d.site.isoDisk(d.t, "second").String()} },
			count: func(d *direct, of set) int {
				drive, err := d.site.client.FetchCDROM(d.t.Context(), vmOf(of))
				must(d.t, err)

				return min(len(drive.ImageID()), 1)
			},
		},
	}
}

func lostCasesOfDisks() map[string]lostCase {
	attachment := func(disk, kind string) set { return set{"disk_id": disk, "disk_interface": kind} }
	attached := func(d *direct, of set) int { // without the boot disk
		return length[engine.DiskAttachment](d)(d.site.client.ListDiskAttachments(d.t.Context(), vmOf(of))) - 1
	}

	return map[string]lostCase{
		"ovirt_disk": {
			prepare: func(d *direct) set {
				return set{"alias": "x", "format": "raw", "size": gib, "storage_domain_id": d.site.ids["$storage"]}
			},
			change: one("size", 2*gib), count: disksOf,
		},
		"ovirt_disk_from_image": {
			prepare: func(d *direct) set {
				return set{
					"alias": "x", "format": "cow", "source_file": image(d.t, 1<<20, gib),
					"storage_domain_id": d.site.ids["$storage"],
				}
			},
			change: one("alias", "y"), count: disksOf,
		},
		"ovirt_disk_resize": {
			prepare: func(d *direct) set { return set{"disk_id": d.disk("d"), "size": 2 * gib} },
			change:  one("size", 3*gib),
		},
		"ovirt_vm_disks_resize": {
			prepare: func(d *direct) set { return set{"vm_id": d.vm("a", nil), "size": 200 * gib} },
			change:  one("size", 201*gib),
		},
		"ovirt_disk_attachment": {
			prepare: func(d *direct) set {
				return with(attachment(d.disk("d"), "virtio"), set{"vm_id": d.vm("a", nil)})
			},
			change: one("disk_interface", "virtio_scsi"), count: attached,
		},
		"ovirt_disk_attachments": {
			prepare: func(d *direct) set {
				return set{
					"vm_id": d.vm(
						"a", nil,
					),
					"attachment": []set{attachment(d.disk("d"), "virtio"), attachment(d.disk("e"), "virtio")},
				}
			},
			change: func(d *direct) set {
				return set{"attachment": []set{attachment(d.diskNamed("d"), "virtio_scsi")}} // this change detaches e
			},
			count: func(d *direct, of set) int { return attached(d, of) / 2 },
		},
	}
}

// diskNamed returns the disk with an alias.
func (d *direct) diskNamed(alias string) string {
	d.t.Helper()
	found, err := d.site.client.FindDisks(d.t.Context(), nil, alias)
	must(d.t, err)

	return found[0].ID.String()
}

func lostCasesOfGroups() map[string]lostCase {
	label := func(d *direct) string { return d.make("ovirt_affinity_label", set{"name": "l"}).text("id") }
	group := func(d *direct) string {
		return d.make("ovirt_affinity_group", set{"name": "g", "cluster_id": d.site.ids["$cluster"]}).text("id")
	}

	return map[string]lostCase{
		"ovirt_tag": {
			prepare: func(*direct) set { return set{"name": "x"} }, change: one("description", "changed"),
			count: func(d *direct, _ set) int {
				return length[engine.Tag](d)(d.site.client.ListTagsNamed(d.t.Context(), "x"))
			},
		},
		"ovirt_vm_tag": {
			prepare: func(d *direct) set {
				return set{"vm_id": d.vm("a", nil), "tag_id": d.make("ovirt_tag", set{"name": "x"}).text("id")}
			},
			count: func(d *direct, of set) int {
				return length[engine.Tag](d)(d.site.client.ListVMTags(d.t.Context(), vmOf(of)))
			},
		},
		"ovirt_affinity_label": {
			prepare: func(*direct) set { return set{"name": "x"} }, change: one("implicit_affinity_group", true),
			count: func(d *direct, _ set) int {
				return length[engine.Label](d)(d.site.client.ListAffinityLabelsNamed(d.t.Context(), "x"))
			},
		},
		"ovirt_vm_affinity_label": {
			prepare: func(d *direct) set { return set{"vm_id": d.vm("a", nil), "label_id": label(d)} },
			count: func(d *direct, of set) int {
				return length[engine.Label](
					d,
				)(
					d.site.client.ListAffinityLabelsOf(d.t.Context(), engine.LabelledVM, vmOf(of)),
				)
			},
		},
		"ovirt_host_affinity_label": {prepare: func(d *direct) set {
			hosts, err := d.site.client.ListHosts(d.t.Context())
			must(d.t, err)

			return set{"host_id": hosts[0].ID.String(), "label_id": label(d)}
		}},
		"ovirt_affinity_group": {
			prepare: func(d *direct) set { return set{"name": "x", "cluster_id": d.site.ids["$cluster"]} },
			change:  one("description", "changed"),
			count: func(d *direct, _ set) int {
				return length[engine.AffinityGroup](d)(d.site.client.ListAffinityGroupsNamed(d.t.Context(), "x"))
			},
		},
		"ovirt_permission": {
			prepare: func(d *direct) set {
				return set{
					"object_type": "vm",
					"object_id":   d.vm("a", nil),
					"role":        "UserVmManager",
					"user_id":     d.userID(),
				}
			},
			count: func(d *direct, of set) int {
				all, err := d.site.client.ListPermissions(d.t.Context(), engine.Permitted{
					Collection: "vms", ID: engine.ID(textOf(of, "object_id")),
				})

				return length[engine.Permission](d)(all, err) - 2 // without the two for the whole system
			},
		},
		"ovirt_vm_affinity_group": {prepare: func(d *direct) set {
			return set{"vm_id": d.vm("a", nil), "cluster_id": d.site.ids["$cluster"], "affinity_group_id": group(d)}
		}},
	}
}

// userID returns a user of the engine.
func (d *direct) userID() string {
	d.t.Helper()
	return firstID.FindStringSubmatch(d.site.request(d.t, "GET", "/users", ""))[1]
}

func lostCasesOfDevices() map[string]lostCase {
	return map[string]lostCase{
		"ovirt_nic": {
			prepare: func(d *direct) set {
				return set{
					"vm_id":           d.vm("a", nil),
					"name":            "x",
					"vnic_profile_id": d.site.ids["$profile"],
					"linked":          false,
				}
			},
			change: one("interface", "e1000e"),
			count: func(d *direct, of set) int {
				return length[engine.NIC](d)(d.site.client.ListNICs(d.t.Context(), vmOf(of)))
			},
		},
		"ovirt_vm_watchdog": {
			prepare: func(d *direct) set {
				return set{"vm_id": d.vm("a", nil), "model": "i6300esb", "action": "reset"}
			},
			change: one("action", "pause"),
			count: func(d *direct, of set) int {
				return length[engine.Watchdog](d)(d.site.client.ListWatchdogs(d.t.Context(), vmOf(of)))
			},
		},
		"ovirt_vm_host_device": {
			prepare: func(d *direct) set { return set{"vm_id": d.vm("a", d.pinned()), "name": "pci_0000_3b_00_0"} },
			count: func(d *direct, of set) int {
				return length[string](d)(d.site.client.ListVMHostDevices(d.t.Context(), vmOf(of)))
			},
		},
		"ovirt_vm_mediated_device": {
			prepare: func(d *direct) set { return set{"vm_id": d.vm("a", nil), "type": "nvidia-63"} },
			count: func(d *direct, of set) int {
				return length[engine.MediatedDevice](d)(d.site.client.ListMediatedDevices(d.t.Context(), vmOf(of)))
			},
		},
	}
}

// loss describes one lost answer.
type loss struct {
	typeName, phase string
	nth             int
	// staysDown keeps the engine unreachable until the operation ends.
	staysDown bool
	// limit is the timeout of the operation.
	limit string
}

// isUnproven has the resources whose objects have no time of creation. So nothing distinguishes the provider's objects
// from those of others.
var isUnproven = map[string]bool{
	"ovirt_tag": true, "ovirt_affinity_label": true, "ovirt_affinity_group": true, "ovirt_nic": true,
	"ovirt_vm_watchdog": true, "ovirt_vm_mediated_device": true, "ovirt_permission": true,
}

// isRequestedOnce has the resources whose create is not repeated after a lost answer, because the engine takes several
// objects alike, or those of somebody else. If the lost answer was a refusal, the run fails, and the next apply makes
// the object.
var isRequestedOnce = map[string]bool{
	"ovirt_vm": true, "ovirt_template": true, "ovirt_vm_snapshot": true, "ovirt_disk": true,
	"ovirt_disk_from_image": true, "ovirt_nic": true, "ovirt_tag": true, "ovirt_affinity_label": true,
	"ovirt_affinity_group": true, "ovirt_vm_mediated_device": true,
}

// lostRun is the life of a resource.
type lostRun struct {
	*managed
	losing *losing
	of     set
	c      lostCase
	seen   int
}

// newLostRun creates a resource and prepares it for a phase.
func newLostRun(t *testing.T, l loss) *lostRun {
	t.Helper()
	d := newDirect(t, newSite(t, quick))
	c := lostCases()[l.typeName]
	of := c.prepare(d)
	between := newLosing(d)
	between.staysDown, between.onlyChanges = l.staysDown, l.staysDown
	d.begin()
	r := &lostRun{d.resource(l.typeName), between, of, c, 0}

	if l.phase == "delete" && l.limit != "" { // a destroy uses the timeouts in the state
		r.of = with(of, set{"timeouts": set{"delete": l.limit}})
	}

	if l.phase != "create" {
		check.Equal(t, "the problems", strings.Join(r.apply(r.of), "\n"), "")
		d.begin() // so the run does not know what it has created
	}

	if l.phase == "update" {
		r.of = with(of, c.change(d))
	}

	return r
}

// run performs the phase with a lost answer.
func (r *lostRun) run(l loss) []string {
	r.d.t.Helper()
	of := r.of
	if l.phase != "delete" && l.limit != "" {
		of = with(of, set{"timeouts": set{l.phase: l.limit}})
	}

	r.losing.lose(l.nth)
	defer func() { r.seen = r.losing.mend() }()

	if l.phase == "delete" {
		return r.destroy()
	}

	return r.apply(of)
}

// again repeats the phase with a working engine, and checks the result.
func (r *lostRun) again(l loss) {
	r.d.t.Helper()
	r.d.begin()

	want := 1
	if l.phase == "delete" {
		want = 0
		check.Equal(r.d.t, "the problems", strings.Join(r.destroy(), "\n"), "")
	} else {
		problems := strings.Join(append(r.refresh(), r.apply(r.of)...), "\n")

		if l.phase == "create" && l.staysDown && isUnproven[l.typeName] && problems != "" {
			check.Contains(r.d.t, "the problems", problems, "import the object")
		} else {
			check.Equal(r.d.t, "the problems", problems, "")
			r.settled(r.of)
		}
	}

	if l.typeName == "ovirt_disk_attachments" && l.phase == "update" {
		want = 0 // the update detaches one of them
	}

	if r.c.count != nil {
		check.Equal(r.d.t, "the objects", r.c.count(r.d, r.of), want)
	}
}

// loses performs a phase with one lost answer. It reports whether the phase had such an answer.
func loses(t *testing.T, l loss) {
	t.Helper()
	r := newLostRun(t, l)
	first := r.run(l)

	if !r.losing.isLost {
		return // the number of status reads differs between runs
	}

	r.judgeRun(l, strings.Join(first, "\n"))
	r.again(l)
}

// judgeRun examines the problems of the run with the lost answer. It ends without any, unless the engine stays down, or
// has refused a request with no second try.
func (r *lostRun) judgeRun(l loss, problems string) {
	r.d.t.Helper()

	switch {
	case l.staysDown:
	case l.phase == "create" && r.losing.isRefusal && isRequestedOnce[l.typeName]:
		check.Contains(r.d.t, "the problems of the run itself", problems, "engine cannot be reached")
		check.Equal(r.d.t, "the objects after the refusal", r.c.count(r.d, r.of), 0)
	default:
		check.Equal(r.d.t, "the problems of the run itself", problems, "")
	}
}

// TestALostRefusalIsMadeUpFor loses the engine's refusal of the first change of a create. Nothing shows the provider
// that the engine has refused. The next apply makes the object if this one does not.
func TestALostRefusalIsMadeUpFor(t *testing.T) {
	t.Parallel()

	for typeName := range lostCases() {
		t.Run(typeName, func(t *testing.T) {
			if typeName != "ovirt_vm_snapshot" && typeName != "ovirt_disk_attachment" {
				testenv.SkipInShort(t, "each resource")
			}

			t.Parallel()
			l := loss{typeName, "create", 1, false, ""}
			r := newLostRun(t, l)
			r.losing.onlyChanges = true

			for _, method := range []string{"POST", "PUT", "DELETE"} {
				must(t, r.d.site.sim.Inject(ovirtsim.Fault{
					Method: method, Path: "^/api/", Status: 409, Count: 1,
					Reason: "Operation Failed", Detail: "[The VM is locked.]",
				}))
			}

			first := r.run(l)
			r.d.site.sim.ClearFaults()
			// The template has one network interface, and it is kept.
			check.Equal(t, "the lost answer is a refusal", r.losing.isRefusal, typeName != "ovirt_vm_template_nics")
			r.judgeRun(l, strings.Join(first, "\n"))
			r.again(l)
		})
	}
}

// TestALostAnswerIsMadeUpFor loses answers with a history of lost states. The run ends without the engine, and the next
// one finds the objects of the first. TestEachLostAnswerIsMadeUpFor covers all answers.
func TestALostAnswerIsMadeUpFor(t *testing.T) {
	t.Parallel()

	for _, l := range []loss{
		{"ovirt_vm_watchdog", "create", 1, true, "1s"},
		{"ovirt_adopted_vm", "create", 1, true, "1s"},
		{"ovirt_vm_tag", "create", 1, true, "1s"},
		{"ovirt_vm_host_device", "create", 1, true, "1s"},
		{"ovirt_tag", "create", 1, true, ""},
		{"ovirt_disk_from_image", "create", 2, true, "1s"}, // the transfer
		{"ovirt_disk_from_image", "create", 3, true, "1s"}, // its end
	} {
		t.Run(fmt.Sprintf("%s/%d", l.typeName, l.nth), func(t *testing.T) {
			t.Parallel()
			loses(t, l)
		})
	}
}

// TestEachLostAnswerIsMadeUpFor loses the answer to each request of each resource.
func TestEachLostAnswerIsMadeUpFor(t *testing.T) {
	testenv.SkipInShort(t, "a run for each request of each resource")
	t.Parallel()

	cases := lostCases()
	for typeName := range configured(t, newSite(t, quick)).schemas.ResourceSchemas {
		check.Equal(t, typeName+" has a case", cases[typeName].prepare != nil, true)
	}

	for typeName, c := range cases {
		for _, phase := range []string{"create", "update", "delete"} {
			if phase == "update" && c.change == nil {
				continue
			}

			t.Run(typeName+"/"+phase, func(t *testing.T) {
				t.Parallel()
				losesEach(t, typeName, phase)
			})
		}
	}
}

// losesEach counts the requests of a phase in a run without a loss. It then loses the answer to each of them.
func losesEach(t *testing.T, typeName, phase string) {
	t.Helper()

	for _, staysDown := range []bool{false, true} {
		whole := loss{typeName, phase, 0, staysDown, ""}
		counted := newLostRun(t, whole)
		check.Equal(t, "the problems without a loss", strings.Join(counted.run(whole), "\n"), "")

		for nth := 1; nth <= counted.seen; nth++ {
			l := loss{typeName, phase, nth, staysDown, ""}
			if staysDown {
				l.limit = "3s"
			}

			t.Run(
				fmt.Sprintf("request %d of %d, engine stays down: %v", nth, counted.seen, staysDown),
				func(t *testing.T) {
					loses(t, l)
				},
			)
		}
	}
}

// TestAnObjectThatAPersonMadeMeanwhileIsNotDestroyed loses the answer to a create, and treats the existing object as
// another user's. A tag has no time of creation, and the VM appears years after the create. No run may take over or
// destroy the object.
func TestAnObjectThatAPersonMadeMeanwhileIsNotDestroyed(t *testing.T) {
	t.Parallel()

	for _, typeName := range []string{"ovirt_tag", "ovirt_vm"} {
		t.Run(typeName, func(t *testing.T) {
			t.Parallel()
			l := loss{typeName, "create", 1, true, "10s"}
			r := newLostRun(t, l)
			_ = r.run(l)
			r.d.begin()
			r.askYearsAgo()

			want := ""
			if isUnproven[typeName] {
				want = "import the object"
			}

			check.Contains(t, "the problems of the refresh", strings.Join(r.refresh(), "\n"), want)
			check.Equal(t, "the resource is in the state", !r.state.IsNull(), isUnproven[typeName])
			check.Contains(t, "the problems of another apply", strings.Join(r.apply(r.of), "\n"), "import")
			_ = r.destroy()
			_ = r.remove()
			check.Equal(t, "the objects", r.c.count(r.d, r.of), 1)
		})
	}
}

// askYearsAgo moves the recorded times of a create years into the past.
func (r *lostRun) askYearsAgo() {
	r.d.t.Helper()

	var (
		private map[string][]byte
		what    map[string]any
		err     error
	)

	must(r.d.t, json.Unmarshal(r.private, &private))
	must(r.d.t, json.Unmarshal(private["asked"], &what))
	what["since"], what["until"] = "2001-01-01T00:00:00Z", "2001-01-01T00:03:00Z"
	private["asked"], err = json.Marshal(what)
	must(r.d.t, err)
	r.private, err = json.Marshal(private)
	must(r.d.t, err)
}
