package reliability

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
)

// canaries maps the secrets of a life to their descriptions.
type canaries struct {
	mu     sync.Mutex
	values map[string]string
	found  map[string]bool
}

func (c *canaries) add(what, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values[value] = what

	// The data of a Secret may contain the value at any offset, and each alignment has another encoding.
	for shift := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", shift) + value))
		c.values[strings.TrimRight(encoded, "=")[4:len(encoded)-4]] = what + " in base64"
	}
}

// look reports each canary in a text, but each only once.
func (c *canaries) look(t *testing.T, where, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for value, what := range c.values {
		if key := what + " in " + where; strings.Contains(text, value) && !c.found[key] {
			c.found[key] = true
			at := strings.Index(text, value)
			t.Errorf("%s: ...%s...", key, text[max(0, at-120):at])
		}
	}
}

// processes checks the arguments and the environments of the manager and its child processes.
func (c *canaries) processes(t *testing.T, m *manager) {
	for _, pid := range slices.Concat(m.ListExecutors(), m.ListProviders(), []int{m.Process.PID()}) {
		for _, name := range []string{"cmdline", "environ"} {
			if content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name)); err == nil {
				c.look(t, name, string(content))
			}
		}
	}
}

// files checks the files that other users than the manager's can read.
func (c *canaries) files(t *testing.T, m *manager) {
	_ = filepath.WalkDir(m.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it is gone again
		}

		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // as above
		}

		if info.Mode().Perm()&0o077 != 0 && entry.Type().IsRegular() {
			if content, err := os.ReadFile(path); err == nil {
				c.look(t, "the file "+entry.Name()+" that others may read", string(content))
			}
		}

		return nil
	})
}

// TestSecretsAppearNowhereButWhereTheyMust follows secrets through a life at the highest verbosity. These are the
// password, the engine's tokens and the bootstrap data. The engine also repeats its input in errors.
func TestSecretsAppearNowhereButWhereTheyMust(t *testing.T) {
	t.Parallel()
	c := &canaries{values: map[string]string{}, found: map[string]bool{}}
	b := newColdBench(t, withoutGroups, "--v=10")
	name := b.engine.name
	b.engine.name = func(r *http.Request) string {
		if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
			c.add("a token", token)
		}

		return name(r)
	}
	const bootstrap = "canary-of-the-bootstrap-data"
	c.add("the password", b.site.Sim.Password())
	c.add("bootstrap data", bootstrap)
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)

		for ctx.Err() == nil {
			c.processes(t, b.manager)
			c.files(t, b.manager)
			time.Sleep(5 * time.Millisecond)
		}
	}()
	s := b.site.ForSubtest(t)
	s.UserData = "#cloud-config\nruncmd:\n- echo " + bootstrap + "\n"

	// The engine repeats its input, as validation errors do.
	err := s.Sim.Inject(ovirtsim.Fault{
		Method: "POST",
		Path:   "/nics$",
		Status: 400,
		Reason: "Operation Failed",
		Detail: "[echo " + bootstrap + " of " + s.Sim.Password() + "]",
	})
	if err != nil {
		t.Fatal(err)
	}

	m := s.CreateMachine("one", full)
	message := s.ExpectCondition(m, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.ApplyFailedReason)
	if !strings.Contains(message, "(redacted)") {
		t.Errorf("the engine's words do not reach the condition: %s", message)
	}

	s.Sim.ClearFaults()
	b.expectReady(s, m)
	b.expectOne(s, m)
	response, err := http.Get(b.Metrics)
	if err != nil {
		t.Fatal(err)
	}

	metrics, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || !strings.Contains(string(metrics), "capolvm_terraform_runs_total") {
		t.Errorf("the metrics: %v", err)
	}

	c.look(t, "the metrics", string(metrics))
	s.Delete(m)
	s.ExpectGone(m)
	b.expectNone(s)
	cancel()
	<-watched

	for _, list := range []client.ObjectList{&infrav1.OLVMMachineList{}, &infrav1.OLVMClusterList{},
		&clusterv1.MachineList{}, &clusterv1.ClusterList{}, &ipamv1.IPAddressClaimList{}, &corev1.ConfigMapList{},
		&eventsv1.EventList{}} {
		if err := s.Client.List(context.Background(), list, client.InNamespace(s.Namespace)); err != nil {
			t.Fatal(err)
		}

		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}

		c.look(t, fmt.Sprintf("%T", list), string(text))
	}

	log, err := os.ReadFile(b.Process.LogFile)
	if err != nil || !strings.Contains(string(log), "Terraform run succeeded") {
		t.Errorf("the log: %v", err)
	}

	c.look(t, "the log", string(log))
	if strings.Contains(string(log), "Response Body") {
		t.Error("the log has bodies of answers, in which a search may not find what it looks for")
	}

	if len(c.values) < 3 {
		t.Errorf("only %d secrets were followed", len(c.values))
	}
}
