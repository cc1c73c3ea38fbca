package ovirtsim_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// doc is a JSON document of the API.
type doc map[string]any

// at returns the value at a path in a document. A string selects a member, and a number selects an item. It returns ""
// if there is none.
func (d doc) at(path ...any) string {
	var here any = map[string]any(d)

	for _, step := range path {
		switch s := step.(type) {
		case string:
			object, _ := here.(map[string]any)
			here = object[s]
		case int:
			list, _ := here.([]any)
			if s >= len(list) {
				return ""
			}

			here = list[s]
		}
	}

	if here == nil {
		return ""
	}

	return fmt.Sprint(here)
}

// each returns a member of each item in a list.
func (d doc) each(list, member string) []string {
	out := []string{}

	items, _ := d[list].([]any)
	for _, item := range items {
		object, _ := item.(map[string]any)
		out = append(out, fmt.Sprint(object[member]))
	}

	return out
}

// do sends JSON and returns the response, whatever its status is.
func (r *raw) do(method, path, body string) (int, doc) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.sim.URL()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}

	request.Header.Set("Authorization", "Bearer "+r.token)
	request.Header.Set("Accept", "application/json")
	if method == http.MethodPost || method == http.MethodPut { // the engine requires the header even for an empty body
		request.Header.Set("Content-Type", "application/json")
	}

	response, err := r.http.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}

	out := doc{}

	// The response for a missing object has no document, and other errors are HTML pages.
	if response.Header.Get("Content-Type") != "application/json" {
		return response.StatusCode, doc{"detail": string(content)}
	}

	if err := json.Unmarshal(content, &out); err != nil {
		r.t.Fatalf("%s %s: %v in %s", method, path, err, content)
	}

	if fault, failed := out["fault"].(map[string]any); failed { // the fault is inside an action
		out["detail"] = fault["detail"]
	}

	return response.StatusCode, out
}

// ok sends JSON and fails the test unless the engine accepts it.
func (r *raw) ok(method, path, body string) doc {
	r.t.Helper()
	status, out := r.do(method, path, body)
	if status < 200 || status > 299 {
		r.t.Fatalf("%s %s %s: %d %v", method, path, body, status, out)
	}

	return out
}

// refused sends JSON. It fails the test unless the engine rejects it with this status and text.
func (r *raw) refused(status int, detail, method, path, body string) {
	r.t.Helper()
	got, out := r.do(method, path, body)
	if got != status || !strings.Contains(out.at("detail"), detail) {
		r.t.Errorf("%s %s %s: %d %v, want %d with %q", method, path, body, got, out, status, detail)
	}
}

// id returns the ID of the object with a name.
func (r *raw) id(collection, element, name string) string {
	r.t.Helper()
	list := r.ok("GET", "/api/"+collection, "")
	if i := slices.Index(list.each(element, "name"), name); i >= 0 {
		return list.at(element, i, "id")
	}

	r.t.Fatalf("there is no %s %q in %v", element, name, list.each(element, "name"))

	return ""
}

// newVM creates a VM and returns its ID once the VM is down.
func (r *raw) newVM(name, extra string) string {
	r.t.Helper()
	if extra != "" {
		extra = "," + extra
	}

	made := r.ok(
		"POST",
		"/api/vms",
		fmt.Sprintf(`{"name":%q,"cluster":{"name":"Default"},"template":{"name":"ol9-k8s"}%s}`, name, extra),
	)
	r.until("/api/vms/"+made.at("id"), "status", "down")

	return made.at("id")
}

// eventually waits until check returns no error. After each failed check, it triggers the engine's next pending event,
// so the test sees every status. Guests run independently of this.
func (r *raw) eventually(what string, check func() error) {
	r.t.Helper()
	wait.For(r.t, what, func() error {
		err := check()
		for err != nil && r.clock.Step() {
			err = check()
		}

		return err
	})
}

// until waits until a member of a document has the value want.
func (r *raw) until(path, member, want string) {
	r.t.Helper()

	var members []any
	for name := range strings.SplitSeq(member, ".") {
		members = append(members, name)
	}

	r.eventually(fmt.Sprintf("%s of %s is %q", member, path, want), func() error {
		if got := r.ok("GET", path, "").at(members...); got != want {
			return fmt.Errorf("it is %q", got)
		}

		return nil
	})
}

