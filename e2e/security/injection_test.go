package security

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv/hostile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// everywhere returns everything that the manager writes: its log, and the objects and events of the namespace.
func everywhere(t *testing.T, s *testsite.Site, m *testsite.Manager) string {
	t.Helper()
	log, err := os.ReadFile(m.Process.LogFile)
	if err != nil {
		t.Fatal(err)
	}

	out := string(log)

	for _, list := range []client.ObjectList{&infrav1.OLVMMachineList{}, &infrav1.OLVMClusterList{},
		&eventsv1.EventList{}} {
		if err := s.Client.List(context.Background(), list, client.InNamespace(s.Namespace)); err != nil {
			t.Fatal(err)
		}

		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}

		out += string(text)
	}

	return out
}

// tokenInHCL is HCL that reads the file "token" in the manager's folder from a working directory. It contains no
// quotes, because these would not survive inside of other quotes. The file name is the key of an object, and the slash
// is the beginning of a path.
const tokenInHCL = `${file(join(substr(abspath(path.root),0,1),[dirname(dirname(dirname(abspath(path.root)))),keys({token=1})[0]]))}`

// TestAnIDOfAnEngineNeverBecomesHCL (row C1 of docs/operate/security.md) uses an engine that sends HCL as the ID of a
// tag. The machine's VM exists, but not its state, so the manager imports the VM's objects.
func TestAnIDOfAnEngineNeverBecomesHCL(t *testing.T) {
	for name, executor := range executors(t) {
		t.Run(name, func(t *testing.T) {
			var hostileID atomic.Value
			s := testsite.New(t, suite.API.Client, testsite.Options{Gate: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					id, _ := hostileID.Load().(string)
					if id == "" || r.Method != http.MethodGet || !strings.Contains(r.URL.Path,
						"/vms/") || !strings.HasSuffix(r.URL.Path, "/tags") {
						next.ServeHTTP(w, r)
						return
					}

					w.Header().Set("Content-Type", "application/xml")
					fmt.Fprintf(w, `<tags><tag id="%s"><name>t</name></tag></tags>`,
						strings.ReplaceAll(id, `"`, "&quot;"))
				})
			}})
			if _, err := s.NewSession().CreateTag(t.Context(), &engine.Tag{Name: "t"}); err != nil {
				t.Fatal(err)
			}

			tagged := func(spec *infrav1.OLVMMachineSpec) { spec.VirtualMachine.Tags = []string{"t"} }
			m := start(t, s, executor)
			machine := s.CreateMachine("one", tagged)
			s.ExpectProvisioned(machine)
			m.Process.Kill()

			for _, state := range s.ListStates() { // every user who may write the machine can do this, too
				state.Finalizers = nil
				if err := s.Client.Update(t.Context(), &state); err != nil {
					t.Fatal(err)
				}

				s.Delete(&state)
			}

			again := suite.Program.NewManager(t, nil, "--namespace="+s.Namespace)
			again.Executor = executor
			if err := os.WriteFile(filepath.Join(again.Dir, "token"), []byte(canary), 0o600); err != nil {
				t.Fatal(err)
			}

			hostileID.Store(tokenInHCL)
			if err := again.Start(t.Context()); err != nil {
				t.Fatal(err)
			}

			message := s.ExpectCondition(
				machine, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.ApplyFailedReason,
			)

			if !strings.Contains(message, "an ID that is none") {
				t.Errorf("the condition says %q", message)
			}

			if text := everywhere(t, s, again); strings.Contains(text, canary) {
				t.Errorf("the token is in %s", text)
			}
		})
	}
}

