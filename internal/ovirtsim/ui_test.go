package ovirtsim_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/browser"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// nodes is a guest that becomes a node depending on the VM's name. It needs no user data.
type nodes struct {
	mu    sync.Mutex
	node  map[string]ovirtsim.GuestNode
	boots int
}

func (n *nodes) Boot(ctx context.Context, machine ovirtsim.GuestVM, ready func(ovirtsim.AgentReport)) error {
	n.mu.Lock()
	n.boots++

	var reported []ovirtsim.ReportedInterface
	for i, device := range machine.Interfaces {
		reported = append(reported, ovirtsim.ReportedInterface{
			Name:      device.Name,
			MAC:       device.MAC,
			Addresses: []string{fmt.Sprintf("192.0.2.%d", 9+n.boots%90+100*i)},
		})
	}

	broken := strings.HasPrefix(machine.Name, "broken")
	if !broken && !strings.HasPrefix(machine.Name, "plain") {
		n.node[machine.ID] = ovirtsim.GuestNode{
			Name:         machine.Name,
			Endpoint:     "127.20.30.10:6443",
			ControlPlane: strings.Contains(machine.Name, "control-plane"),
			Ready:        "True",
		}
	}

	n.mu.Unlock()
	if broken {
		return errors.New("kubeadm join: the CA of the cluster does not have the pinned hash")
	}

	ready(ovirtsim.AgentReport{Interfaces: reported})
	<-ctx.Done()

	return nil
}

func (n *nodes) Node(id string) (ovirtsim.GuestNode, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	node, ok := n.node[id]

	return node, ok
}

func (n *nodes) SetNodeReady(id, status, _ string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	node := n.node[id]
	node.Ready = status
	n.node[id] = node

	return nil
}

func (n *nodes) Shutdown(string) bool     { return false }
func (n *nodes) HandleHalt(id string)     { _ = n.SetNodeReady(id, "Unknown", "") }
func (n *nodes) HandleRemoval(string)     {}
func (n *nodes) HandleDiskRemoval(string) {}

func (n *nodes) SetDisks(string, []ovirtsim.GuestDisk) {}
func (n *nodes) Close()                                {}

// hostile is a text that has an effect if the page interprets it as HTML.
const hostile = `<img src=x onerror="document.title='hit'">`

// lookedAt returns a site with every kind of object that the page shows.
func lookedAt(t *testing.T, change func(*ovirtsim.Options)) *ovirtsim.Server {
	t.Helper()
	inventory := ovirtsim.DefaultInventory()
	dc := &inventory.DataCenters[0]
	dc.Templates[0].NICs = []ovirtsim.TemplateNIC{{Name: "nic1", Network: "kvm-vlan"}}

	dc.Clusters[0].AffinityGroups = []ovirtsim.AffinityGroup{
		{
			Name:      "demo-control-plane",
			VMs:       []string{"demo-control-plane-7wdhp", "demo-control-plane-x2v9c", "demo-control-plane-zk4mt"},
			Enforcing: true,
		},
		{Name: "demo-md-0", VMs: []string{"demo-md-0-6hbv6-crh7l", "demo-md-0-6hbv6-rchvr"}},
	}
	for _, name := range []string{
		"demo-control-plane-7wdhp", "demo-control-plane-x2v9c", "demo-control-plane-zk4mt", "demo-md-0-6hbv6-crh7l",
		"demo-md-0-6hbv6-rchvr",
		"broken-md-1-p8s4l", "plain-registry", "stuck-md-0-9qj2d", "old-bastion",
	} {
		dc.VMs = append(dc.VMs, ovirtsim.VM{
			Name:     name,
			Cluster:  "Default",
			Template: "ol9-k8s",
			Up:       name != "old-bastion" && name != "stuck-md-0-9qj2d",
			Tags:     []string{"demo"},
			Comment:  "made by a test",
		})
	}

	dc.VMs[8].Comment = hostile
	options := ovirtsim.Options{
		UI: "127.0.0.1:0", Inventory: inventory, Guest: &nodes{node: map[string]ovirtsim.GuestNode{}},
		Timings: ovirtsim.Timings{
			Clone:     20 * time.Millisecond,
			Launch:    20 * time.Millisecond,
			PowerUp:   20 * time.Millisecond,
			PowerDown: 20 * time.Millisecond,
			Fence:     time.Minute,
		},
		Faults: []ovirtsim.Fault{
			{Method: "POST", Path: "/api/tags$", Nth: 2, Count: 1, Action: "cut-after", DelayMillis: 5},
			{Method: "GET", Path: "/api/vms/[^/]+$", Status: 503, Count: 1},
			{Guest: "never-boots", VM: "^stuck-"},
		},
	}
	if change != nil {
		change(&options)
	}

	sim, err := ovirtsim.New(options)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(sim.Close)

	return sim
}

