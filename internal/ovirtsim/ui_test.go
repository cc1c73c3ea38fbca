package ovirtsim_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/png"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// nodes is a guest whose VMs become nodes by having a name that says so; it needs no user data.
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

func (n *nodes) Shutdown(string) bool { return false }
func (n *nodes) Halted(id string)     { _ = n.SetNodeReady(id, "Unknown", "") }
func (n *nodes) Removed(string)       {}
func (n *nodes) DiskRemoved(string)   {}

func (n *nodes) SetDisks(string, []ovirtsim.GuestDisk) {}
func (n *nodes) Close()                                {}

// hostile is a text that does harm where a page takes it for HTML.
const hostile = `<img src=x onerror="document.title='hit'">`

// lookedAt is a site with something of everything that the page shows.
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

// makeVM makes a VM through the engine's API.
func makeVM(t *testing.T, sim *ovirtsim.Server, name string) *engine.VM {
	t.Helper()
	session := clientOf(t, sim)
	dc, err := session.DataCenter(t.Context(), "Default")
	if err != nil {
		t.Fatal(err)
	}

	template, err := session.Template(t.Context(), dc, "ol9-k8s")
	if err != nil {
		t.Fatal(err)
	}

	cluster, err := session.Cluster(t.Context(), dc, "Default")
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

	for _, vm := range sim.VMs() {
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
		"0.0.0.0:0":     "loopback only",
		":0":            "loopback only",
		"192.0.2.1:80":  "loopback only",
		"example.com:1": "loopback only",
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

	_, header, content := fetch(t, "GET", url, "")

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

	for _, found := range regexp.MustCompile(`(?:https?:)?//[A-Za-z0-9][^\s"']*\.[^\s"')]+`).
		FindAllString(content, -1) {
		if !strings.Contains(found, "www.w3.org/2000/svg") { // a name, which nobody fetches
			t.Errorf("the page refers to %s", found)
		}
	}

	for _, banned := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("} {
		if strings.Contains(content, banned) {
			t.Errorf("the page uses %s, which takes names for HTML", banned)
		}
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

// streamed reads the stream and tells its events.
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

func TestTheStreamTellsChangesWithinASecondAndEndsWithTheEngine(t *testing.T) {
	sim := lookedAt(t, nil)
	events := streamed(t, sim)
	if first := <-events; !strings.HasPrefix(first, "data: {") || strings.Contains(first, "newcomer") {
		t.Fatalf("the first event is %.100s", first)
	}

	makeVM(t, sim, "newcomer")
	begin := time.Now()

	for event := range events {
		if strings.Contains(event, `"newcomer"`) {
			break
		}
	}

	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("the VM was on the stream after %s", took)
	}

	begin = time.Now()
	sim.Close()

	for range events { // until it ends
	}

	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("the stream ended %s after the engine", took)
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

// browser starts headless Chromium, or skips the test where there is none.
func browser(t *testing.T) context.Context {
	t.Helper()

	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}

	if path == "" {
		t.Skip("there is no Chromium to look at the page with: apt-get install chromium")
	}

	options := append(
		slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.DisableGPU,
		// Without these it waits for hosts that a closed network does not have.
		chromedp.Flag(
			"disable-component-update",
			true,
		),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("no-proxy-server", true),
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium's sandbox refuses root
	}

	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)

	return ctx
}

// view is a page in a browser.
type view struct {
	t        *testing.T
	ctx      context.Context
	mu       sync.Mutex
	messages []string
}

func openPage(t *testing.T, url string, width, height int64) *view {
	t.Helper()
	v := &view{t: t, ctx: browser(t)}
	console := chromedp.Console(v.ctx)
	go func() {
		for message, err := range console {
			if err != nil {
				return
			}

			v.mu.Lock()
			v.messages = append(v.messages, message.String())
			v.mu.Unlock()
		}
	}()
	v.do(chromedp.EmulateViewport(width, height), chromedp.Navigate(url))
	v.until(
		`document.querySelector('#connection').dataset.kind === 'ok' && document.querySelectorAll('.host').length > 0`,
	)

	return v
}

func (v *view) do(steps ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	if err := chromedp.Do(v.ctx, steps...); err != nil {
		v.t.Fatal(err)
	}
}

// complaints are what the page wrote to the console: errors, and violations of the policy.
func (v *view) complaints() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.messages)
}

