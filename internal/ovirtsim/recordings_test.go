package ovirtsim_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
)

// recordings holds the requests to an oVirt engine 4.5.8 and its responses, one transcript per scenario. The file
// docs/develop/simulator.md describes the format, and the environment of the recorded engine.
const recordings = "testdata/recordings-4.5.8.tar.gz"

// dataBodies are the request bodies for the data endpoint, for steps whose transcript shows only a length. All other
// such bodies contained only zeroes.
var dataBodies = map[string]string{
	"PATCH zero":     `{"op": "zero", "offset": 0, "size": 1048576, "flush": true}`,
	"PATCH flush":    `{"op": "flush"}`,
	"PATCH nonsense": `{"op": "nonsense"}`,
}

// allowed lists the steps for which the simulator responds differently, by scenario and label, with the reason.
var allowed = map[string]string{
	"bad-bodies/XML with a DTD": "the simulator refuses document " +
		"types, which the engine passes over",
	"bad-bodies/XML with an external entity": "the simulator refuses document " +
		"types, which the engine passes over",
	"bad-bodies/JSON with the element around it": "the engine answers with the " +
		"text of a Java exception",
	"bad-bodies/value <time_zone><name>Nowhere/Nothing</name></time_zone>": removedBetween,
	"bad-bodies/an element twice":                                          removedBetween,
	"bad-bodies/id, href, status in a create":                              removedBetween,
	"lists/GET /templates?max=nonsense": "the engine reads max for other " +
		"collections only; the simulator for all",
	"templates/remove in use":                  namesTheVM,
	"templates/remove the base with a version": namesTheVM,
	"templates/remove the base":                namesTheVM,
	"vm-run/migrate":                           noOtherHost,
	"vm-run/migrate again at once":             noOtherHost,
	"bad-bodies/another root element":          "the engine adds the address of a Java object",
	"pki-services/pki-resource?resource=ca-certificate&format=OPENSSH-PUBKEY":     "the keys of the simulator are ECDSA, not RSA",
	"pki-services/pki-resource?resource=engine-certificate&format=OPENSSH-PUBKEY": "the keys of the simulator are ECDSA, not RSA",
	"vm-names/name rec-&#10;line": "the engine repeats the value, over two lines",
}

const (
	noOtherHost    = "the other host of the recorded engine took no VM; here it does"
	removedBetween = "the recorder removed the VM of the step before, which the transcript does not tell"
	namesTheVM     = "the engine names VMs of a version too, several times, and for a while after they are gone"
)

// usuallySame is the minimum percentage of values in documents that equal the recording. The map leastSame has lower
// limits for scenarios with objects that are not fully simulated. These limits should rise.
const usuallySame = 90

var leastSame = map[string]int{
	"bad-bodies":       60,
	"next-run-devices": 85, // the recorded engine's guest reported its system
}

// alwaysSame lists the essential values of a scenario by their paths.
var alwaysSame = map[string][]string{"next-run-devices": {
	"/vm/console/enabled", "/vm/soundcard_enabled", "/vm/memory_policy/ballooning",
	"/vm/next_run_configuration_exists", "/vm/initialization/configuration/data",
}}

// exchange is one step of a transcript.
type exchange struct {
	label        string
	method, path string
	header       map[string]string
	body         string
	// loose reports that the response depended on timing. polled reports that the recorder repeated the request until
	// this response.
	loose, polled bool
	// last is the value for which the recorder repeated the request; "" if it waited for a status.
	last string
	// anonymous reports a request without a login. statusOnly reports that the test does not compare the body.
	anonymous, statusOnly bool
	// withDisk reports that the recorder gave the VM a disk. The transcript does not contain this request.
	withDisk bool
	// bytes is the length of a body that the transcript does not contain.
	bytes  int
	status string
	// headers are the headers of the response by their canonical names.
	headers map[string]string
	answer  string
}

