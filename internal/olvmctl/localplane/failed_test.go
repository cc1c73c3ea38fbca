package localplane

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// TestFailedNamesTheFirst ends processes one after the other, because the first end may cause the later ones.
func TestFailedNamesTheFirst(t *testing.T) {
	p := &Plane{options: Options{Dir: t.TempDir()}}
	t.Cleanup(p.Stop)

	start := func(name, script string) *Process {
		process, err := p.RunProcess(name, "/bin/sh", []string{"-c", script})
		check.Error(t, err, "")

		return process
	}

	stopped := start("stopped", "exec sleep 1000")
	later := start("later", "exec sleep 1000")
	first := start("first", "echo one; echo two >&2; exit 3")
	start("alive", "exec sleep 1000")

	stopped.Stop(stopGrace)
	<-first.Done()

	_ = later.command.Process.Kill()
	<-later.Done()

	err := p.Failed()
	check.Error(t, err, "first exited: exit status 3; last lines of "+first.LogFile)
	check.Contains(t, "the error", fmt.Sprint(err), "\none\ntwo")
	check.Lacks(t, "the error", fmt.Sprint(err), "later")
}

func TestTail(t *testing.T) {
	for name, test := range map[string]struct{ log, want string }{
		"a short log is all there": {"one\ntwo\n", "one\ntwo"},
		"of a long one the end":    {strings.Repeat("x\n", 20) + "end\n", strings.Repeat("x\n", 7) + "end"},
		"of a long line the beginning": {
			strings.Repeat("y", 400) + "\nend\n", strings.Repeat("y", 300) + " …\nend",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "log")
			check.Error(t, os.WriteFile(file, []byte(test.log), 0o600), "")
			check.Equal(t, "tail", ReadTail(file), test.want)
		})
	}
}

// TestAProcessOfEnvtestThatFails has a toolchain with an unusable etcd or kube-apiserver. envtest does not report the
// reason.
func TestAProcessOfEnvtestThatFails(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())

	tools, err := toolchain.New()
	check.Error(t, err, "")

	assets, err := tools.Dir("plane")
	check.Error(t, err, "")
	check.Error(t, os.MkdirAll(assets, 0o700), "")

	script := []byte("#!/bin/sh\necho \"I have no fsync\"\necho \"and no luck\" >&2\nexit 1\n")
	check.Error(t, os.WriteFile(filepath.Join(assets, "etcd"), script, 0o700), "")

	dir := t.TempDir()
	_, err = Start(t.Context(), Options{Tools: tools, Dir: dir})
	log := filepath.Join(dir, "etcd.log")
	check.Error(t, err, "failed to start etcd and kube-apiserver: etcd did not start; last lines of "+log)
	check.Contains(t, "the error", fmt.Sprint(err), "and no luck\n")

	content, err := os.ReadFile(log)
	check.Error(t, err, "")
	check.Contains(t, "the log", string(content), "I have no fsync\n")
}
