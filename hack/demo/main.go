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
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"

	"github.com/go-logr/logr"
)

func main() {
	syscall.Umask(0o077)
	keep := flag.Bool("keep", false, "stay up until Ctrl-C")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ctrl.SetLogger(logr.Discard()) // the libraries' own words go nowhere; errors come back
	d := &demo{start: time.Now(), out: os.Stdout, keep: *keep}
	err := d.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo failed after %.0f s: %v\n", time.Since(d.start).Seconds(), err)
		if d.dir != "" {
			fmt.Fprintf(os.Stderr, "the logs of all processes are in %s\n", d.dir)
		}

		os.Exit(1)
	}
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