func eval[T any](v *view, expression string, options ...chromedp.EvaluateOption) T {
	v.t.Helper()
	out, err := chromedp.Run(v.ctx, chromedp.Evaluate[T](expression, options...))
	if err != nil {
		v.t.Fatalf("%s: %v", expression, err)
	}

	return out
}

// until waits in the page for a condition. The page's policy forbids the library's own way, which makes functions of
// text.
func (v *view) until(condition string) {
	v.t.Helper()
	ok := eval[bool](v, fmt.Sprintf(`new Promise(done => {
		const end = performance.now() + 15000
		const look = () => {
			let met = false
			try { met = %s } catch { }
			met || performance.now() > end ? done(Boolean(met)) : setTimeout(look, 20)
		}
		look()
	})`, condition), chromedp.EvalAwaitPromise)
	if !ok {
		v.t.Fatalf("waited in vain for %s; the page:\n%s", condition, eval[string](v, `document.body.innerText`))
	}
}

// card is the JavaScript of the card of a VM.
func card(id string) string { return fmt.Sprintf("document.getElementById('vm-%s')", id) }

func (v *view) colors(scheme string) {
	v.t.Helper()
	_, err := chromedp.Run(v.ctx, func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Call(
			ctx,
			emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
			}},
		)

		return chromedp.Void{}, err
	})
	if err != nil {
		v.t.Fatal(err)
	}
}

// faint lists the texts whose contrast with what is behind them is below that of WCAG AA.
const faint = `(() => {
	const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 && m[3] === 0 ? null : m.slice(0, 3) }
	const light = rgb => { const [r, g, b] = rgb.map(c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b }
	const out = new Set()
	for (const node of document.querySelectorAll('body *')) {
		if (![...node.childNodes].some(c => c.nodeType === 3 && c.data.trim()) || !node.checkVisibility() || ['SCRIPT', 'NOSCRIPT'].includes(node.tagName)) continue
		let behind = node, back
		while (!(back = parse(getComputedStyle(behind).backgroundColor))) behind = behind.parentElement
		const [a, b] = [light(parse(getComputedStyle(node).color)), light(back)].sort((x, y) => y - x)
		if ((a + .05) / (b + .05) < 4.5) out.add(node.tagName + '.' + node.className + ' ' + ((a + .05) / (b + .05)).toFixed(2))
	}
	return [...out].join('; ')
})()`