func clientOf(t *testing.T, sim *ovirtsim.Server) *engine.Client {
	t.Helper()
	session, err := engine.New(engine.Config{
		URL:      sim.URL(),
		Username: sim.Username(),
		Password: sim.Password(),
		CA:       sim.CA(),
	})
	if err != nil {
		t.Fatal(err)
	}

	return session
}

// makeVM creates a VM through the engine's API.
func makeVM(t *testing.T, sim *ovirtsim.Server, name string) *engine.VM {
	t.Helper()
	session := clientOf(t, sim)
	dc, err := session.FindDataCenter(t.Context(), "Default")
	if err != nil {
		t.Fatal(err)
	}

	template, err := session.FindTemplate(t.Context(), dc, "ol9-k8s")
	if err != nil {
		t.Fatal(err)
	}

	cluster, err := session.FindCluster(t.Context(), dc, "Default")
	if err != nil {
		t.Fatal(err)
	}

	vm, err := session.CreateVM(t.Context(), &engine.VM{
		Name:     name,
		Cluster:  engine.NewRef(cluster.ID),
		Template: engine.NewRef(template.ID),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}

	return vm
}

func idOf(t *testing.T, sim *ovirtsim.Server, name string) string {
	t.Helper()

	for _, vm := range sim.ListVMs() {
		if vm.Name == name {
			return vm.ID
		}
	}

	t.Fatalf("there is no VM %s", name)

	return ""
}

func fetch(t *testing.T, method, url, host string) (int, http.Header, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}

	if host != "" {
		request.Host = host
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}

	return response.StatusCode, response.Header, string(content)
}

func TestThePageIsServedOnLoopbackOnly(t *testing.T) {
	for address, want := range map[string]string{
		"0.0.0.0:0":     "only on loopback",
		":0":            "only on loopback",
		"192.0.2.1:80":  "only on loopback",
		"example.com:1": "only on loopback",
		"127.0.0.1":     "HOST:PORT",
	} {
		sim, err := ovirtsim.New(ovirtsim.Options{UI: address})
		if err == nil {
			sim.Close()
		}

		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", address, err, want)
		}
	}

	without, err := ovirtsim.New(ovirtsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer without.Close()
	if without.UIURL() != "" {
		t.Errorf("nobody asked for a page, and it is on %s", without.UIURL())
	}
}