// TestAHostileExecutorHasNothingToTake (row M7 of docs/operate/security.md) runs hostile code in place of the executor.
// An engine or a tenant may control this code, but it can reach nothing of value.
func TestAHostileExecutorHasNothingToTake(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	secret := token(t)
	neighbour := fmt.Sprintf("%s/%s", t.TempDir(), "terraform.tfvars.json")
	if err := os.WriteFile(neighbour, []byte(`{"ovirt_password":"`+canary+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}

	s := testsite.New(
		t,
		suite.API.Client,
		testsite.Options{Change: func(_ *corev1.Secret, _ *corev1.ConfigMap, c *infrav1.OLVMCluster) {
			c.Spec.AffinityGroups = []infrav1.AffinityGroup{} // otherwise, the executor would also run for the groups
		}},
	)
	m := suite.Program.NewManager(t, nil, "--namespace="+s.Namespace, "--confinement=required")
	m.Executor = self
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	kubeconfig := m.Dir + "/kubeconfig"

	attempts := []string{
		"read:" + secret,
		"read:" + neighbour,
		"read:" + kubeconfig,
		"write:" + m.WorkDir() + "/new",
		"run:/bin/sh",
		"connect:" + strings.Trim(strings.TrimPrefix(suite.API.Config.Host, "https:"), "/"),
		"spy:",
	}
	for i, attempt := range attempts { // one attempt per description, because descriptions are short
		machine := s.CreateMachine(fmt.Sprintf("m%d", i), func(spec *infrav1.OLVMMachineSpec) {
			spec.VirtualMachine.Description = hostile.EncodeAttempts(attempt)
		})
		message := s.ExpectCondition(
			machine, infrav1.InfrastructureAppliedCondition, "False/"+infrav1.ApplyFailedReason,
		)
		if !strings.Contains(message, "permission denied") || strings.Contains(message, hostile.Got) {
			t.Errorf("the executor reached something: %s", message)
		}
	}

	if text := everywhere(t, s, m); strings.Contains(text, canary) {
		t.Error("the canary is told")
	}
}

// TestAHostileKubeconfigIsNotUsed (row C2 of docs/operate/security.md) gives the manager hostile kubeconfigs. They try
// to send the manager's token away, to run programs, or to connect to a stranger.
func TestAHostileKubeconfigIsNotUsed(t *testing.T) {
	var asked atomic.Int32
	var authorization atomic.Value
	attacker := newAttacker(t, func(r *http.Request) {
		asked.Add(1)
		authorization.Store(r.Header.Get("Authorization"))
	})
	s := testsite.New(t, suite.API.Client, testsite.Options{})
	s.UseEndpoint(attacker.URL)
	secret := &corev1.Secret{
		ObjectMeta: s.NewMeta("demo-kubeconfig"),
		Type:       "cluster.x-k8s.io/secret",
		Data:       map[string][]byte{"value": []byte("x")},
	}
	s.Create(secret)
	m := start(t, s, "")

	path := token(t)
	for field, config := range map[string]string{
		"users[].user.tokenFile": attacker.kubeconfig(attacker.URL, "", `"tokenFile":"`+path+`"`),
		"users[].user.exec": attacker.kubeconfig(attacker.URL, "",
			`"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"sh","interactiveMode":"Never"}`),
		"users[].user.client-key": attacker.kubeconfig(attacker.URL, "",
			`"client-certificate-data":"eA==","client-key":"`+path+`"`),
		"clusters[].cluster.proxy-url": attacker.kubeconfig(attacker.URL, `,"proxy-url":"`+attacker.URL+`"`,
			`"token":"x"`),
		"clusters[].cluster.server: it is": attacker.kubeconfig("https://127.0.0.2:1", "", `"token":"x"`),
	} {
		t.Run(field, func(t *testing.T) {
			s := s.ForSubtest(t)
			testsite.UpdateObject(s, secret, func(secret *corev1.Secret) { secret.Data["value"] = []byte(config) })
			s.Eventually("the condition names the field", func() error {
				message := s.ExpectCondition(s.OLVM, infrav1.KubeconfigAcceptedCondition,
					"False/"+infrav1.KubeconfigRefusedReason)
				if !strings.Contains(message, field) {
					return fmt.Errorf("it says %q", message)
				}

				return nil
			})
		})
	}

	if n := asked.Load(); n != 0 {
		t.Errorf("the attacker was asked %d times, with %q", n, authorization.Load())
	}

	// With its own credentials, the manager accepts the same server as the cluster.
	testsite.UpdateObject(s, secret, func(secret *corev1.Secret) {
		secret.Data["value"] = []byte(attacker.kubeconfig(attacker.URL, "", `"token":"its-own"`))
	})
	s.ExpectCondition(s.OLVM, infrav1.KubeconfigAcceptedCondition, "True/"+infrav1.KubeconfigAcceptedReason)
	s.Eventually("the manager connects", func() error {
		if asked.Load() == 0 {
			return fmt.Errorf("nobody asked; the log is %s", m.Process.LogFile)
		}

		return nil
	})
	if got := authorization.Load(); got != "Bearer its-own" {
		t.Errorf("it was asked with %q", got)
	}
}