func TestThePageShowsTheSiteAndFollowsItWithoutReload(t *testing.T) {
	sim := lookedAt(t, nil)
	v := openPage(t, sim.UIURL(), 1400, 900)
	worker := idOf(t, sim, "demo-md-0-6hbv6-crh7l")
	bastion := idOf(t, sim, "old-bastion")
	broken := idOf(t, sim, "broken-md-1-p8s4l")
	eval[int](v, `window.loads = 1`) // gone after a reload

	v.until(
		`document.querySelectorAll('details.vm').length === 9 && document.querySelectorAll('.host:not(.nowhere)').length === 3`,
	)
	v.until(card(worker) + `.innerText.includes('Ready') && ` + card(worker) + `.innerText.includes('192.0.2.')`)
	v.until(card(idOf(t, sim, "demo-control-plane-7wdhp")) + `.innerText.includes('control plane')`)
	v.until(
		card(
			broken,
		) + `.innerText.includes('pinned hash') && document.querySelector('#trouble').innerText.includes('pinned hash')`,
	)
	v.until(`document.querySelector('.host.nowhere').innerText.includes('old-bastion')`)
	v.until(`document.querySelector('#endpoints').innerText.includes('127.20.30.10:6443')`)
	v.until(`document.querySelector('#fault-list').innerText.includes('never boots')`)
	v.until(
		`document.querySelector('#site').innerText.includes('keep apart, hard') && document.querySelector('#site').innerText.includes('olvm-data-2')`,
	)

	// What is written by users is text.
	v.do(chromedp.Evaluate[chromedp.Void](card(bastion) + `.open = true; undefined`))
	v.until(
		card(
			bastion,
		) + `.innerText.includes('onerror=') && document.querySelectorAll('img').length === 0 && document.title !== 'hit'`,
	)

	// A VM that somebody looks at stops: its card goes elsewhere, open and with the focus, and nothing is loaded again.
	v.do(
		chromedp.Evaluate[chromedp.Void](
			fmt.Sprintf(
				`%[1]s.firstElementChild.focus(); %[1]s.open = true; window.card = %[1]s; undefined`,
				card(worker),
			),
		),
	)
	v.until(card(worker) + `.innerText.includes('nic1 on kvm-vlan')`)
	if err := clientOf(t, sim).StopVM(t.Context(), engine.ID(worker), false); err != nil {
		t.Fatal(err)
	}

	v.until(card(worker) + `.closest('.nowhere') && ` + card(worker) + `.querySelector('.badge').innerText === 'down'`)
	v.until(`document.querySelector('#request-rows').innerText.includes('/stop')`)
	if !eval[bool](
		v,
		fmt.Sprintf(
			`window.card === %[1]s && %[1]s.open && document.activeElement === %[1]s.firstElementChild && window.loads === 1`,
			card(worker),
		),
	) {
		t.Error("the card was made again, was closed, or lost the focus")
	}

	// The page stays where it was scrolled to while VMs come.
	v.do(chromedp.Evaluate[chromedp.Void](`window.scrollTo(0, 300); undefined`))
	before := eval[float64](v, `scrollY`)
	newcomer := makeVM(t, sim, "newcomer")
	v.until(card(newcomer.ID.String()) + `.querySelector('.badge').innerText === 'down'`)
	if after := eval[float64](v, `scrollY`); after != before {
		t.Errorf("the page scrolled from %g to %g", before, after)
	}

	// The pools: a tag, how many of its VMs are claimed, and by whom.
	claim(t, sim, newcomer.ID)
	v.until(
		`document.querySelector('#pools').innerText.includes('1 of 10 VMs claimed') && ` +
			`document.querySelector('#pools').innerText.includes('newcomer by default/web-0')`,
	)

	// The filter.
	v.do(chromedp.SendKeys(chromedp.CSS("#filter"), "demo-md kvm-vlan"))
	v.until(
		`document.querySelector('#matches').innerText === '2 of 10 VMs' && document.querySelectorAll('details.vm').length === 2`,
	)
	v.do(
		chromedp.Evaluate[chromedp.Void](
			`document.querySelector('#filter').value = ''; document.querySelector('#filter').oninput(); undefined`,
		),
	)
	v.until(`document.querySelectorAll('details.vm').length === 10`)

	// What goes wrong is said at the top.
	if err := sim.SetNodeReady("demo-md-0-6hbv6-rchvr", "False", "Test"); err != nil {
		t.Fatal(err)
	}

	if err := sim.FailHost("host-3"); err != nil {
		t.Fatal(err)
	}

	v.until(
		`document.querySelector('#trouble').innerText.includes('Host host-3 is non responsive') && document.querySelector('#trouble').innerText.includes('demo-md-0-6hbv6-rchvr is a node that is not Ready')`,
	)
	// Its title counts, and what is the same with several is one line.
	if err := sim.SetNodeReady("demo-control-plane-7wdhp", "False", "Test"); err != nil {
		t.Fatal(err)
	}

	v.until(
		`document.querySelector('#trouble').innerText.includes('demo-control-plane-7wdhp, demo-md-0-6hbv6-rchvr are each a node that is not Ready')`,
	)
	v.until(`document.title.startsWith('(' + document.querySelector('#trouble-title').innerText.match(/\d+/)[0] + ') ovirtsim')`)

	if eval[bool](v, `document.body.classList.contains('compact')`) {
		t.Error("ten VMs are shown as lines")
	}

	if said := v.complaints(); len(said) > 0 {
		t.Errorf("the console has %q", said)
	}

	// The engine ends, and another one comes.
	sim.Close()
	v.until(
		`document.querySelector('#connection').innerText.includes('Disconnected, retrying') && document.body.classList.contains('stale')`,
	)
	if !eval[bool](v, card(newcomer.ID.String())+` !== null`) {
		t.Error("what was known is gone")
	}

	lookedAt(t, func(options *ovirtsim.Options) { options.UI = strings.Trim(sim.UIURL(), "htp:/") })
	v.until(
		`document.querySelector('#connection').innerText === 'Live' && !document.body.classList.contains('stale') && document.querySelectorAll('details.vm').length === 9 && window.loads === 1`,
	)
}