func TestThePageKeepsOtherSitesOut(t *testing.T) {
	url := lookedAt(t, nil).UIURL()

	for host, want := range map[string]int{
		"":                    200,
		"localhost:80":        200,
		"[::1]:80":            200,
		"127.0.0.1":           200,
		"rebound.example.com": 403,
		"192.0.2.1:80":        403,
	} {
		for _, path := range []string{"", "state"} {
			if status, _, _ := fetch(t, "GET", url+path, host); status != want {
				t.Errorf("/%s as host %q: got %d, want %d", path, host, status, want)
			}
		}
	}

	_, header, _ := fetch(t, "GET", url, "")

	policy := header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'",
		"form-action 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy %q lacks %s", policy, want)
		}
	}

	if header.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.HasPrefix(header.Get("Content-Type"), "text/html") {
		t.Errorf("headers: %v", header)
	}

	for _, part := range []string{"", "page/site.css", "page/site.js", "base/base.css", "base/base.js"} {
		status, _, content := fetch(t, "GET", url+part, "")
		if status != http.StatusOK || content == "" {
			t.Errorf("/%s: got %d with %d bytes", part, status, len(content))
		}

		check.Length(t, "/"+part, browser.FindUnsafe(content), 0)
	}
}

func TestThePageOnlyReads(t *testing.T) {
	sim := lookedAt(t, nil)

	for _, path := range []string{"", "state", "events"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
			if status, _, _ := fetch(t, method, sim.UIURL()+path, ""); status != http.StatusMethodNotAllowed {
				t.Errorf("%s /%s: got %d", method, path, status)
			}
		}
	}

	for _, path := range []string{"ovirtsim/faults", "ovirt-engine/api", "page/index.html"} {
		if status, _, _ := fetch(t, "GET", sim.UIURL()+path, ""); status != http.StatusNotFound {
			t.Errorf("/%s: got %d", path, status)
		}
	}

	_, header, content := fetch(t, "GET", sim.UIURL()+"state", "")
	var state ovirtsim.State
	if err := json.Unmarshal([]byte(content), &state); err != nil {
		t.Fatal(err)
	}

	check.Equal(t, `header.Get("Content-Type")`, header.Get("Content-Type"), "application/json")
	check.Length(t, "state.VMs", state.VMs, 9)
	check.Length(t, "state.DataCenters[0].Clusters[0].Hosts", state.DataCenters[0].Clusters[0].Hosts, 3)

	if strings.Contains(content, sim.Password()) {
		t.Error("the state holds the password")
	}
}

// streamed reads the event stream and returns its events.
func streamed(t *testing.T, sim *ovirtsim.Server) <-chan string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "GET", sim.UIURL()+"events", nil)
	if err != nil {
		t.Fatal(err)
	}

	events := make(chan string, 100)
	go func() {
		defer close(events)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Errorf("the stream: %v", err)
			return
		}
		defer response.Body.Close()
		if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("the stream is %s", got)
		}

		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<24)

		for lines.Scan() {
			if line := lines.Text(); strings.HasPrefix(line, "data: {") || strings.HasPrefix(line, "event:") {
				events <- lines.Text()
			}
		}
	}()

	return events
}

func TestTheStreamTellsChangesAndEndsWithTheEngine(t *testing.T) {
	sim := lookedAt(t, nil)
	events := streamed(t, sim)
	if first := <-events; !strings.HasPrefix(first, "data: {") || strings.Contains(first, "newcomer") {
		t.Fatalf("the first event is %.100s", first)
	}

	makeVM(t, sim, "newcomer")

	next := func(what string) string {
		t.Helper()
		return wait.Receive(t, what, events) // "" at the end of the stream
	}
	told := next("the stream goes on")

	for told != "" && !strings.Contains(told, `"newcomer"`) {
		told = next("the VM is on the stream")
	}

	if told == "" {
		t.Fatal("the stream ended before it had the VM")
	}

	sim.Close()

	for told != "" {
		told = next("the stream ends with the engine")
	}
}