// gone waits until an object no longer exists.
func (r *raw) gone(path string) {
	r.t.Helper()
	r.eventually(path+" is gone", func() error {
		if status, _ := r.do("GET", path, ""); status != http.StatusNotFound {
			return fmt.Errorf("it is answered with %d", status)
		}

		return nil
	})
}

// timings are for an engine whose clock the test controls. They determine the order of events.
var timings = ovirtsim.Timings{
	Clone:     10 * time.Second,
	Launch:    5 * time.Second,
	PowerUp:   10 * time.Second,
	PowerDown: 10 * time.Second,
	Remove:    5 * time.Second,
	Fence:     30 * time.Second,
}

func TestXMLAndJSONSayTheSame(t *testing.T) {
	r := newRaw(t)
	id := r.newVM(
		"a",
		`"comment":"<&> \"quoted\" é","memory":"1073741824","cpu":{"topology":{"cores":2,"sockets":"2","threads":1}},"custom_properties":{"custom_property":[{"name":"hugepages","value":"2048"}]}`,
	)

	vm := r.ok("GET", "/api/vms/"+id, "")
	for path, want := range map[string]string{
		"id":                       id,
		"href":                     "/ovirt-engine/api/vms/" + id,
		"name":                     "a",
		"comment":                  `<&> "quoted" é`,
		"memory":                   "1073741824",
		"cpu.topology.cores":       "2",
		"cpu.topology.sockets":     "2",
		"cluster.href":             "/ovirt-engine/api/clusters/" + vm.at("cluster", "id"),
		"status":                   "down",
		"type":                     "server",
		"os.type":                  "ol_9x64",
		"memory_policy.max":        "4294967296",
		"memory_policy.guaranteed": "1073741824", "delete_protected": "false", "description": "",
	} {
		steps := []any{}
		for _, s := range strings.Split(path, ".") {
			steps = append(steps, s)
		}

		if got := vm.at(steps...); got != want {
			t.Errorf("JSON %s is %q, want %q", path, got, want)
		}
	}

	if got := vm.at("custom_properties", "custom_property", 0, "value"); got != "2048" {
		t.Errorf("a list with one item is not an array: %v", vm["custom_properties"])
	}

	_, content := r.call("GET", "/api/vms/"+id, "", "")
	var parsed struct {
		XMLName xml.Name `xml:"vm"`
		ID      string   `xml:"id,attr"`
		Comment *string  `xml:"comment"`
		Cores   int      `xml:"cpu>topology>cores"`
		Links   []struct {
			Rel  string `xml:"rel,attr"`
			Href string `xml:"href,attr"`
		} `xml:"link"`
		Properties []string `xml:"custom_properties>custom_property>value"`
	}
	if err := xml.Unmarshal([]byte(content), &parsed); err != nil {
		t.Fatal(err)
	}

	check.Equal(t, "parsed.ID", parsed.ID, id)
	check.Equal(t, "*parsed.Comment", *parsed.Comment, `<&> "quoted" é`)
	check.Equal(t, "parsed.Cores", parsed.Cores, 2)
	check.Length(t, "parsed.Properties", parsed.Properties, 1)

	for _, link := range parsed.Links { // every link has a valid target
		if status, _ := r.do("GET", strings.TrimPrefix(link.Href, "/ovirt-engine"), ""); status != http.StatusOK {
			t.Errorf("link %s to %s: %d", link.Rel, link.Href, status)
		}
	}
}

// notSimulated are the collections in the root document that the simulator lacks.
var notSimulated = map[string]bool{
	"externalvmimports":       true,
	"externaltemplateimports": true,
	"schedulingpolicyunits":   true,
}

func TestTheRootDocumentLeadsToEveryCollection(t *testing.T) {
	r := newRawWith(t, ovirtsim.Options{Inventory: func() ovirtsim.Inventory {
		inventory := ovirtsim.DefaultInventory()
		inventory.Version = "4.4.10"
		return inventory
	}()})
	root := r.ok("GET", "/api", "")
	version := []string{
		root.at("product_info", "version", "major"),
		root.at("product_info", "version", "minor"),
		root.at("product_info", "version", "build"),
		root.at("product_info", "version", "revision"),
	}
	if !slices.Equal(version, []string{"4", "4", "10", "0"}) {
		t.Errorf("version %v", version)
	}

	if root.at("special_objects", "blank_template", "id") != "00000000-0000-0000-0000-000000000000" {
		t.Errorf("special objects %v", root["special_objects"])
	}

	links, _ := root["link"].([]any)
	if len(links) < 15 {
		t.Errorf("%d links", len(links))
	}

	for _, link := range links {
		one, _ := link.(map[string]any)
		path, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprint(one["href"]), "/ovirt-engine"), "{")
		if path == "/api/events;from=" || notSimulated[fmt.Sprint(one["rel"])] {
			continue
		}

		if status, _ := r.do("GET", path, ""); status != http.StatusOK {
			t.Errorf("%v: %d", one["rel"], status)
		}
	}
}