// TestRecordedAnswers replays every scenario with a new simulator, and compares status codes and refusals.
func TestRecordedAnswers(t *testing.T) {
	t.Parallel()

	for name, steps := range readRecordings(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlayer(t)
			if strings.HasPrefix(name, "sso-") {
				p.known["profile"] = "internal" // the profile of users; in other documents, a vNIC profile
			}

			for _, step := range steps {
				p.play(name, step)
			}

			if p.sent < p.asked*9/10 {
				t.Errorf("only %d of %d steps could be sent", p.sent, p.asked)
			}

			percent := 100 * p.same / max(p.values, 1)
			if p.values > 0 && percent < cmp.Or(leastSame[name], usuallySame) {
				t.Errorf("%d of %d values are as recorded, %d %%; -v tells the others", p.same, p.values, percent)
			}

			for _, path := range alwaysSame[name] {
				if len(p.missing[path]) > 0 {
					t.Errorf("%s: not as recorded: %q", path, p.missing[path])
				}
			}

			for _, path := range slices.Sorted(maps.Keys(p.missing)) {
				t.Logf("%s: %d are not as recorded, such as %q", path, len(p.missing[path]), p.missing[path][0])
			}
		})
	}
}

// player replays the steps of one scenario. It learns the values of placeholders from responses.
type player struct {
	*testing.T
	raw   *raw
	known map[string]string
	// sent counts the replayed steps, and asked counts the recorded ones.
	sent, asked int
	// values counts the values in documents, and same counts those that equal the recording. missing lists the paths of
	// the others.
	same, values int
	missing      map[string][]string
}

func newPlayer(t *testing.T) *player {
	t.Helper()
	inventory, err := ovirtsim.LoadInventory("testdata/recorded-engine.yaml")
	if err != nil {
		t.Fatal(err)
	}

	// The user names are those in the transcripts.
	r := newRawWith(t, ovirtsim.Options{
		Inventory: inventory,
		Timings:   ovirtsim.DefaultTimings().Faster(4),
		Password:  "admin123",
	})
	r.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

	p := &player{
		T:       t,
		raw:     r,
		missing: map[string][]string{},
		known: map[string]string{
			"blank":         "00000000-0000-0000-0000-000000000000",
			"unknown":       "11111111-2222-3333-4444-555555555555",
			"url":           r.sim.URL(),
			"cluster.name":  "Default",
			"template.name": "k8s",
			"dc.name":       "Default",
			"network.name":  "ovirtmgmt",
			"host1.name":    "fake1",
			"host2.name":    "fake2",
			"user":          r.sim.Username(), "password": r.sim.Password(), "name": "admin"},
	}
	for variable, object := range map[string][3]string{
		"cluster":     {"clusters", "cluster", "Default"},
		"cluster2":    {"clusters", "cluster", "second"},
		"far.cluster": {"clusters", "cluster", "far"},
		"root":        {"tags", "tag", "root"},
		"dc":          {"datacenters", "data_center", "Default"},
		"network":     {"networks", "network", "ovirtmgmt"},
		"profile":     {"vnicprofiles", "vnic_profile", "ovirtmgmt"},
		"host1":       {"hosts", "host", "fake1"},
		"host2":       {"hosts", "host", "fake2"},
		"domain1":     {"storagedomains", "storage_domain", "data1"},
		"domain2":     {"storagedomains", "storage_domain", "data2"},
		"template":    {"templates", "template", "k8s"}, "instancetype": {"instancetypes", "instance_type", "Small"},
	} {
		p.known[variable] = r.id(object[0], object[1], object[2])
	}

	p.known["template.disk"] = r.ok("GET", "/api/templates/"+p.known["template"]+"/diskattachments", "").
		at("disk_attachment", 0, "id")

	// These are the template's storage domain and the other one.
	p.known["home"], p.known["other"] = p.known["domain1"], p.known["domain2"]

	// A scenario checks the end of these sessions.
	for _, session := range []string{"dead", "revoked", "unused", "kept"} {
		p.known[session] = r.session(r.sim.Username(), r.sim.Password())
	}

	p.known["second"] = r.session("reader@second", "user123")

	return p
}

