// Package security replays attacks. Each test covers one item in the table of docs/operate/security.md, named by its
// letter and number. The attacker is a tenant with write access to one namespace, a hostile engine, or a guest. The
// managers are real processes with exactly the shipped roles.
package security

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv/hostile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

var suite testsite.Suite

func TestMain(m *testing.M) {
	hostile.Main() // in tests of a hostile executor, the test program is the executor
	suite.Main(m, "security", nil, nil)
}

// canary is the text that attackers try to get.
const canary = "eyJhbGciOiJSUzI1NiJ9.stand-in-for-the-token-of-the-manager"

// token creates a file with the canary that belongs to the manager's user, like the kubelet's file with the token of a
// Pod.
func token(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}

	return path
}

// executors returns the executors for tests by name. They are the executor of this host and OpenTofu, because the
// manager's image contains OpenTofu. In short mode, it omits OpenTofu unless this is the host's executor.
func executors(t *testing.T) map[string]string {
	t.Helper()

	out := map[string]string{suite.Program.Executor.Product: suite.Program.Executor.Path}
	if testing.Short() {
		return out
	}

	tofu, err := suite.Tools.Path("tofu", "tofu")
	if err != nil {
		t.Fatal(err)
	}

	out["OpenTofu"] = tofu

	return out
}

// start starts a manager for the site with an executor.
func start(t *testing.T, s *testsite.Site, executor string, args ...string) *testsite.Manager {
	t.Helper()
	m := suite.Program.NewManager(t, nil, append([]string{"--namespace=" + s.Namespace}, args...)...)
	m.Executor = executor
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	return m
}