func TestHTTPIsUsedAsTheEngineDoes(t *testing.T) {
	r := newRaw(t)
	id := r.newVM("a", "")
	get := func(method, path, accept, contentType, body, token string) (int, http.Header, string) {
		request, err := http.NewRequestWithContext(t.Context(), method, r.sim.URL()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}

		for name, value := range map[string]string{
			"Accept":        accept,
			"Content-Type":  contentType,
			"Authorization": token,
		} {
			if value != "" {
				request.Header.Set(name, value)
			}
		}

		response, err := r.http.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		content, _ := io.ReadAll(response.Body)

		return response.StatusCode, response.Header, string(content)
	}
	bearer := "Bearer " + r.token

	tests := map[string]struct {
		method, path, accept, contentType, body, token string
		status                                         int
		media                                          string
	}{
		"no Accept means XML": {"GET", "/api/vms", "", "", "", bearer, 200, "application/xml"},
		"anything means XML":  {"GET", "/api/vms", "*/*", "", "", bearer, 200, "application/xml"},
		"JSON with a charset": {
			"GET",
			"/api/vms",
			"application/json;charset=utf-8",
			"",
			"",
			bearer,
			200,
			"application/json",
		},
		"the first of two wins": {
			"GET",
			"/api/vms",
			"application/xml, application/json",
			"",
			"",
			bearer,
			200,
			"application/xml",
		},
		"a picture is not acceptable": {"GET", "/api/vms", "image/png", "", "", bearer, 406, ""},
		"a body in XML, an answer in JSON": {
			"PUT",
			"/api/vms/" + id,
			"application/json",
			"application/xml; charset=utf-8",
			"<vm><comment>x</comment></vm>",
			bearer,
			200,
			"application/json",
		},
		"a body in JSON, an answer in XML": {
			"PUT",
			"/api/vms/" + id,
			"application/xml",
			"application/json",
			`{"comment":"x"}`,
			bearer,
			200,
			"application/xml",
		},
		"an action without body": {"POST", "/api/vms/" + id + "/stop", "", "", "", bearer, 415, ""},
		"an action in JSON": {
			"POST",
			"/api/vms/" + id + "/stop",
			"",
			"application/json",
			"{}",
			bearer,
			200,
			"application/xml",
		},
		"a document of another kind": {
			"POST",
			"/api/vms",
			"",
			"application/xml",
			"<disk/>",
			bearer,
			500,
			"text/html",
		},
		"JSON that breaks off": {
			"POST",
			"/api/vms",
			"application/json",
			"application/json",
			`{"name":`,
			bearer,
			400,
			"application/json",
		},
		"JSON that is a list": {
			"POST",
			"/api/vms",
			"",
			"application/json",
			`[]`,
			bearer,
			400,
			"application/xml",
		},
		"another charset": {
			"PUT",
			"/api/vms/" + id,
			"",
			"application/xml; charset=iso-8859-1",
			"<vm/>",
			bearer,
			200,
			"application/xml",
		},
		"text that is no boolean": {
			"PUT",
			"/api/vms/" + id,
			"",
			"application/xml",
			"<vm><delete_protected>maybe</delete_protected></vm>",
			bearer,
			400,
			"application/xml",
		},
		"a method that a collection has not": {"DELETE", "/api/vms", "", "", "", bearer, 405, ""},
		"an unknown sub-collection": {
			"GET",
			"/api/vms/" + id + "/unicorns",
			"",
			"",
			"",
			bearer,
			404,
			"text/html",
		},
		"a path outside of the API": {"GET", "/nothing", "", "", "", bearer, 404, "text/html"},
		"no token":                  {"GET", "/api/vms", "", "", "", "", 401, "text/html"},
		"another token":             {"GET", "/api/vms", "", "", "", "Bearer x", 401, "text/html"},
		"slashes of clients that append": {
			"GET",
			"/api//vms//" + id + "/",
			"",
			"",
			"",
			bearer,
			200,
			"application/xml",
		},
		"a limit that is no number": {
			"GET",
			"/api/vms?max=many",
			"",
			"",
			"",
			bearer,
			400,
			"application/xml",
		},
		"the CA, for who does not trust it yet": {
			"GET",
			"/services/pki-resource?resource=ca-certificate&format=X509-PEM-CA",
			"",
			"",
			"",
			"",
			200,
			"application/x-x509-ca-cert",
		},
		"a resource that the PKI does not have": {
			"GET",
			"/services/pki-resource?resource=passwords",
			"",
			"",
			"",
			"",
			400,
			"text/html",
		},
		"an update without a document": {"PUT", "/api/vms/" + id, "", "", "", bearer, 415, ""},
		"a member that stands for a list of one": {
			"PUT",
			"/api/vms/" + id,
			"",
			"application/json",
			`{"custom_properties":{"custom_property":{"name":"hugepages","value":"2048"}}}`,
			bearer,
			200,
			"application/xml",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status, header, body := get(test.method, test.path, test.accept, test.contentType, test.body, test.token)
			if status != test.status || !strings.HasPrefix(header.Get("Content-Type"), test.media) {
				t.Errorf("%d %s %s, want %d %s", status, header.Get("Content-Type"), body, test.status, test.media)
			}

			if status >= 400 && strings.Contains(test.media, "xml") && !strings.Contains(body, "<fault><detail>") {
				t.Errorf("not a fault: %s", body)
			}
		})
	}

	status, _, body := get("GET", "/services/pki-resource?resource=ca-certificate&format=X509-PEM-CA", "", "", "", "")
	if status != 200 || body != string(r.sim.CA()) {
		t.Errorf("the CA is %d %s", status, body)
	}
}