// session logs in a user and returns the token.
func (r *raw) session(user, password string) string {
	r.t.Helper()
	_, answer := r.askToken(user, password)
	var granted struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(answer), &granted); err != nil || granted.Token == "" {
		r.t.Fatalf("no session of %s: %s", user, answer)
	}

	return granted.Token
}

// passing are refusals that end after a while.
var passing = []string{
	"VM is being updated",
	"Snapshot is currently being created",
	"Please wait for the operation to finish",
}

// play sends one request and compares the response. It repeats the request if the recorder waited.
func (p *player) play(scenario string, step *exchange) {
	p.Helper()
	if step.status == "" {
		return // the recorder sent no request, or several requests at once
	}

	p.asked++
	path, complete := p.filled(step.path)
	body, also := p.filled(strings.TrimSuffix(step.body, "\n"))
	if !complete || !also {
		p.Logf("%s cannot be sent: %s", step.label, path)
		return // no response has shown the value of a placeholder
	}

	p.sent++

	switch content, named := dataBodies[step.label]; {
	case named:
		body = content
	case step.bytes > 0:
		body = strings.Repeat("\x00", step.bytes)
	}

	var status string
	var header http.Header

	var answer []byte
	for end := p.raw.clock.Now().Add(8 * time.Second); ; p.raw.clock.Advance(20 * time.Millisecond) {
		status, header, answer = p.ask(step, path, body)
		done := status == step.status && stateOf(answer) == stateOf([]byte(step.answer)) &&
			strings.Contains(string(answer), step.last)

		// The recorder sent its requests less often than this test.
		early := slices.ContainsFunc(passing, func(text string) bool {
			return strings.Contains(string(answer), text) && !strings.Contains(step.answer, text)
		})
		wait := early || step.polled && !done
		if !wait || p.raw.clock.Now().After(end) {
			break
		}
	}

	p.learn([]byte(step.answer), answer, step.method == http.MethodPost)
	p.learnAside(step, header, answer)
	if step.withDisk {
		p.giveDisk(answer)
	}

	if step.loose {
		return
	}

	problem := ""
	want, have := faultOf([]byte(step.answer)), faultOf(answer)
	if step.statusOnly {
		want, have = nil, nil
	} else {
		p.compare([]byte(step.answer), answer)
	}

	if want != nil {
		want.Reason, _ = p.filled(want.Reason)
		want.Detail, _ = p.filled(want.Detail)
	}

	switch {
	case status != step.status:
		problem = fmt.Sprintf("status %s, want %s", status, step.status)
	case (want == nil) != (have == nil) || want != nil && *want != *have:
		problem = fmt.Sprintf("fault %+v, want %+v", have, want)
	case !step.statusOnly:
		problem = cmp.Or(p.headerProblem(step, header), p.textProblem(step, string(answer)))
	}

	_, known := allowed[scenario+"/"+step.label]
	switch {
	case problem != "" && !known:
		p.Errorf("%s: %s %s: %s: %s", step.label, step.method, path, problem, answer)
	case problem == "" && known:
		p.Errorf("%s is as recorded; take it from the allowed ones", step.label)
	}
}

// ask sends the request of a step.
func (p *player) ask(step *exchange, path, body string) (status string, header http.Header, answer []byte) {
	p.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}

	target := p.raw.sim.URL() + path
	if strings.HasPrefix(path, "https://") { // a URL of the data endpoint
		target = path
	}

	request, err := http.NewRequestWithContext(p.Context(), step.method, target, reader)
	if err != nil {
		p.Fatal(err)
	}

	if !step.anonymous && strings.HasPrefix(path, "/api") {
		request.Header.Set("Authorization", "Bearer "+p.raw.token)
	}

	for name, value := range step.header {
		value, _ = p.filled(value)
		request.Header.Set(name, value)
	}

	response, err := p.raw.http.Do(request)
	if err != nil {
		p.Fatal(err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		p.Fatal(err)
	}

	return fmt.Sprint(response.StatusCode), response.Header, answer
}