func TestTheStreamRepeatsNothingThatIsKnown(t *testing.T) {
	sim, err := ovirtsim.New(ovirtsim.Options{UI: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	events := streamed(t, sim)
	if first := <-events; !strings.HasPrefix(first, "data: {") {
		t.Fatalf("the first event is %.100s", first)
	}

	if second := <-events; second != "event: same" {
		t.Errorf("nothing happened, and the stream says %.100s", second)
	}
}

// openPage opens the page of a site, and waits for its hosts.
func openPage(t *testing.T, url string, width, height int64) *browser.View {
	t.Helper()
	v := browser.OpenPage(t, url, width, height)
	v.WaitUntil(`document.querySelectorAll('.host').length > 0`)

	return v
}

// card returns a JavaScript expression for the card of a VM.
func card(id string) string { return fmt.Sprintf("document.getElementById('vm-%s')", id) }

func TestThePageShowsTheSiteAndFollowsItWithoutReload(t *testing.T) {
	ports, err := localplane.FreePorts(1) // the port stays reserved while the engine restarts
	check.Error(t, err, "")
	page := func(options *ovirtsim.Options) { options.UI = fmt.Sprintf("127.0.0.1:%d", ports[0]) }
	sim := lookedAt(t, page)
	v := openPage(t, sim.UIURL(), 1400, 900)
	worker := idOf(t, sim, "demo-md-0-6hbv6-crh7l")
	bastion := idOf(t, sim, "old-bastion")
	broken := idOf(t, sim, "broken-md-1-p8s4l")
	browser.Eval[int](v, `window.loads = 1`) // a reload loses this value

	v.WaitUntil(
		`document.querySelectorAll('details.vm').length === 9 && document.querySelectorAll('.host:not(.nowhere)').length === 3`,
	)
	v.WaitUntil(card(worker) + `.innerText.includes('Ready') && ` + card(worker) + `.innerText.includes('192.0.2.')`)
	v.WaitUntil(card(idOf(t, sim, "demo-control-plane-7wdhp")) + `.innerText.includes('control plane')`)
	v.WaitUntil(
		card(
			broken,
		) + `.innerText.includes('pinned hash') && document.querySelector('#trouble').innerText.includes('pinned hash')`,
	)
	v.WaitUntil(`document.querySelector('.host.nowhere').innerText.includes('old-bastion')`)
	v.WaitUntil(`document.querySelector('#endpoints').innerText.includes('127.20.30.10:6443')`)
	v.WaitUntil(`document.querySelector('#fault-list').innerText.includes('never boots')`)
	v.WaitUntil(
		`document.querySelector('#site').innerText.includes('keep apart, hard') && document.querySelector('#site').innerText.includes('olvm-data-2')`,
	)

	// The page shows texts from users as plain text.
	v.RunSteps(chromedp.Evaluate[chromedp.Void](card(bastion) + `.open = true; undefined`))
	v.WaitUntil(
		card(
			bastion,
		) + `.innerText.includes('onerror=') && document.querySelectorAll('img').length === 0 && document.title !== 'hit'`,
	)

	// A VM stops while the user views it. Its card moves, but stays open and focused, and the page does not reload.
	v.RunSteps(
		chromedp.Evaluate[chromedp.Void](
			fmt.Sprintf(
				`%[1]s.firstElementChild.focus(); %[1]s.open = true; window.card = %[1]s; undefined`,
				card(worker),
			),
		),
	)
	v.WaitUntil(card(worker) + `.innerText.includes('nic1 on kvm-vlan')`)
	if err := clientOf(t, sim).StopVM(t.Context(), engine.ID(worker), false); err != nil {
		t.Fatal(err)
	}

	v.WaitUntil(
		card(worker) + `.closest('.nowhere') && ` + card(worker) + `.querySelector('.badge').innerText === 'down'`,
	)
	v.WaitUntil(`document.querySelector('#request-rows').innerText.includes('/stop')`)
	if !browser.Eval[bool](
		v,
		fmt.Sprintf(
			`window.card === %[1]s && %[1]s.open && document.activeElement === %[1]s.firstElementChild && window.loads === 1`,
			card(worker),
		),
	) {
		t.Error("the card was made again, was closed, or lost the focus")
	}

	// The page keeps its scroll position when VMs appear.
	v.RunSteps(chromedp.Evaluate[chromedp.Void](`window.scrollTo(0, 300); undefined`))
	before := browser.Eval[float64](v, `scrollY`)
	newcomer := makeVM(t, sim, "newcomer")
	v.WaitUntil(card(newcomer.ID.String()) + `.querySelector('.badge').innerText === 'down'`)
	if after := browser.Eval[float64](v, `scrollY`); after != before {
		t.Errorf("the page scrolled from %g to %g", before, after)
	}

	// The page shows the inventories: a tag, the number of its claimed VMs, and their claimants.
	claim(t, sim, newcomer.ID)
	v.WaitUntil(
		`document.querySelector('#pools').innerText.includes('1 of 10 VMs claimed') && ` +
			`document.querySelector('#pools').innerText.includes('newcomer by default/web-0')`,
	)

	// The filter limits the shown VMs.
	v.RunSteps(chromedp.SendKeys(chromedp.CSS("#filter"), "demo-md kvm-vlan"))
	v.WaitUntil(
		`document.querySelector('#matches').innerText === '2 of 10 VMs' && document.querySelectorAll('details.vm').length === 2`,
	)
	v.RunSteps(
		chromedp.Evaluate[chromedp.Void](
			`document.querySelector('#filter').value = ''; document.querySelector('#filter').oninput(); undefined`,
		),
	)
	v.WaitUntil(`document.querySelectorAll('details.vm').length === 10`)

	// Problems appear at the top.
	if err := sim.SetNodeReady("demo-md-0-6hbv6-rchvr", "False", "Test"); err != nil {
		t.Fatal(err)
	}

	if err := sim.FailHost("host-3"); err != nil {
		t.Fatal(err)
	}

	v.WaitUntil(
		`document.querySelector('#trouble').innerText.includes('Host host-3 is non responsive') && document.querySelector('#trouble').innerText.includes('demo-md-0-6hbv6-rchvr is a node that is not Ready')`,
	)
	// The title shows the number of problems, and equal problems share a line.
	if err := sim.SetNodeReady("demo-control-plane-7wdhp", "False", "Test"); err != nil {
		t.Fatal(err)
	}

	v.WaitUntil(
		`document.querySelector('#trouble').innerText.includes('demo-control-plane-7wdhp, demo-md-0-6hbv6-rchvr are each a node that is not Ready')`,
	)
	v.WaitUntil(
		`document.title.startsWith('(' + document.querySelector('#trouble-title').innerText.match(/\d+/)[0] + ') ovirtsim')`,
	)

	if browser.Eval[bool](v, `document.body.classList.contains('compact')`) {
		t.Error("ten VMs are shown as lines")
	}

	if said := v.ListComplaints(); len(said) > 0 {
		t.Errorf("the console has %q", said)
	}

	// The engine ends, and another engine starts.
	sim.Close()
	v.WaitUntil(
		`document.querySelector('#connection').innerText.includes('Disconnected, retrying') && document.body.classList.contains('stale')`,
	)
	if !browser.Eval[bool](v, card(newcomer.ID.String())+` !== null`) {
		t.Error("what was known is gone")
	}

	lookedAt(t, page)
	v.WaitUntil(
		`document.querySelector('#connection').innerText === 'Live' && !document.body.classList.contains('stale') && document.querySelectorAll('details.vm').length === 9 && window.loads === 1`,
	)
}

// claim adds a VM to the inventory demo, with the claim of a machine.
func claim(t *testing.T, sim *ovirtsim.Server, id engine.ID) {
	t.Helper()
	ctx, session := t.Context(), clientOf(t, sim)
	pool, err := session.ListTagsNamed(ctx, "demo")
	check.Error(t, err, "")
	mark, err := session.CreateTag(ctx, &engine.Tag{Name: "capolvm-claim-" + id.String()})
	check.Error(t, err, "")
	check.Error(t, session.TagVM(ctx, id, pool[0].ID), "")
	check.Error(t, session.TagVM(ctx, id, mark.ID), "")

	comment := "capolvm owner=default/web-0 uid=5f0c"
	_, err = session.UpdateVM(ctx, id, &engine.VM{Comment: &comment})
	check.Error(t, err, "")
}

func TestThePageIsForPhonesKeyboardsAndWeakEyes(t *testing.T) {
	sim := lookedAt(t, nil)
	makeVM(t, sim, "a-name-that-is-as-long-as-the-engine-lets-any-name-be-x7-kpq7z9w")
	v := openPage(t, sim.UIURL(), 360, 740)
	v.WaitUntil(`document.querySelectorAll('details.vm').length === 10`)
	v.RunSteps(
		chromedp.Evaluate[chromedp.Void](`document.querySelectorAll('details').forEach(d => d.open = true); undefined`),
	)
	v.WaitUntil(`[...document.querySelectorAll('details.vm .body')].every(b => b.textContent.includes('CPUs'))`)

	v.CheckReadable()

	// The Tab key reaches all controls in document order, with a visible focus.
	v.RunSteps(chromedp.EmulateViewport(360, 740))
	const operable = browser.Operable
	total := browser.Eval[int](v, operable+`.length`)
	if total < 16 {
		t.Fatalf("only %d elements can be operated", total)
	}

	v.RunSteps(
		chromedp.Evaluate[chromedp.Void](
			`window.reached = []; document.addEventListener('focusin', e => reached.push(e.target)); undefined`,
		),
	)

	for range total {
		v.RunSteps(chromedp.KeyEvent(kb.Tab))
	}

	missed := browser.Eval[string](
		v,
		operable+`.filter((n, i) => reached[i] !== n).map(n => n.outerHTML.slice(0, 120)).join('\n')`,
	)
	if missed != "" {
		t.Errorf("Tab does not reach, or in another order:\n%s", missed)
	}

	if style := browser.Eval[string](v, `getComputedStyle(document.activeElement).outlineStyle`); style != "solid" {
		t.Errorf("the focus is not seen: outline %s", style)
	}

	// A key opens and closes a card.
	v.RunSteps(chromedp.Evaluate[chromedp.Void](`document.querySelector('details.vm summary').focus(); undefined`),
		chromedp.KeyEvent(kb.Enter))
	v.WaitUntil(`!document.querySelector('details.vm').open`)
	unnamed := browser.Eval[string](
		v,
		`[...document.querySelectorAll('[role=meter], [role=region], section.panel, section.host, nav, aside')].filter(n => n.checkVisibility() && !n.ariaLabel && !n.getAttribute('aria-labelledby')).map(n => n.outerHTML.slice(0, 80)).join('\n')`,
	)
	if unnamed != "" {
		t.Errorf("without a name for those who do not see it:\n%s", unnamed)
	}

	if said := v.ListComplaints(); len(said) > 0 {
		t.Errorf("the console has %q", said)
	}
}

func TestThePageStaysUsableWithManyVMs(t *testing.T) {
	const many = 5000
	sim := lookedAt(t, func(options *ovirtsim.Options) {
		dc := &options.Inventory.DataCenters[0]
		for i := range dc.Clusters[0].Hosts {
			dc.Clusters[0].Hosts[i].Memory = 16 << 40
		}

		dc.StorageDomains[0].Size = 1 << 50
		for i := range many {
			dc.VMs = append(dc.VMs, ovirtsim.VM{
				Name:     fmt.Sprintf("crowd-%04d", i),
				Cluster:  "Default",
				Template: "ol9-k8s",
				Up:       i%50 != 0,
			})
		}

		options.Timings.Launch, options.Timings.PowerUp = time.Millisecond, time.Millisecond
	})
	begin := time.Now()
	_, _, content := fetch(t, "GET", sim.UIURL()+"state", "")
	t.Logf("/state: %.1f MB in %s", float64(len(content))/1e6, time.Since(begin).Round(time.Millisecond))
	begin = time.Now()
	v := openPage(t, sim.UIURL(), 1400, 900)
	t.Logf(
		"browser started and page shown: %s; first paint after %.0f ms, first update took %s ms",
		time.Since(begin).Round(time.Millisecond),
		browser.Eval[float64](
			v,
			`performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1`,
		),
		browser.Eval[string](v, `document.documentElement.dataset.updateMs`),
	)
	v.WaitUntil(`document.querySelector('.counts').innerText.includes('up')`)
	if high := browser.Eval[float64](v, `document.querySelector('details.vm').offsetHeight`); high > 40 {
		t.Errorf("a line of one of many VMs is %g pixels high", high)
	}

	if cards := browser.Eval[int](v, `document.querySelectorAll('details.vm').length`); cards == 0 || cards > 4*300 {
		t.Errorf("the page has %d cards", cards)
	}

	begin = time.Now()
	newcomer := makeVM(t, sim, "newcomer")
	v.RunSteps(chromedp.SendKeys(chromedp.CSS("#filter"), "newcomer"))
	v.WaitUntil(card(newcomer.ID.String()) + ` !== null`)
	t.Logf("a VM was made, filtered for and seen within %s; the update took %s ms",
		time.Since(begin).Round(time.Millisecond), browser.Eval[string](v, `document.documentElement.dataset.updateMs`))
	v.RunSteps(
		chromedp.Evaluate[chromedp.Void](
			`document.querySelector('#filter').value = ''; document.querySelector('#filter').oninput(); undefined`,
		),
	)
	v.WaitUntil(`document.querySelectorAll('details.vm').length > 300`)
	t.Logf(
		"all again: %s ms; a state that is parsed and shown: %s ms",
		browser.Eval[string](v, `document.documentElement.dataset.updateMs`),
		browser.Eval[string](
			v,
			`(() => { pending = JSON.stringify(current); const b = performance.now(); frame(); document.body.offsetHeight; return (performance.now() - b).toFixed(1) })()`,
		),
	)
}

// TestScreenshots writes the screenshots for the docs to the folder $OVIRTSIM_SCREENSHOTS.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("OVIRTSIM_SCREENSHOTS")
	if folder == "" {
		t.Skip("OVIRTSIM_SCREENSHOTS names no folder")
	}

	sim := lookedAt(t, func(options *ovirtsim.Options) {
		options.Timings.Clone = time.Minute
		options.Inventory.DataCenters[0].VMs[8].Comment = "kept for its keys"
	})
	v := openPage(t, sim.UIURL(), 1400, 900)
	v.SetColors("light")
	makeVM(t, sim, "demo-md-0-6hbv6-t5n8w")
	worker := idOf(t, sim, "demo-md-0-6hbv6-crh7l")
	session := clientOf(t, sim)
	_, _ = session.FetchVM(t.Context(), engine.ID(worker)) // triggers the fault
	if err := session.StartVM(t.Context(), engine.ID(idOf(t, sim, "stuck-md-0-9qj2d")), false); err != nil {
		t.Fatal(err)
	}

	v.WaitUntil(
		`document.querySelectorAll('details.vm').length === 10 && document.querySelector('#request-rows').innerText.includes('fault #2') && document.querySelector('.hosts').innerText.includes('powering up')`,
	)
	v.WaitUntil(
		`document.querySelector('#endpoints').innerText.includes('5 of 5') && document.querySelector('#trouble').innerText.includes('pinned')`,
	)
	v.RunSteps(chromedp.Evaluate[chromedp.Void](card(worker) + `.open = true; undefined`))
	v.WaitUntil(card(worker) + `.innerText.includes('nic1 on kvm-vlan')`)
	v.TakeScreenshot(folder, "ovirtsim-page.png", 1400, 1100)
	v.TakeScreenshot(folder, "ovirtsim-page-phone.png", 390, 1300)
}
