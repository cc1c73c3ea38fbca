// Command demo runs the whole product once on local processes: a management plane, the engine simulator, our manager,
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

	"github.com/capolvm/cluster-api-provider-olvm/internal/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/nodeimage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
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
	ctrl.SetLogger(logr.Discard()) // the libraries' own words go nowhere; errors come back
	d := &demo{start: sinceVariable(time.Now()), out: os.Stdout, keep: *keep, netns: os.Getenv(netnsVariable)}
	code, err := d.main(ctx, *nodes)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo failed after %.0f s: %v\n", time.Since(d.start).Seconds(), err)
		if d.dir != "" {
			fmt.Fprintf(os.Stderr, "the logs of all processes are in %s\n", d.dir)
		}

		os.Exit(1)
	}

	os.Exit(code)
}

// main runs the demo, with real nodes in a network namespace.
func (d *demo) main(ctx context.Context, nodes string) (code int, err error) {
	switch nodes {
	case "simulated":
		return 0, d.run(ctx)
	case "real":
	default:
		return 0, fmt.Errorf("NODES=%s: it is simulated or real", nodes)
	}

	if err := nodeimage.Check(); err != nil {
		return 0, err
	}

	d.real = true
	if d.netns == "" {
		return d.inNetNS(ctx)
	}

	if err := machine.SetUpSite(); err != nil {
		return 0, err
	}

	return 0, d.run(ctx)
}

// prepare builds or finds the tools and the project's own commands.
func (d *demo) prepare(ctx context.Context) (string, error) {
	tools, err := toolchain.New()
	if err != nil {
		return "", err
	}

	tools.Progress = d.say
	if err := tools.Build(ctx, "plane", localplane.Programs...); err != nil {
		return "", err
	}

	if d.executor, err = tools.EnsureExecutor(ctx); err != nil {
		return "", err
	}

	d.say("executor: %s", d.executor)
	binDir := filepath.Join(tools.Root(), "bin")
	if err := tools.BuildProject(ctx, binDir, "manager", "ovirtsim"); err != nil {
		return "", err
	}

	d.tools = tools
	if d.real {
		if err := d.buildNodes(ctx); err != nil {
			return "", err
		}
	}

	runs := filepath.Join(toolchain.CacheDir(), "demo")
	d.dir = filepath.Join(runs, time.Now().Format("20060102-150405"))

	return binDir, removeOld(runs)
}

// removeOld keeps the folders of the last few runs, whose logs may still be wanted.
func removeOld(runs string) error {
	const kept = 4
	entries, err := os.ReadDir(runs) // sorted by name, which is by time
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("failed to list earlier runs: %w", err)
	}

	for i := 0; i < len(entries)-kept; i++ {
		if err := os.RemoveAll(filepath.Join(runs, entries[i].Name())); err != nil {
			return fmt.Errorf("failed to remove an earlier run: %w", err)
		}
	}

	return nil
}