func TestSearchUnderstandsTheLanguageOfTheEngine(t *testing.T) {
	r := newRawWith(t, ovirtsim.Options{Timings: timings, Inventory: func() ovirtsim.Inventory {
		inventory := ovirtsim.DefaultInventory()
		dc := &inventory.DataCenters[0]
		dc.Clusters = append(dc.Clusters, ovirtsim.Cluster{Name: "Other", Hosts: []ovirtsim.Host{{Name: "other-1"}}})
		dc.VMs = append(dc.VMs, []ovirtsim.VM{
			{
				Name:     "web-1",
				Cluster:  "Default",
				Template: "ol9-k8s",
				Up:       true,
				Tags:     []string{"prod"},
				Comment:  "front end",
			},
			{Name: "web-2", Cluster: "Default", Template: "ol9-k8s", Tags: []string{"prod", "blue"}},
			{Name: "db-1", Cluster: "Other", Template: "ol9-k8s", Up: true, Memory: 8 << 30},
			{Name: "WEB-3", Cluster: "Other", Template: "Blank"},
		}...)

		return inventory
	}()})
	tests := map[string]struct {
		query string
		want  []string
	}{
		"a name":                         {"name=web-1", []string{"web-1"}},
		"a name in quotes":               {`name="web-1"`, []string{"web-1"}},
		"blanks around the operator":     {"name = web-1", []string{"web-1"}},
		"a wildcard, whatever the case":  {"name=web*", []string{"WEB-3", "web-1", "web-2"}},
		"not":                            {"name!=web*", []string{"db-1"}},
		"a status":                       {"status=up", []string{"db-1", "web-1"}},
		"a cluster":                      {"cluster=Other", []string{"WEB-3", "db-1"}},
		"a data center":                  {"datacenter=Default", []string{"WEB-3", "db-1", "web-1", "web-2"}},
		"a tag":                          {"tag=prod", []string{"web-1", "web-2"}},
		"and":                            {"tag=prod and status=down", []string{"web-2"}},
		"or":                             {"name=db-1 or tag=blue", []string{"db-1", "web-2"}},
		"and binds tighter than or":      {"name=db-1 or tag=prod and status=up", []string{"db-1", "web-1"}},
		"a host":                         {"host=other-1", []string{"db-1"}},
		"a template":                     {"template=Blank", []string{"WEB-3"}},
		"memory in MiB":                  {"memory > 4096", []string{"db-1"}},
		"a word that may stand anywhere": {"front*", []string{"web-1"}},
		"the prefix of the web page":     {"Vms: name=web-1", []string{}},
		"two conditions without and":     {"name=web* status=up", []string{"web-1"}},
		"parentheses":                    {"(name=web-1)", []string{}},
		"an unknown field":               {"colour=blue", []string{}},
		"a field without value":          {"name=", []string{}},
		"a quote that is open":           {`name="web`, []string{}},
		"an and at the end":              {"name=a and", []string{}},
		"an or at the beginning":         {"or name=a", []string{}},
		"a page without number":          {"page x", []string{}},
		"an order":                       {"name=web* sortby name desc", []string{"web-2", "web-1", "WEB-3"}},
		"a page that is not there":       {"name=* page 2", []string{}},
		"nothing found":                  {"name=nothing", []string{}},
		"an empty query":                 {"", []string{"WEB-3", "db-1", "web-1", "web-2"}},
	}
	escape := strings.NewReplacer(" ", "%20", `"`, "%22", "=", "%3D", ">", "%3E", ":", "%3A", "*", "%2A", "!", "%21")

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := r.ok("GET", "/api/vms?search="+escape.Replace(test.query), "").each("vm", "name")
			if !slices.Equal(got, test.want) {
				t.Errorf("%s found %v, want %v", test.query, got, test.want)
			}
		})
	}

	r.refused(400, "offset must not be negative", "GET", "/api/vms?search=page%200", "")
	got := r.ok("GET", "/api/vms?max=2&search=name%3Dweb*", "").each("vm", "name")
	if !slices.Equal(got, []string{"WEB-3", "web-1"}) {
		t.Errorf("with max: %v", got)
	}

	got = r.ok("GET", "/api/hosts?search=cluster%3DOther%20and%20status%3Dup", "").each("host", "name")
	if !slices.Equal(got, []string{"other-1"}) {
		t.Errorf("hosts: %v", got)
	}

	got = r.ok("GET", "/api/templates?search=name%3Dol9*", "").each("template", "name")
	if !slices.Equal(got, []string{"ol9-k8s"}) {
		t.Errorf("templates: %v", got)
	}

	if got := r.ok("GET", "/api/tags?search=colour%3Dblue", "").each("tag", "name"); !slices.Contains(got, "root") {
		t.Errorf("tags, which are not searched: %v", got)
	}
}