// claim has a VM be one of the pool demo, and a machine's.
func claim(t *testing.T, sim *ovirtsim.Server, id engine.ID) {
	t.Helper()
	ctx, session := t.Context(), clientOf(t, sim)
	pool, err := session.TagsNamed(ctx, "demo")
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
	v.until(`document.querySelectorAll('details.vm').length === 10`)
	v.do(
		chromedp.Evaluate[chromedp.Void](`document.querySelectorAll('details').forEach(d => d.open = true); undefined`),
	)
	v.until(`[...document.querySelectorAll('details.vm .body')].every(b => b.textContent.includes('CPUs'))`)

	for _, width := range []int64{320, 360, 768, 1100, 1600} {
		v.do(chromedp.EmulateViewport(width, 740))
		if wide := eval[int64](v, `document.documentElement.scrollWidth`); wide > width {
			t.Errorf("on a screen of %d the page is %d wide", width, wide)
		}
	}

	for _, scheme := range []string{"light", "dark"} {
		v.colors(scheme)
		if found := eval[string](v, faint); found != "" {
			t.Errorf("too little contrast in %s colours: %s", scheme, found)
		}
	}

	// Tab reaches everything that can be operated, in the order of the document, and the focus is seen.
	v.do(chromedp.EmulateViewport(360, 740))
	const operable = `[...document.querySelectorAll('a[href], summary, input, [tabindex="0"]')].filter(n => n.checkVisibility())`
	total := eval[int](v, operable+`.length`)
	if total < 16 {
		t.Fatalf("only %d elements can be operated", total)
	}

	v.do(
		chromedp.Evaluate[chromedp.Void](
			`window.reached = []; document.addEventListener('focusin', e => reached.push(e.target)); undefined`,
		),
	)

	for range total {
		v.do(chromedp.KeyEvent(kb.Tab))
	}

	missed := eval[string](
		v,
		operable+`.filter((n, i) => reached[i] !== n).map(n => n.outerHTML.slice(0, 120)).join('\n')`,
	)
	if missed != "" {
		t.Errorf("Tab does not reach, or in another order:\n%s", missed)
	}

	if style := eval[string](v, `getComputedStyle(document.activeElement).outlineStyle`); style != "solid" {
		t.Errorf("the focus is not seen: outline %s", style)
	}

	// A card opens and closes by key.
	v.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('details.vm summary').focus(); undefined`),
		chromedp.KeyEvent(kb.Enter))
	v.until(`!document.querySelector('details.vm').open`)
	unnamed := eval[string](
		v,
		`[...document.querySelectorAll('[role=meter], [role=region], section.panel, section.host, nav, aside')].filter(n => n.checkVisibility() && !n.ariaLabel && !n.getAttribute('aria-labelledby')).map(n => n.outerHTML.slice(0, 80)).join('\n')`,
	)
	if unnamed != "" {
		t.Errorf("without a name for those who do not see it:\n%s", unnamed)
	}

	if said := v.complaints(); len(said) > 0 {
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
		eval[float64](
			v,
			`performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1`,
		),
		eval[string](v, `document.documentElement.dataset.updateMs`),
	)
	v.until(`document.querySelector('.counts').innerText.includes('up')`)
	if high := eval[float64](v, `document.querySelector('details.vm').offsetHeight`); high > 40 {
		t.Errorf("a line of one of many VMs is %g pixels high", high)
	}

	if cards := eval[int](v, `document.querySelectorAll('details.vm').length`); cards == 0 || cards > 4*300 {
		t.Errorf("the page has %d cards", cards)
	}

	begin = time.Now()
	newcomer := makeVM(t, sim, "newcomer")
	v.do(chromedp.SendKeys(chromedp.CSS("#filter"), "newcomer"))
	v.until(card(newcomer.ID.String()) + ` !== null`)
	t.Logf("a VM was made, filtered for and seen within %s; the update took %s ms",
		time.Since(begin).Round(time.Millisecond), eval[string](v, `document.documentElement.dataset.updateMs`))
	v.do(
		chromedp.Evaluate[chromedp.Void](
			`document.querySelector('#filter').value = ''; document.querySelector('#filter').oninput(); undefined`,
		),
	)
	v.until(`document.querySelectorAll('details.vm').length > 300`)
	t.Logf(
		"all again: %s ms; a state that is parsed and shown: %s ms",
		eval[string](v, `document.documentElement.dataset.updateMs`),
		eval[string](
			v,
			`(() => { pending = JSON.stringify(current); const b = performance.now(); frame(); document.body.offsetHeight; return (performance.now() - b).toFixed(1) })()`,
		),
	)
	if took := eval[float64](v, `Number(document.documentElement.dataset.updateMs)`); took > 1000 {
		t.Errorf("an update takes %g ms", took)
	}
}

// TestScreenshots writes the pictures of the docs into the folder $OVIRTSIM_SCREENSHOTS.
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
	v.colors("light")
	makeVM(t, sim, "demo-md-0-6hbv6-t5n8w")
	worker := idOf(t, sim, "demo-md-0-6hbv6-crh7l")
	session := clientOf(t, sim)
	_, _ = session.VM(t.Context(), engine.ID(worker)) // meets the fault
	if err := session.StartVM(t.Context(), engine.ID(idOf(t, sim, "stuck-md-0-9qj2d")), false); err != nil {
		t.Fatal(err)
	}

	v.until(
		`document.querySelectorAll('details.vm').length === 10 && document.querySelector('#request-rows').innerText.includes('fault #2') && document.querySelector('.hosts').innerText.includes('powering up')`,
	)
	v.until(
		`document.querySelector('#endpoints').innerText.includes('5 of 5') && document.querySelector('#trouble').innerText.includes('pinned')`,
	)
	shoot := func(name string, width, height int64) {
		v.do(chromedp.EmulateViewport(width, height))
		taken, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}

		decoded, err := png.Decode(bytes.NewReader(taken))
		if err != nil {
			t.Fatal(err)
		}

		picture := image.NewRGBA(decoded.Bounds())
		draw.Draw(picture, picture.Bounds(), decoded, image.Point{}, draw.Src)

		for i, c := range picture.Pix { // 32 steps of a colour are enough for a picture in a repository
			picture.Pix[i] = uint8((int(c)*31 + 127) / 255 * 255 / 31)
		}

		var small bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, picture); err != nil {
			t.Fatal(err)
		}

		if err := os.WriteFile(filepath.Join(folder, name), small.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	v.do(chromedp.Evaluate[chromedp.Void](card(worker) + `.open = true; undefined`))
	v.until(card(worker) + `.innerText.includes('nic1 on kvm-vlan')`)
	shoot("ovirtsim-page.png", 1400, 1100)
	shoot("ovirtsim-page-phone.png", 390, 1300)
}
