package reliability

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// olderManager is a manager of an earlier version. Without it, the test builds the present code with another version.
var olderManager = flag.String("older", "", "program of an older manager, such as the one of the last release")

// TestManagersOfTwoBuildsTakeTurns upgrades the manager while a machine is being created, and goes back and forth
// afterwards. The CRDs are always those of the newer manager. A turn alone changes nothing in the engine.
func TestManagersOfTwoBuildsTakeTurns(t *testing.T) {
	testenv.SkipInShort(t, "builds the manager a second time")
	t.Parallel()
	b := newColdBench(t, withoutGroups, electing...)
	s := b.site.ForSubtest(t)
	newer, older := suite.Program, buildOlderManager(t)

	b.manager = newManagerOf(t, older, b.args...)
	check.Error(t, b.Start(t.Context()), "")
	cut := b.on("POST /vms/ID/nics", func() bool {
		_ = syscall.Kill(b.Process.PID(), syscall.SIGTERM)
		return false
	})
	m := s.CreateMachine("one", full)
	wait.Receive(t, "the older manager is asked to end during the run", cut.sprung)
	b.startAfter(t, newer)
	b.expectReady(s, m)
	b.expectOne(s, m)

	for turn, program := range []*testsite.Program{older, newer, older} {
		b.engine.set(nil)
		_ = syscall.Kill(b.Process.PID(), syscall.SIGTERM)
		b.startAfter(t, program)
		b.letPass(t, s.Client, m)
		wait.Until(t, "no run is left", func() bool { return b.jobs(t) == 0 })

		for _, c := range b.engine.seen() {
			if !strings.HasPrefix(c.name, "GET ") && !strings.Contains(c.name, "/sso") {
				t.Errorf("turn %d: the engine got %s", turn, c)
			}
		}

		memory := fmt.Sprintf("%dGB", 5+turn)
		b.change(s, m, func(spec *infrav1.OLVMMachineSpec) { spec.VirtualMachine.Memory = memory })
		s.Eventually("the manager applies an edit of the machine", func() error {
			result, _, err := b.whatIs(s, m)
			if err == nil && result != "applied" {
				err = fmt.Errorf("the edit is %s", result)
			}

			return err
		})
		b.expectOne(s, m)
	}

	b.end(s, m)
}

// startAfter waits until the manager of the bench ends, and starts one of another build.
func (b *bench) startAfter(t *testing.T, program *testsite.Program) {
	t.Helper()
	ends(t, b.manager)

	b.manager = newManagerOf(t, program, b.args...)
	check.Error(t, b.Start(t.Context()), "")
}

// buildOlderManager returns the older manager: that of the flag, or one that differs in its version alone.
func buildOlderManager(t *testing.T) *testsite.Program {
	t.Helper()

	older := *suite.Program
	if older.Path = *olderManager; older.Path == "" {
		const version = "v0.0.1"
		older.Path = filepath.Join(t.TempDir(), "manager")
		command := exec.CommandContext(t.Context(), "go", "build", "-ldflags",
			"-s -w -X github.com/capolvm/cluster-api-provider-olvm/internal/version.Version="+version,
			"-o", older.Path, "./cmd/manager")
		command.Dir = suite.Tools.Root()
		out, err := command.CombinedOutput()
		check.Error(t, err, "")
		check.Equal(t, "go build", string(out), "")
	}

	said, err := exec.CommandContext(t.Context(), older.Path, "--version").CombinedOutput()
	check.Error(t, err, "")
	current, err := exec.CommandContext(t.Context(), suite.Program.Path, "--version").CombinedOutput()
	check.Error(t, err, "")
	check.Equal(t, "both have the same version", string(said) == string(current), false)

	return &older
}