// learnAside records values outside documents: the cookie of a session, and the URL of a transfer's data.
func (p *player) learnAside(step *exchange, header http.Header, answer []byte) {
	found := regexp.MustCompile(`JSESSIONID=([^;]+)`).FindStringSubmatch(header.Get("Set-Cookie"))
	if found != nil && step.status == "200" {
		p.known["cookie"] = found[1]
	}

	if found := regexp.MustCompile(`<transfer_url>([^<]+)</transfer_url>`).FindSubmatch(answer); found != nil {
		p.known["transfer.url"] = string(found[1])
	}
}

// compared are the headers that matter to clients.
var compared = []string{"Content-Type", "Allow", "Location", "Www-Authenticate", "Correlation-Id", "Content-Range"}

// headerProblem compares the headers of a response with the recorded ones. For headers that are unique to a response,
// it only checks that they exist.
func (p *player) headerProblem(step *exchange, have http.Header) string {
	for _, name := range compared {
		want, recorded := step.headers[name]
		if recorded != (have.Get(name) != "") || recorded && !p.like(want, have.Get(name)) {
			return fmt.Sprintf("header %s: %q, want %q", name, have.Get(name), want)
		}
	}

	return ""
}

// textProblem compares responses that are neither API documents nor HTML pages.
func (p *player) textProblem(step *exchange, have string) string {
	want := strings.TrimSpace(step.answer)
	switch { // the look of pages is not copied, and documents are compared by their values
	case strings.HasPrefix(want, "<!DOCTYPE"), strings.HasPrefix(want, "<html><head><title>ERROR</title>"):
		return ""
	case strings.HasPrefix(want, "<") && !strings.HasPrefix(want, "<html"):
		return ""
	}

	var wanted, had map[string]any
	if json.Unmarshal([]byte(want), &wanted) == nil && json.Unmarshal([]byte(have), &had) == nil {
		for name, value := range wanted {
			if text, isText := value.(string); isText && !p.like(text, fmt.Sprint(had[name])) {
				return fmt.Sprintf("%s is %v, want %v", name, had[name], value)
			}
		}

		return ""
	}

	if want != "${binary}" && !p.like(want, strings.TrimSpace(have)) {
		return fmt.Sprintf("the text is %q, want %q", have, want)
	}

	return ""
}

// like reports whether a text equals the recording. Unknown placeholders match anything.
func (p *player) like(recorded, have string) bool {
	filled, complete := p.filled(recorded)
	if complete && filled == have {
		return true
	}

	pattern := regexp.QuoteMeta(filled)
	for _, found := range regexp.MustCompile(`\\\$\\\{[^}]*\}`).FindAllString(pattern, -1) {
		pattern = strings.Replace(pattern, found, `[\s\S]*`, 1)
	}

	return regexp.MustCompile(`^` + pattern + `$`).MatchString(have)
}

var placeholder = regexp.MustCompile(`\$\{([a-zA-Z][a-zA-Z0-9.]*)\}`)

// filled replaces placeholders by their values. complete reports that all values are known. The engine's texts of
// refusals contain similar placeholders; these stay.
func (p *player) filled(text string) (out string, complete bool) {
	complete = true
	out = placeholder.ReplaceAllStringFunc(text, func(found string) string {
		value, known := p.known[found[2:len(found)-1]]
		if !known {
			complete = false
			return found
		}

		return value
	})

	return out, complete
}

// learn records the values of new placeholders from a response. A created object has a new ID, even if the placeholder
// already stands for another object.
func (p *player) learn(recorded, answer []byte, created bool) {
	var want, have node
	if xml.Unmarshal(recorded, &want) != nil || xml.Unmarshal(answer, &have) != nil {
		return
	}

	if created {
		for _, attr := range want.Attrs {
			if found := placeholder.FindStringSubmatch(attr.Value); attr.Name.Local == "id" && found != nil {
				maps.DeleteFunc(p.known, func(name, _ string) bool {
					return name == found[1] ||
						strings.HasPrefix(name, found[1]+".")
				})
			}
		}
	}

	p.match(&want, &have)
}

