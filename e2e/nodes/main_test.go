// Package nodes tests the real VMs that the simulator can run: Linux machines with systemd, cloud-init and kubeadm.
// Cluster API's managers and our manager control them.
package nodes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/nodeimage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/simplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// suite holds what all tests share.
var suite struct {
	// skip explains why nodes cannot run on this host; nil means that they can.
	skip  error
	tools *toolchain.Toolchain
	// image is the newest image. before is an image with the previous patch version.
	image, before nodeimage.Image
	dir           string
	binDir        string
	// site holds what this process's machines leave behind.
	site machine.Site
	// starting is held while the first test that needs the plane starts it.
	starting sync.Mutex
	plane    *simplane.Plane
}

// inside is the environment variable with the folder of the suite. It marks the process that runs in its own network
// namespace.
const inside = "CAPOLVM_NODES_INSIDE"

func TestMain(m *testing.M) {
	machine.Main()
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodes:", err)
		os.Exit(1)
	}

	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	suite.skip = nodeimage.Check()
	if suite.skip != nil || testing.Short() {
		return m.Run(), nil //nolint:nilerr // each test reports it
	}

	testenv.CollectLessGarbage()

	if suite.tools, err = toolchain.New(); err != nil {
		return 0, err
	}

	suite.tools.Progress = say
	builder := nodeimage.Builder{Tools: suite.tools, Say: say}
	if suite.image, suite.before, err = nodeimage.EnsureTested(context.Background(), builder); err != nil {
		return 0, err
	}

	if suite.dir = os.Getenv(inside); suite.dir == "" {
		return prepare()
	}

	if err := machine.SetUpSite(); err != nil {
		return 0, err
	}

	suite.binDir = filepath.Join(suite.dir, "bin")
	suite.site.Group = fmt.Sprintf("capolvm-test-%d", os.Getpid())
	clean, err := suite.site.StartCleaner()
	if err != nil {
		return 0, err
	}

	defer func() { err = errors.Join(err, clean()) }()

	code = testenv.RunAfterSetup(m)
	if suite.plane != nil {
		suite.plane.Stop()
	}

	return code, nil
}

// requireNodes skips a test in short mode, or if this host cannot run nodes.
func requireNodes(t *testing.T) {
	t.Helper()
	testenv.SkipInShort(t, "boots Linux machines with kubelets")

	if suite.skip != nil {
		t.Skip(suite.skip)
	}
}

func say(format string, args ...any) { fmt.Printf("nodes: "+format+"\n", args...) }

// prepare builds the programs, and then runs this program again in a new network namespace. The management plane, the
// simulator and the networks of its VMs share this namespace. They can reach each other, but nothing else.
func prepare() (int, error) {
	ctx := context.Background()
	if err := suite.tools.Build(ctx, "plane", localplane.Programs...); err != nil {
		return 0, err
	}

	if _, err := suite.tools.EnsureExecutor(ctx); err != nil {
		return 0, err
	}

	dir := filepath.Join(toolchain.CacheDir(), "e2e-nodes", time.Now().Format("20060102-150405"))
	if err := suite.tools.BuildProject(ctx, filepath.Join(dir, "bin"), "manager", "olvmctl", "ovirtsim"); err != nil {
		return 0, err
	}

	runtime.LockOSThread() // the child exits with this thread
	command := exec.Command("/proc/self/exe", os.Args[1:]...)
	command.Env = append(os.Environ(), inside+"="+dir)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return 0, fmt.Errorf("failed to run in a network namespace: %w", err)
	}

	err := command.Wait()
	if code := command.ProcessState.ExitCode(); code > 0 {
		fmt.Printf("nodes: the logs of all processes are in %s\n", dir)
		return code, nil
	}

	if err != nil {
		return 0, err
	}

	return 0, os.RemoveAll(dir)
}
