package gobuild

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/heartbeat"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestABuildSaysHowFarItIs reads output in the form of go build -v, with a line every four seconds: modules, packages,
// and an error.
func TestABuildSaysHowFarItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, in := io.Pipe()
		go func() {
			time.Sleep(11 * time.Second) // meanwhile, go build reads go.mod

			for _, line := range []string{
				"go: downloading k8s.io/api v0.36.3", "go: downloading gopkg.in/yaml.v3 v3.0.1",
				"go: downloading go.etcd.io/raft v3.6.0+incompatible",
				"internal/goarch", "k8s.io/api/core/v1", "k8s.io/apimachinery/third_party/forked/golang/json",
				"# k8s.io/client-go/rest", "rest.go:1:2: undefined: x", "golang.org/x/net/http2",
			} {
				time.Sleep(4 * time.Second)
				_, _ = io.WriteString(in, line+"\n")
			}

			time.Sleep(15 * time.Second) // the linker prints nothing
			_ = in.Close()
		}()

		var said []string

		p := &progress{count: func() int { return 10 }}
		stop := heartbeat.Start(func(since time.Duration) { said = append(said, p.formatLine(since)) })
		problems := p.readOutput(out)
		stop()

		check.Equal(t, "what is not progress", problems, "# k8s.io/client-go/rest\nrest.go:1:2: undefined: x\n")
		check.Equal(t, "progress", said, []string{
			"reading the packages, 10 s elapsed",
			"modules downloaded so far: 2",
			"packages compiled so far: 1",
			"3 of at most 10 packages, at most 30s left",
			"4 of at most 10 packages, at most 30s left",
			"4 of at most 10 packages; it compiles a large one, or links",
		})
		check.Equal(t, "a line about a small part", (&progress{packages: 9, total: 100, asked: true}).formatLine(0),
			"9 of at most 100 packages")
	})
}

// TestRun builds its own small module.
func TestRun(t *testing.T) {
	for name, test := range map[string]struct {
		source, problem string
	}{
		"a program":               {"package main\n\nfunc main() {}\n", ""},
		"one that has an error":   {"package main\n\nfunc main() { undefined() }\n", "undefined: undefined"},
		"one that imports nobody": {"package main\n\nimport _ \"example.com/away\"\n\nfunc main() {}\n", "example.com/away"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, content := range map[string]string{"go.mod": "module example.com/a\n\ngo 1.26\n", "a.go": test.source} {
				check.Error(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600), "")
			}

			program := filepath.Join(dir, "program")
			build := Build{
				What: "the program", Dir: dir, Env: append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off"),
				Flags: []string{"-o", program}, Packages: []string{"."},
				Say: func(format string, args ...any) { t.Logf(format, args...) },
			}
			err := build.Run(t.Context())

			if test.problem == "" {
				check.Error(t, err, "")
				check.Error(t, exec.Command(program).Run(), "")

				return
			}

			check.Error(t, err, "failed to build the program: ")
			check.Contains(t, "the error", fmt.Sprint(err), test.problem)
		})
	}
}

// TestItsDependencies limits the dependencies, because they are compiled before any progress can be shown.
func TestItsDependencies(t *testing.T) {
	command := exec.Command("go", "list", "-deps", "../../hack/build")
	output, err := command.Output()
	check.Error(t, err, "")

	packages := strings.Fields(string(output))
	if len(packages) > 80 {
		t.Errorf("hack/build has %d packages, want at most 80", len(packages))
	}

	for _, name := range packages {
		ours := strings.HasPrefix(name, "github.com/capolvm/cluster-api-provider-olvm/")
		if strings.Contains(strings.Split(name, "/")[0], ".") && !ours {
			t.Errorf("hack/build imports %s, which is not in the standard library", name)
		}
	}
}
