// Command olvmctl plans what Cluster API manifests and cluster files ask for, and looks after clusters that run.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capolvm/cluster-api-provider-olvm/cmd/manager/command"
	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/providerprocess"
)

// managerCommand has olvmctl run as the manager.
const managerCommand = "manager"

// errChanges ends a plan that has changes: exit code 2 and no message.
var errChanges = errors.New("there are changes")

func main() {
	providerprocess.Main()
	hostos.KeepFilesPrivate()                             // rendered secrets are for this user alone
	if len(os.Args) > 1 && os.Args[1] == managerCommand { // in local management clusters
		os.Args = os.Args[1:]
		os.Exit(command.Main())
	}

	ctrllog.SetLogger(logr.Discard()) // clients have nothing to log that an error does not say
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		ends = append(ends, syscall.SIGHUP)
	}

	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	err := newCommand(streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}).ExecuteContext(ctx)
	os.Exit(exitCode(interrupted(ctx, err)))
}

// interrupted says of an error after a signal that it comes from that.
func interrupted(ctx context.Context, err error) error {
	said := errors.Is(err, progress.ErrInterrupted) || errors.Is(err, errChanges) || errors.Is(err, errInvalid) ||
		errors.Is(err, errUnwell)
	if err == nil || ctx.Err() == nil || said {
		return err
	}

	return fmt.Errorf("%w: %w", progress.ErrInterrupted, err)
}

// exitCode is 0 for success, 2 for a plan with changes, 1 for an error.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errChanges):
		return 2
	case errors.Is(err, errInvalid), errors.Is(err, errUnwell): // said already
		return 1
	default:
		fmt.Fprintln(os.Stderr, "olvmctl:", preview.Printable(err.Error())) // it may quote manifests of a stranger
		return 1
	}
}