// node is an element of an XML or JSON document.
type node struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Text    string     `xml:",chardata"`
	Kids    []node     `xml:",any"`
}

func (p *player) match(want, have *node) {
	for _, attr := range want.Attrs {
		at := slices.IndexFunc(have.Attrs, func(a xml.Attr) bool { return a.Name == attr.Name })
		found := placeholder.FindStringSubmatch(attr.Value)
		if at >= 0 && found != nil && found[0] == attr.Value && p.known[found[1]] == "" {
			p.known[found[1]] = have.Attrs[at].Value
		}
	}

	seen := map[string]int{}

	for i := range want.Kids {
		name := want.Kids[i].XMLName.Local
		nth := 0

		for j := range have.Kids {
			if have.Kids[j].XMLName.Local != name {
				continue
			}

			if nth == seen[name] {
				p.match(&want.Kids[i], &have.Kids[j])
				break
			}

			nth++
		}

		seen[name]++
	}
}

// compare counts the values in a recorded document, and the equal values in the response. It ignores links, because
// they describe the API instead of the objects.
func (p *player) compare(recorded, answer []byte) {
	var want, have node
	if xml.Unmarshal(recorded, &want) != nil {
		return
	}

	there := map[string]int{}
	if xml.Unmarshal(answer, &have) == nil {
		have.walk("", func(path, value string) { there[path+"="+value]++ })
	}

	want.walk("", func(path, value string) {
		filled, known := p.filled(value)
		if !known || strings.Contains(filled, "${uuid:") || strings.Contains(filled, "${mac:") {
			return // the value changes often, or the engine generates it
		}

		p.values++
		if key := path + "=" + filled; there[key] > 0 {
			there[key]--
			p.same++
			return
		}

		p.missing[path] = append(p.missing[path], filled)
	})
}

// walk visits the texts and IDs of a document.
func (n *node) walk(path string, visit func(path, value string)) {
	name := n.XMLName.Local
	if name == "link" || name == "actions" {
		return
	}

	path += "/" + name
	for _, attr := range n.Attrs {
		visit(path+"@"+attr.Name.Local, attr.Value)
	}

	switch {
	case name == "data" && strings.HasSuffix(path, "/configuration/data"):
		visit(path, waitingDevices(n.Text))
	case len(n.Kids) == 0:
		visit(path, strings.TrimSpace(n.Text))
	}

	for i := range n.Kids {
		n.Kids[i].walk(path, visit)
	}
}

// waitingDevices returns the relevant parts of an OVF: the configuration for the next start, the sound card and the
// console. The test does not compare the rest of an OVF.
func waitingDevices(text string) string {
	var envelope struct {
		Items []struct {
			Type string `xml:"Type"`
		} `xml:"Content>Section>Item"`
		Snapshots []struct {
			Type          string `xml:"Type"`
			Configuration []byte `xml:"VmConfiguration"`
		} `xml:"Content>Section>Snapshot"`
	}
	if err := xml.Unmarshal([]byte(text), &envelope); err != nil {
		return "no OVF"
	}

	var has []string

	for _, item := range envelope.Items {
		if item.Type == "sound" || item.Type == "console" {
			has = append(has, item.Type)
		}
	}

	slices.Sort(has)

	for _, saved := range envelope.Snapshots {
		if saved.Type == "NEXT_RUN" {
			next, _ := base64.StdEncoding.DecodeString(string(saved.Configuration))
			has = append(has, "then "+waitingDevices(string(next)))
		}
	}

	return fmt.Sprint(has)
}

// giveDisk creates a disk for the VM in a response, and waits until it exists.
func (p *player) giveDisk(answer []byte) {
	p.Helper()
	var vm struct {
		ID string `xml:"id,attr"`
	}
	if err := xml.Unmarshal(answer, &vm); err != nil {
		p.Fatal(err)
	}

	made := p.raw.ok(
		"POST",
		"/api/vms/"+vm.ID+"/diskattachments",
		`{"interface":"virtio_scsi","bootable":"true","active":"true","disk":{"alias":"rec-disk",`+
			`"format":"cow","provisioned_size":"1073741824","storage_domains":{"storage_domain":[{"id":"`+
			p.known["domain1"]+`"}]}}}`,
	)
	p.raw.until("/api/disks/"+made.at("id"), "status", "ok")
}

