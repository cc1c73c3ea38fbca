package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// TestNothingIsLeftOfASimulatorThatIsKilled kills a simulator with kill -9 while a machine runs in its network
// namespace.
func TestNothingIsLeftOfASimulatorThatIsKilled(t *testing.T) {
	requireNodes(t)

	connection := filepath.Join(t.TempDir(), "ovirtsim.json")
	sim := exec.Command(filepath.Join(suite.binDir, "ovirtsim"), "--connection", connection, "--guests=nodes",
		"--node-image", suite.image.Dir()) //nolint:noctx // it is killed
	sim.Stderr = os.Stderr
	check.Error(t, sim.Start(), "")
	t.Cleanup(func() { _ = sim.Process.Kill() })

	wait.For(t, "the simulator serves", func() error {
		_, err := os.Stat(connection)
		return err
	})
	startAMachine(t, connection)

	site := fmt.Sprintf("ovirtsim-%d", sim.Process.Pid)
	dir := filepath.Join(filepath.Dir(suite.image.Dir()), fmt.Sprintf("disks-%d", sim.Process.Pid))
	wait.For(t, "the machine runs", func() error {
		if left := traces(site, dir); len(left) < 3 {
			return fmt.Errorf("only %v", left)
		}

		return nil
	})

	check.Error(t, sim.Process.Kill(), "")
	_ = sim.Wait()
	wait.For(t, "nothing is left", func() error {
		if left := traces(site, dir); len(left) > 0 {
			return fmt.Errorf("left: %v", left)
		}

		return nil
	})
}

// startAMachine creates and starts a VM.
func startAMachine(t *testing.T, connection string) {
	t.Helper()
	content, err := os.ReadFile(connection)
	check.Error(t, err, "")

	var c ovirtsim.Connection
	check.Error(t, json.Unmarshal(content, &c), "")
	ca, err := os.ReadFile(c.CAFile)
	check.Error(t, err, "")

	session, err := engine.New(engine.Config{URL: c.URL, Username: c.Username, Password: c.Password, CA: ca})
	check.Error(t, err, "")

	ctx := t.Context()
	templates, err := session.FindTemplates(ctx, nil, "debian-k8s")
	check.Error(t, err, "")
	check.Equal(t, "templates", len(templates), 1)

	made, err := session.CreateVM(ctx, &engine.VM{
		Name:     "killed",
		Cluster:  templates[0].Cluster,
		Template: engine.NewRef(templates[0].ID),
	}, nil)
	check.Error(t, err, "")
	check.Error(t, engine.Wait(ctx, "the VM to start", func(ctx context.Context) (bool, string, error) {
		err := session.StartVM(ctx, made.ID, false)
		return err == nil, "", err
	}, nil), "")
}

// traces returns the cgroups, processes, namespaces and folders that a simulator leaves.
func traces(site, dir string) []string {
	var out []string

	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == site {
			out = append(out, path)
		}

		return nil
	})

	if _, err := os.Stat("/run/netns/" + site); err == nil {
		out = append(out, "network namespace "+site)
	}

	if _, err := os.Stat(dir); err == nil {
		out = append(out, dir)
	}

	processes, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, path := range processes {
		content, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(content), "/"+site+"/") {
			out = append(out, path)
		}
	}

	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return append(out, err.Error())
	}

	for _, line := range strings.Split(string(mounts), "\n") {
		if strings.Contains(line, dir) {
			out = append(out, line)
		}
	}

	return out
}
