// Command demo runs the whole product once, as local processes: a management plane, the engine simulator, our manager,
// and a cluster from config/samples.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capolvm/cluster-api-provider-olvm/internal/filelock"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/nodeimage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"

	"github.com/go-logr/logr"
)

func main() {
	machine.Main()
	syscall.Umask(0o077)
	keep := flag.Bool("keep", false, "stay up until Ctrl-C")
	nodes := flag.String("nodes", "simulated", "simulated, or real for Linux machines with kubelets, as root")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctrl.SetLogger(logr.Discard()) // discards the logs of libraries, because the libraries also return their errors
	d := &demo{
		start: sinceVariable(time.Now()), out: os.Stdout, errors: os.Stderr, keep: *keep,
		netns: os.Getenv(netnsVariable),
	}
	code, err := d.main(ctx, *nodes)
	stop()
	if err != nil {
		d.explainFailure(err)
		os.Exit(1)
	}

	os.Exit(code)
}

// main runs the demo. A demo with real nodes runs in a network namespace.
func (d *demo) main(ctx context.Context, nodes string) (code int, err error) {
	switch nodes {
	case "simulated":
		return 0, d.runDemo(ctx)
	case "real":
	default:
		return 0, fmt.Errorf("NODES=%s: it is simulated or real", nodes)
	}

	if err := nodeimage.Check(); err != nil {
		return 0, err
	}

	d.real = true
	if d.netns == "" {
		return d.rerunInNetNS(ctx)
	}

	if err := machine.SetUpSite(); err != nil {
		return 0, err
	}

	return 0, d.runDemo(ctx)
}

// buildTools builds or finds the tools and the project's own commands.
func (d *demo) buildTools(ctx context.Context) error {
	tools, err := toolchain.New()
	if err != nil {
		return err
	}

	tools.Progress = d.reportProgress
	if err := tools.Build(ctx, "plane", localplane.Programs...); err != nil {
		return err
	}

	if d.executor, err = tools.EnsureExecutor(ctx); err != nil {
		return err
	}

	d.reportProgress("executor: %s", d.executor)
	// This folder is not that of make build, because the commands there have a version.
	d.binDir = filepath.Join(tools.Root(), "bin", ".demo")
	if err := tools.BuildProject(ctx, d.binDir, "manager", "ovirtsim"); err != nil {
		return err
	}

	d.tools = tools
	if d.real {
		return d.buildNodes(ctx)
	}

	return nil
}

// keptRuns is the number of earlier runs whose folders stay, for their logs.
const keptRuns = 4

// makeRunDir creates the folder of a new run, and removes the folders of old runs. Other demos do not remove the folder
// until the caller closes the returned file.
func makeRunDir(runs string, now time.Time) (dir string, inUse *os.File, err error) {
	if err := os.MkdirAll(runs, 0o700); err != nil {
		return "", nil, fmt.Errorf("failed to make a folder for the demo: %w", err)
	}

	if err := removeOldRuns(runs); err != nil {
		return "", nil, err
	}

	name := now.Format("20060102-150405")

	for n := 2; ; n++ {
		dir := filepath.Join(runs, name)

		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, os.ErrExist) { // another demo began in the same second
			name = fmt.Sprintf("%s-%d", now.Format("20060102-150405"), n)
			continue
		}

		if err != nil {
			return "", nil, fmt.Errorf("failed to make a folder for the demo: %w", err)
		}

		inUse, err := lockFolder(dir)

		return dir, inUse, err
	}
}

// removeOldRuns removes the folders of old runs. It keeps the last few, and those whose demo still runs.
func removeOldRuns(runs string) error {
	entries, err := os.ReadDir(runs) // sorted by name, and therefore by time
	if err != nil {
		return fmt.Errorf("failed to list earlier runs: %w", err)
	}

	for i := 0; i < len(entries)-keptRuns; i++ {
		dir := filepath.Join(runs, entries[i].Name())

		inUse, err := lockFolder(dir)
		if err != nil {
			continue
		}

		if err := errors.Join(os.RemoveAll(dir), inUse.Close()); err != nil {
			return fmt.Errorf("failed to remove an earlier run: %w", err)
		}
	}

	return nil
}

// lockFolder locks a folder. It fails if another process has locked the folder. Closing the file unlocks the folder.
func lockFolder(dir string) (*os.File, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("failed to open %s: %w", dir, err)
	}

	switch err := filelock.Exclusive(folder); {
	case errors.Is(err, filelock.ErrHeld):
		return nil, errors.Join(fmt.Errorf("another demo uses %s: %w", dir, err), folder.Close())
	case err != nil:
		return nil, errors.Join(err, folder.Close())
	}

	return folder, nil
}
