package security

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// TestAClientFollowsNoRedirects (row M1 of docs/operate/security.md) uses an engine that redirects the manager to plain
// HTTP and to another server. The login contains the password, and all other requests contain the session.
func TestAClientFollowsNoRedirects(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			var asked atomic.Int32
			note := func(*http.Request) { asked.Add(1) }
			elsewhere := newAttacker(t, note).URL
			if scheme == "http" {
				elsewhere = newPlainAttacker(t, note).URL
			}

			s := testsite.New(t, suite.API.Client, testsite.Options{Gate: func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					// this status keeps the method and the body
					http.Redirect(w, r, elsewhere+r.URL.Path, http.StatusTemporaryRedirect)
				})
			}})
			start(t, s, "")
			message := s.ExpectCondition(
				s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.EngineUnreachableReason,
			)
			if !strings.Contains(message, "redirect") || asked.Load() != 0 {
				t.Errorf("the other server was asked %d times; the condition says %q", asked.Load(), message)
			}
		})
	}
}

// TestATenantCannotSendASecretElsewhere (row M2 of docs/operate/security.md) uses a tenant who may write OLVMClusters,
// but may not read Secrets. The tenant names a server that belongs to the tenant.
func TestATenantCannotSendASecretElsewhere(t *testing.T) {
	var told atomic.Value
	told.Store("")
	attacker := newAttacker(t, func(r *http.Request) {
		_ = r.ParseForm()
		told.Store(told.Load().(string) + fmt.Sprint(r.URL, r.PostForm, r.Header))
	})
	at, err := url.Parse(attacker.URL)
	if err != nil {
		t.Fatal(err)
	}

	s := testsite.New(
		t,
		suite.API.Client,
		testsite.Options{Change: func(_ *corev1.Secret, ca *corev1.ConfigMap, c *infrav1.OLVMCluster) {
			c.Spec.OLVMOvirtAPIServer.ServerURL = "https://" + at.Host + "/ovirt-engine"
			c.Spec.OLVMOvirtAPIServer.InsecureSkipTLSVerify = true
		}},
	)
	start(t, s, "")
	message := s.ExpectCondition(s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.EngineNotAllowedReason)
	if got := told.Load().(string); got != "" {
		t.Errorf("the attacker was told %s", got)
	}

	if !strings.Contains(message, "allowedServerURLs") {
		t.Errorf("the condition says %q", message)
	}
}