func TestFollowPutsObjectsInThePlaceOfLinks(t *testing.T) {
	r := newRaw(t)
	id := r.newVM("a", "")
	profile := r.id("vnicprofiles", "vnic_profile", "kvm-vlan")
	r.ok("POST", "/api/vms/"+id+"/nics", fmt.Sprintf(`{"name":"nic1","vnic_profile":{"id":%q}}`, profile))

	one := r.ok("GET", "/api/vms/"+id+"?follow=nics.vnic_profile.network,disk_attachments.disk,cluster", "")
	for what, got := range map[string]string{
		"the network of the NIC": one.at("nics", "nic", 0, "vnic_profile", "network", "name"),
		"the disk":               one.at("disk_attachments", "disk_attachment", 0, "disk", "alias"),
		"the cluster":            one.at("cluster", "name"),
	} {
		want := map[string]string{
			"the network of the NIC": "kvm-vlan",
			"the disk":               "ol9-k8s_Disk1",
			"the cluster":            "Default",
		}[what]
		if got != want {
			t.Errorf("%s is %q, want %q in %v", what, got, want, one)
		}
	}

	list := r.ok("GET", "/api/vms?follow=nics", "")
	if list.at("vm", 0, "nics", "nic", 0, "name") != "nic1" {
		t.Errorf("in a list: %v", list)
	}

	r.refused(500, "Internal Server Error", "GET", "/api/vms/"+id+"?follow=unicorns", "")
}