// fault is a refusal of the engine.
type fault struct {
	XMLName xml.Name
	Reason  string `xml:"reason"`
	Detail  string `xml:"detail"`
}

// faultOf returns the refusal in a document, bare or inside an action. It returns nil if there is none.
func faultOf(document []byte) *fault {
	var action struct {
		XMLName xml.Name
		Fault   *fault `xml:"fault"`
		Reason  string `xml:"reason"`
		Detail  string `xml:"detail"`
	}
	if xml.Unmarshal(document, &action) != nil {
		return nil
	}

	switch {
	case action.XMLName.Local == "fault":
		return &fault{Reason: action.Reason, Detail: action.Detail}
	case action.Fault != nil:
		return &fault{Reason: action.Fault.Reason, Detail: action.Fault.Detail}
	}

	return nil
}

// stateOf returns the status of an object, or the phase of a transfer.
func stateOf(document []byte) string {
	var object struct {
		Status string `xml:"status"`
		Phase  string `xml:"phase"`
	}
	if xml.Unmarshal(document, &object) != nil {
		return ""
	}

	return object.Status + object.Phase
}

// readRecordings reads the steps of all scenarios.
func readRecordings(t *testing.T) map[string][]*exchange {
	t.Helper()
	file, err := os.Open(recordings)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}

	out := map[string][]*exchange{}

	for archive := tar.NewReader(packed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}

		if err != nil {
			t.Fatal(err)
		}

		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}

		out[strings.TrimSuffix(header.Name, ".http")] = readSteps(t, content)
	}
}

// readSteps reads one transcript.
func readSteps(t *testing.T, content []byte) []*exchange {
	t.Helper()
	var steps []*exchange
	var step *exchange
	var inBody, inAnswer bool
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, 1<<20)

	for lines.Scan() {
		line := lines.Text()

		marker, rest, _ := strings.Cut(line, " ")
		switch {
		case marker == "==":
			_, label, _ := strings.Cut(rest, " ")
			step = &exchange{label: label, header: map[string]string{}, headers: map[string]string{}}
			inBody = false
			inAnswer = false
			steps = append(steps, step)
		case step == nil || line == "":
		case marker == "#":
			step.loose = step.loose || strings.HasPrefix(rest, "loose")
			if seen, polled := strings.CutPrefix(rest, "seen: "); polled {
				step.polled = true
				values := strings.Split(seen, ", ")
				last := values[len(values)-1]
				if len(values) > 1 && regexp.MustCompile(`^[0-9]{4,}$`).MatchString(last) {
					step.last = ">" + last + "<"
				}
			}

			step.anonymous = step.anonymous || rest == "without Authorization"
			step.statusOnly = step.statusOnly || rest == "status only"
			step.withDisk = step.withDisk || rest == "with a disk"
			if length, found := strings.CutSuffix(rest, " bytes"); found {
				step.bytes, _ = strconv.Atoi(length)
			}
		case marker == ">" && step.method == "":
			step.method, step.path, _ = strings.Cut(rest, " ")
		case line == ">":
			inBody = true
		case marker == ">" && inBody:
			step.body += rest + "\n"
		case marker == ">":
			name, value, _ := strings.Cut(rest, ": ")
			step.header[name] = value
		case line == "<":
			inAnswer = true
		case marker == "<" && inAnswer:
			step.answer += rest + "\n"
		case marker == "<" && step.status == "" && regexp.MustCompile(`^[0-9]+$`).MatchString(rest):
			step.status = rest
		case marker == "<" && step.status != "":
			name, value, _ := strings.Cut(rest, ": ")
			step.headers[name] = value
		}
	}

	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}

	return steps
}
