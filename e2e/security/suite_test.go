// Package security replays attacks. Each test is one item of the table in docs/operate/security.md, by its letter: somebody who
// may write objects in one namespace, an engine that is the enemy, or a guest. The managers are real processes with the
// shipped roles and no others.
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
	hostile.Main() // the test itself is an executor, where a test has the manager start it as one
	suite.Main(m, "security", nil, nil)
}

// canary is what an attacker looks for.
const canary = "eyJhbGciOiJSUzI1NiJ9.stand-in-for-the-token-of-the-manager"

// token is a file of the manager's user with the canary in it, as the kubelet writes the token of a Pod.
func token(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}

	return path
}

// executors to test with, by name: the one of this machine, and OpenTofu, which is in the image. In short mode OpenTofu is
// left out, unless it is the one of this machine.
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

// start starts a manager for the site with that executor.
func start(t *testing.T, s *testsite.Site, executor string, args ...string) *testsite.Manager {
	t.Helper()
	m := suite.Program.New(t, nil, append([]string{"--namespace=" + s.Namespace}, args...)...)
	m.Executor = executor
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	return m
}