func TestJobsAreFoundByCorrelation(t *testing.T) {
	r := newRaw(t)
	domain := r.id("storagedomains", "storage_domain", "olvm-data")
	made := r.ok(
		"POST",
		"/api/disks?correlation_id=disk_create_x1",
		fmt.Sprintf(
			`{"alias":"d","format":"raw","provisioned_size":"1048576","storage_domains":{"storage_domain":[{"id":%q}]}}`,
			domain,
		),
	)
	jobs := r.ok("GET", "/api/jobs?search=correlation_id%3Ddisk_create_x1", "")
	if !slices.Equal(jobs.each("job", "status"), []string{"started"}) || made.at("status") != "locked" {
		t.Errorf("job %v, disk %v", jobs, made)
	}

	r.until("/api/disks/"+made.at("id"), "status", "ok")
	jobs = r.ok("GET", "/api/jobs?search=correlation_id%3Ddisk_create_x1", "")
	if !slices.Equal(jobs.each("job", "status"), []string{"finished"}) {
		t.Errorf("job %v", jobs)
	}

	events := r.ok("GET", "/api/events?max=1", "")
	if !strings.Contains(events.at("event", 0, "description"), "Add-Disk operation of d") {
		t.Errorf("events %v", events)
	}

	if later := r.ok("GET", "/api/events?from=100000", ""); len(later) != 0 {
		t.Errorf("later events %v", later)
	}
}

// TestEventsOfAVMThatIsGone finds events by the name of a deleted VM, as in a recorded engine.
func TestEventsOfAVMThatIsGone(t *testing.T) {
	r := newRaw(t)
	made := r.ok("POST", "/api/vms", `{"name":"gone","cluster":{"name":"Default"},"template":{"name":"ol9-k8s"}}`)
	r.until("/api/vms/"+made.at("id"), "status", "down")

	for _, field := range []string{"vm.name", "event_vm"} {
		found := r.ok("GET", "/api/events?search="+field+"%3Dgone", "")
		check.Contains(t, field, strings.Join(found.each("event", "description"), "\n"), "VM gone")
	}

	r.ok("DELETE", "/api/vms/"+made.at("id"), "")
	found := r.ok("GET", "/api/events?search=event_vm%3Dgone", "")
	check.Contains(t, "event_vm", strings.Join(found.each("event", "description"), "\n"), "successfully removed")
	check.Equal(t, "vm.name", len(r.ok("GET", "/api/events?search=vm.name%3Dgone", "").each("event", "id")), 0)
}

func TestElementsThatTheAPIDoesNotHaveAreRefused(t *testing.T) {
	r := newRaw(t)
	for _, extra := range []string{`"memmory":"1"`, `"os":{"typ":"x"}`, `"nics":{"nick":["x"]}`} {
		r.refused(400, "/apidoc#services/vms/methods/add", "POST", "/api/vms",
			`{"name":"a","cluster":{"name":"Default"},"template":{"name":"ol9-k8s"},`+extra+`}`)
	}
}

func TestSessionsEnd(t *testing.T) {
	r := newRawWith(t, ovirtsim.Options{TokenLifetime: time.Minute})
	if status, _ := r.do("GET", "/api", ""); status != 200 {
		t.Fatalf("a new session: %d", status)
	}

	r.clock.Advance(time.Minute)
	if status, _ := r.do("GET", "/api", ""); status != 200 {
		t.Errorf("a session at the end of its life: %d", status)
	}

	r.clock.Advance(time.Minute + 1)
	if status, _ := r.do("GET", "/api", ""); status != 401 {
		t.Errorf("an expired session: %d", status)
	}

	r.login()
	response, err := r.http.Post(r.sim.URL()+"/services/sso-logout", "application/x-www-form-urlencoded",
		strings.NewReader("token="+r.token))
	if err != nil {
		t.Fatal(err)
	}

	_ = response.Body.Close()
	if status, _ := r.do("GET", "/api", ""); status != 401 {
		t.Errorf("a session that was logged out: %d", status)
	}
}

func TestWrongPasswordsLockTheUser(t *testing.T) {
	r := newRawWith(t, ovirtsim.Options{Password: "right"})

	login := func(password string) (int, string) {
		return r.askToken("admin%40internal", password)
	}
	for range 5 {
		if status, body := login("wrong"); status != 400 || !strings.Contains(body, "access_denied") {
			t.Errorf("a wrong password: %d %s", status, body)
		}
	}

	if status, body := login("right"); status != 400 || !strings.Contains(body, "locked") {
		t.Errorf("the right password after five wrong ones: %d %s", status, body)
	}

	if err := r.sim.UnlockUser("admin@internal"); err != nil {
		t.Fatal(err)
	}

	if status, _ := login("right"); status != 200 {
		t.Errorf("after unlocking: %d", status)
	}
}
