// Package nodes runs what the simulator's VMs are on request: Linux machines with systemd, cloud-init and kubeadm, with
// the managers of Cluster API and ours.
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

// suite is what all tests share.
var suite struct {
	// skip says why nothing is run here; nil where it is.
	skip  error
	tools *toolchain.Toolchain
	// image is the newest one, before that of the patch version before it.
	image, before nodeimage.Image
	dir           string
	binDir        string
	// site is what machines of this process leave.
	site machine.Site
	// plane is started by the first test that needs it, under the lock.
	starting sync.Mutex
	plane    *simplane.Plane
}

// inside tells the process that runs in a network namespace of its own, and has the folder of the suite.
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
		return m.Run(), nil //nolint:nilerr // each test says so
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
	clean, err := suite.site.Watch()
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

// requireNodes skips a test in short mode, and if this machine cannot run nodes.
func requireNodes(t *testing.T) {
	t.Helper()
	testenv.SkipInShort(t, "boots Linux machines with kubelets")

	if suite.skip != nil {
		t.Skip(suite.skip)
	}
}

func say(format string, args ...any) { fmt.Printf("nodes: "+format+"\n", args...) }

// prepare builds what is run, and then runs this program again in a network namespace of its own: the management plane,
// the simulator and the networks of its VMs are in it, so that all reach one another, and nobody else.
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

	runtime.LockOSThread() // the child ends with this thread
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
