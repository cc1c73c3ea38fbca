package ovirtsim_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// raw sends requests without our client, because our client never sends malformed requests.
type raw struct {
	t   *testing.T
	sim *ovirtsim.Server
	// clock is the engine's clock. Time passes only while a test waits.
	clock *ovirtsim.ManualClock
	http  *http.Client
	token string
}

func newRaw(t *testing.T) *raw {
	t.Helper()

	return newRawWith(t, ovirtsim.Options{Timings: timings})
}

func newRawWith(t *testing.T, options ovirtsim.Options) *raw {
	t.Helper()
	clock := ovirtsim.NewManualClock()
	options.Clock = clock
	sim, err := ovirtsim.New(options)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(sim.Close)

	return connect(t, sim, clock)
}

// connect logs in to a simulator with a clock.
func connect(t *testing.T, sim *ovirtsim.Server, clock *ovirtsim.ManualClock) *raw {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(sim.CA())
	r := &raw{
		t:     t,
		sim:   sim,
		clock: clock,
		http: &http.Client{
			Transport: &http.Transport{
				TLSClientConfig:     &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
				MaxIdleConnsPerHost: 32,
			},
			Timeout: wait.Limit,
		},
	}
	r.login()

	return r
}

func (r *raw) login() {
	r.t.Helper()
	status, body := r.askToken(r.sim.Username(), r.sim.Password())
	var reply struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(body), &reply); err != nil || reply.Token == "" {
		r.t.Fatalf("no token: %d %s", status, body)
	}

	r.token = reply.Token
}

// askToken sends a request to the token endpoint. The caller must escape name and password.
func (r *raw) askToken(name, password string) (status int, body string) {
	r.t.Helper()
	form := fmt.Sprintf("grant_type=password&scope=ovirt-app-api&username=%s&password=%s", name, password)
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.sim.URL()+"/sso/oauth/token",
		strings.NewReader(form))
	if err != nil {
		r.t.Fatal(err)
	}

	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	response, err := r.http.Do(request)
	if err != nil {
		r.t.Log(err)
		return 0, ""
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}

	return response.StatusCode, string(content)
}

func (r *raw) call(method, path, contentType, body string) (int, string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.sim.URL()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		r.t.Fatal(err)
	}

	request.Header.Set("Authorization", "Bearer "+r.token)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
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

	return response.StatusCode, string(content)
}

func TestMalformedRequestsAreRefusedAsTheEngineDoes(t *testing.T) {
	r := newRaw(t)
	session, err := engine.New(engine.Config{
		URL:      r.sim.URL(),
		Username: r.sim.Username(),
		Password: r.sim.Password(),
		CA:       r.sim.CA(),
	})
	if err != nil {
		t.Fatal(err)
	}

	dc, err := session.FindDataCenter(t.Context(), "Default")
	if err != nil {
		t.Fatal(err)
	}

	cluster, err := session.FindCluster(t.Context(), dc, "Default")
	if err != nil {
		t.Fatal(err)
	}

	template, err := session.FindTemplate(t.Context(), dc, "ol9-k8s")
	if err != nil {
		t.Fatal(err)
	}

	vm := func(name, extra string) string {
		return fmt.Sprintf(`<vm><name>%s</name><cluster id="%s"/><template id="%s"/>%s</vm>`, name, cluster.ID,
			template.ID, extra)
	}
	const xml = "application/xml"
	if status, body := r.call("POST", "/api//vms/", xml, vm("first", "")); status != 202 {
		t.Fatalf("a good request, with the slashes of a client that appends: %d %s", status, body)
	}

	tests := map[string]struct {
		method, path, contentType, body string
		status                          int
		detail                          string
	}{
		"text that is not escaped": {
			"POST",
			"/api/vms",
			xml,
			vm("a", "<initialization><custom_script>a && b</custom_script></initialization>"),
			400,
			"apidoc#services/vms/methods/add",
		},
		"two documents": {
			"POST",
			"/api/vms",
			xml,
			vm("a", "") + vm("b", ""),
			400,
			"Request syntactically incorrect.",
		},
		"no media type": {"POST", "/api/vms", "", vm("a", ""), 415, ""},
		"a form":        {"POST", "/api/vms", "application/x-www-form-urlencoded", "a=b", 415, ""},
		"no name": {
			"POST",
			"/api/vms",
			xml,
			fmt.Sprintf(`<vm><cluster id="%s"/><template id="%s"/></vm>`, cluster.ID, template.ID),
			400,
			"Vm [name] required for add",
		},
		"no template": {
			"POST",
			"/api/vms",
			xml,
			fmt.Sprintf(`<vm><name>a</name><cluster id="%s"/></vm>`, cluster.ID),
			400,
			"template",
		},
		"an unknown cluster": {
			"POST",
			"/api/vms",
			xml,
			`<vm><name>a</name><cluster id="6a0d7b86-6c0a-4b9e-8a52-000000000000"/><template id="y"/></vm>`,
			404,
			"Entity not found: GetClusterById",
		},
		"a name that is taken": {"POST", "/api/vms", xml, vm("first", ""), 409, "already in use"},
		"a name with a blank":  {"POST", "/api/vms", xml, vm("a b", ""), 400, "special characters"},
		"memory that is not whole": {
			"POST",
			"/api/vms",
			xml,
			vm("b", "<memory>1073741825</memory>"),
			202,
			"<memory>1073741824</memory>",
		},
		"a number that is none": {
			"POST",
			"/api/vms",
			xml,
			vm("a", "<memory>lots</memory>"),
			400,
			"Request syntactically incorrect.",
		},
		"a path that does not exist": {"GET", "/api/unicorns", "", "", 404, ""},
		"a VM that does not exist":   {"GET", "/api/vms/x", "", "", 404, ""},
		"a search that is none":      {"GET", "/api/vms?search=colour%3Dblue", "", "", 200, "<vms/>"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status, body := r.call(test.method, test.path, test.contentType, test.body)
			if status != test.status || !strings.Contains(body, test.detail) {
				t.Errorf("got %d %s, want %d with %q", status, body, test.status, test.detail)
			}
		})
	}

	t.Run("no token", func(t *testing.T) {
		r.token = "none"
		if status, _ := r.call("GET", "/api", "", ""); status != 401 {
			t.Errorf("got %d", status)
		}
	})
}

