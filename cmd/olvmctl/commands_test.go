package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	kyaml "sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

func TestClusterToDelete(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	content := "name: prod\nprovider: olvm\nproviders:\n  olvm:\n    namespace: ns\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		args            []string
		file, namespace string
		wantName        string
		wantNamespace   string
		fail            string
	}{
		"by its name":                     {args: []string{"prod"}, namespace: "a", wantName: "prod", wantNamespace: "a"},
		"by its file":                     {file: file, wantName: "prod", wantNamespace: "ns"},
		"by its file, with its namespace": {file: file, namespace: "ns", wantName: "prod", wantNamespace: "ns"},
		"by both":                         {args: []string{"prod"}, file: file, fail: "not both"},
		"by nothing":                      {fail: "a cluster file with -f"},
		"by a file that is not there":     {file: "none.yaml", fail: "none.yaml"},
		"in another namespace":            {file: file, namespace: "a", fail: "is in namespace ns; omit --namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			management := mgmtcluster.Options{Namespace: test.namespace}
			got, err := clusterToDelete(test.args, clusterFileFlags{path: test.file}, &management)
			if test.fail != "" {
				if err == nil || !strings.Contains(err.Error(), test.fail) {
					t.Errorf("got %v, want %q", err, test.fail)
				}

				return
			}

			check.Error(t, err, "")
			check.Equal(t, "got", got, test.wantName)
			check.Equal(t, "management.Namespace", management.Namespace, test.wantNamespace)
		})
	}
}

func TestVersion(t *testing.T) {
	s := newSite(t)

	code, out, problems := s.run("", "version", "-o", "json")
	var got versions
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, problems)
	}

	check.Set(t, "got.Version", got.Version)

	check.Set(t, "got.Go", got.Go)

	check.Set(t, "got.Platform", got.Platform)

	check.Set(t, "got.Executor", got.Executor)

	if _, out, _ := s.run("", "version"); !strings.HasPrefix(out, "olvmctl "+got.Version) {
		t.Errorf("in text: %s", out)
	}
}

func TestStatusOfTheLocalManagementCluster(t *testing.T) {
	testenv.EmptyState(t)
	s := &site{t: t}

	if code, out, _ := s.run("", "local", "status"); code != 0 || !strings.Contains(out, "to create one, run "+
		"olvmctl local start") {
		t.Errorf("there is none: exit code %d: %s", code, out)
	}

	folder := filepath.Dir(mgmtcluster.LocalOfUser().Kubeconfig())
	if err := os.MkdirAll(filepath.Join(folder, "data"), 0o700); err != nil {
		t.Fatal(err)
	}

	if code, out, _ := s.run("", "local", "status"); code != 0 || !strings.Contains(out, "is stopped") {
		t.Errorf("it is stopped: exit code %d: %s", code, out)
	}

	if err := os.WriteFile(filepath.Join(folder, "pid"), []byte("999999999\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	code, _, problems := s.run("", "local", "status")
	check.Equal(t, "exit code of one that was killed", code, 1)
	check.Contains(t, "what it says", problems, "stopped unexpectedly on ")
	check.Contains(t, "what it says", problems, "its process 999999999 was killed")
	check.Contains(t, "what it says", problems, "to start it again with its data, run olvmctl local start")
}

// TestStatusOfTheLocalManagementClusterForPrograms has a missing cluster, a stopped one, and a killed one. The output
// for programs has the same information as the output for users.
func TestStatusOfTheLocalManagementClusterForPrograms(t *testing.T) {
	testenv.EmptyState(t)
	s := &site{t: t}

	var status mgmtcluster.LocalStatus

	ask := func(format string) int {
		t.Helper()
		code, out, _ := s.run("", "local", "status", "-o", format)
		status = mgmtcluster.LocalStatus{}
		check.Error(t, kyaml.UnmarshalStrict([]byte(out), &status), "")

		return code
	}

	check.Equal(t, "exit code", ask("json"), 0)
	check.Equal(t, "state", status.State, mgmtcluster.LocalAbsent)

	_, name, _ := s.run("", "local", "status", "-o", "name")
	check.Equal(t, "name of none", name, "")

	folder := filepath.Dir(mgmtcluster.LocalOfUser().Kubeconfig())
	check.Error(t, os.MkdirAll(filepath.Join(folder, "data"), 0o700), "")
	check.Equal(t, "exit code", ask("yaml"), 0)
	check.Equal(t, "state", status.State, mgmtcluster.LocalStopped)
	check.Equal(t, "kubeconfig", status.Kubeconfig, mgmtcluster.LocalOfUser().Kubeconfig())

	_, name, _ = s.run("", "local", "status", "-o", "name")
	check.Equal(t, "name", name, "local\n")

	check.Error(t, os.WriteFile(filepath.Join(folder, "pid"), []byte("999999999\n"), 0o600), "")
	check.Equal(t, "exit code of one that was killed", ask("json"), 1)
	check.Equal(t, "state", status.State, mgmtcluster.LocalEnded)
	check.Contains(t, "why", status.Why, "its process 999999999 was killed")
}

// TestAPlanWhoseTerminalGoesLeavesNothing interrupts a plan as if its terminal closed, while the engine does not
// answer. The working directory of the plan contains the password, so it must not remain.
func TestAPlanWhoseTerminalGoesLeavesNothing(t *testing.T) {
	s := newSite(t)
	if err := s.sim.Inject(ovirtsim.Fault{Method: "GET", Path: "/api/vms", Action: "hang"}); err != nil {
		t.Fatal(err)
	}

	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	temporary := t.TempDir()
	command := exec.CommandContext(t.Context(), executable, "plan", "-f", "-", "--ca-file", s.caFile)
	command.Env = append(os.Environ(), asOlvmctl+"=1", "TMPDIR="+temporary)
	command.Stdin = strings.NewReader(s.manifests)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}

	left := func() []string {
		entries, err := filepath.Glob(filepath.Join(temporary, "olvmctl-*"))
		if err != nil {
			t.Fatal(err)
		}

		return entries
	}
	wait.Until(t, "the plan comes to its working directory", func() bool { return len(left()) > 0 })

	if err := command.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}

	_ = command.Wait()
	if code := command.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d, want 1: %s", code, command.ProcessState)
	}

	if there := left(); len(there) > 0 {
		t.Errorf("left behind: %v", there)
	}
}
