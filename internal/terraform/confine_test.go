package terraform_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-version"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv/hostile"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

func TestMain(m *testing.M) {
	hostile.Main()
	os.Exit(m.Run())
}

// TestAnExecutorReachesNothing replaces the executor with hostile code. A script is not confined, so the same attempts
// in a script must succeed.
func TestAnExecutorReachesNothing(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	token := file(t, "token", "eyJhbGciOiJSUzI1NiJ9")
	neighbour := file(t, "terraform.tfvars.json", `{"ovirt_password": "p"}`)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	attempts := []string{
		"read:" + token, "read:" + neighbour, "write:" + filepath.Join(filepath.Dir(token),
			"new"), "run:/bin/sh", "connect:" + listener.Addr().String(),
		"spy:", "read:/etc/hostname", "link:" + token,
	}
	results := func(executor string) []string {
		t.Helper()
		x := terraform.NewExecutor(terraform.Executable{
			Path:    executor,
			Product: "OpenTofu",
			Version: version.Must(version.NewVersion(hostile.Version)),
		}, nobody{}, t.TempDir())
		_, err := x.Apply(t.Context(), terraform.Request{
			Dir:   t.TempDir(),
			Fresh: true,
			Configuration: render.Configuration{
				Files: render.Files{"main.tf": []byte("# " + hostile.EncodeAttempts(attempts...) + "\n")},
			},
		})
		var diagnostics *terraform.DiagnosticError
		if !errors.As(err, &diagnostics) {
			t.Fatalf("got %v", err)
		}

		return strings.Split(diagnostics.Diagnostics[0].Detail, " | ")
	}

	script := filepath.Join(t.TempDir(), "terraform")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n'"+self+"' \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}

	for _, result := range results(script) {
		if !strings.Contains(result, hostile.Got) {
			t.Errorf("without confinement: %s", result)
		}
	}

	got := results(self)
	if len(got) != len(attempts) {
		t.Errorf("%d results of %d attempts", len(got), len(attempts))
	}

	for _, result := range got {
		if strings.Contains(result, hostile.Got) {
			t.Error(result)
		}
	}

	if content, err := os.ReadFile(token); err != nil || len(content) == 0 {
		t.Errorf("the manager itself cannot read any more: %v", err)
	}
}

// TestALinkIsNotFollowed has an unconfined executor replace its state with a link to another machine's state.
func TestALinkIsNotFollowed(t *testing.T) {
	theirs := file(t, "terraform.tfstate", `{"version":4,"serial":1,"lineage":"theirs","resources":[]}`)
	x := pretender(t, "true", "ln -s "+theirs+" terraform.tfstate")
	saved := ""
	_, err := x.Apply(t.Context(), terraform.Request{
		Dir:   t.TempDir(),
		Fresh: true,
		SaveState: func(_ context.Context, state []byte, _ bool) error {
			saved = string(state)
			return nil
		},
	})
	check.Error(t, err, "is no file")
	check.Equal(t, "saved", saved, "")
}

// file writes a file in a new folder.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}

	return path
}

// TestAConfigurationReadsNoFiles runs HCL that calls file() on the manager's token and on another machine's secrets.
func TestAConfigurationReadsNoFiles(t *testing.T) {
	token := file(t, "token", "eyJhbGciOiJSUzI1NiJ9")
	neighbour := file(t, "terraform.tfvars.json", `{"ovirt_password": "p"}`)
	x := terraform.NewExecutor(testenv.FindExecutable(t), nobody{}, t.TempDir())
	if x.Confinement() != terraform.Landlocked {
		t.Fatalf("the confinement is %s: this kernel has no Landlock, and the exploit cannot be tried", x.Confinement())
	}

	for _, path := range []string{token, neighbour} {
		_, err := x.Apply(t.Context(), terraform.Request{
			Dir: t.TempDir(), Fresh: true, SaveState: func(context.Context, []byte, bool) error { return nil },
			Configuration: render.Configuration{Files: render.Files{
				"main.tf": fmt.Appendf(nil, "output \"a\" {\n  value = file(%q)\n}\n", path),
			}},
		})
		var diagnostics *terraform.DiagnosticError
		if !errors.As(err, &diagnostics) || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: got %v", path, err)
		}
	}

	own := render.Files{"main.tf": []byte("output \"a\" {\n  value = file(\"own\")\n}\n"), "own": []byte("x")}
	if _, err := x.Apply(t.Context(), terraform.Request{
		Configuration: render.Configuration{Files: own}, Dir: t.TempDir(), Fresh: true,
	}); err != nil {
		t.Errorf("a file of its own: %v", err)
	}
}