func TestAVMGoesThroughTheStatusesOfTheEngine(t *testing.T) {
	r := newRaw(t)
	ctx := t.Context()
	session, err := engine.New(engine.Config{
		URL:      r.sim.URL(),
		Username: r.sim.Username(),
		Password: r.sim.Password(),
		CA:       r.sim.CA(),
	})
	if err != nil {
		t.Fatal(err)
	}

	dc, err := session.FindDataCenter(ctx, "Default")
	if err != nil {
		t.Fatal(err)
	}

	cluster, err := session.FindCluster(ctx, dc, "Default")
	if err != nil {
		t.Fatal(err)
	}

	template, err := session.FindTemplate(ctx, dc, "ol9-k8s")
	if err != nil {
		t.Fatal(err)
	}

	vm, err := session.CreateVM(ctx, &engine.VM{
		Name:     "a",
		Cluster:  engine.NewRef(cluster.ID),
		Template: engine.NewRef(template.ID),
	}, nil)
	if err != nil || vm.Status != engine.VMImageLocked {
		t.Fatalf("a new VM is %v, %v", vm, err)
	}

	reach := func(want engine.VMStatus) {
		t.Helper()
		r.until("/api/vms/"+vm.ID.String(), "status", string(want))
	}
	if err := session.StartVM(ctx, vm.ID, false); !engine.IsConflict(err) || !engine.IsTransient(err) {
		t.Errorf("starting a locked VM: %v", err)
	}

	if err := session.DeleteVM(ctx, vm.ID); !engine.IsConflict(err) {
		t.Errorf("deleting a locked VM: %v", err)
	}

	reach(engine.VMDown)
	if err := session.StopVM(ctx, vm.ID, false); err != nil {
		t.Errorf("stopping a VM that is down counts as success: %v", err)
	}

	if err := session.StartVM(ctx, vm.ID, false); err != nil {
		t.Fatal(err)
	}

	if err := session.StartVM(ctx, vm.ID, false); !engine.IsConflict(err) || !engine.IsTransient(err) {
		t.Errorf("starting a VM that is launched: %v", err)
	}

	reach(engine.VMUp)
	if err := session.StartVM(ctx, vm.ID, false); !engine.IsConflict(err) || engine.IsTransient(err) {
		t.Errorf("starting a VM that runs: %v", err)
	}

	if err := session.DeleteVM(ctx, vm.ID); !engine.IsConflict(err) {
		t.Errorf("deleting a VM that runs: %v", err)
	}

	if err := session.ShutdownVM(ctx, vm.ID, false); err != nil {
		t.Fatal(err)
	}

	reach(engine.VMDown)
	if err := session.DeleteVM(ctx, vm.ID); err != nil {
		t.Fatal(err)
	}

	r.eventually("nothing is left", func() error {
		if left := r.sim.Summarize(); left.VMs+left.Disks+left.NICs != 0 {
			return fmt.Errorf("left: %+v", left)
		}

		return nil
	})
}
