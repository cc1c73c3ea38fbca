// Command olvmctl plans the changes of Cluster API manifests and cluster files, and manages running clusters.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capolvm/cluster-api-provider-olvm/cmd/manager/command"
	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/plaintext"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/shellword"
	"github.com/capolvm/cluster-api-provider-olvm/internal/providerprocess"
)

// managerCommand is the argument that makes olvmctl run as the manager.
const managerCommand = "manager"

// errChanges ends a plan with changes. The exit code is 2, without a message.
var errChanges = errors.New("there are changes")

func main() {
	providerprocess.RunIfChild()
	hostos.KeepFilesPrivate()                             // only this user may read rendered secrets
	if len(os.Args) > 1 && os.Args[1] == managerCommand { // used by local management clusters
		os.Args = os.Args[1:]
		os.Exit(command.Main())
	}

	ctrllog.SetLogger(logr.Discard()) // the errors of the clients are sufficient
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		ends = append(ends, syscall.SIGHUP)
	}

	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	context.AfterFunc(ctx, func() {
		time.AfterFunc(patience, func() { fmt.Fprintln(os.Stderr, endsSafely) })
	})
	ran, err := newCommand(streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}).ExecuteContextC(ctx)
	code := exitCode(markInterrupted(ctx, err))
	if code != 0 && ctx.Err() != nil {
		_, _ = io.WriteString(os.Stderr, resumeHint(ran.CommandPath(), os.Args[1:]))
	}

	os.Exit(code)
}

// patience is the time before an interrupted command prints a message.
const patience = 2 * time.Second

// endsSafely is the message if an interrupted command is still running.
const endsSafely = "olvmctl: interrupted; finishing the current step and cleaning up. Press Ctrl-C again to exit " +
	"at once"

// resumable lists the commands that continue when the user runs them again.
var resumable = []string{
	"olvmctl start", "olvmctl move", "olvmctl delete", "olvmctl upgrade", "olvmctl scale", "olvmctl local start",
	"olvmctl local stop", "olvmctl image create", "olvmctl image upload", "olvmctl image template",
}

// resumeHint returns how to continue after an interrupt: with the same command. It returns "" for a command that cannot
// continue.
func resumeHint(command string, arguments []string) string {
	if !slices.Contains(resumable, command) {
		return ""
	}

	line := "olvmctl"
	for _, argument := range arguments {
		line += " " + shellword.QuoteWord(argument)
	}

	return "olvmctl: to resume, run: " + plaintext.Printable(line) + "\n"
}

// markInterrupted marks an error as an interrupt if a signal has caused it.
func markInterrupted(ctx context.Context, err error) error {
	said := errors.Is(err, progress.ErrInterrupted) || errors.Is(err, errChanges) || errors.Is(err, errInvalid) ||
		errors.Is(err, errUnwell)
	if err == nil || ctx.Err() == nil || said {
		return err
	}

	return fmt.Errorf("%w: %w", progress.ErrInterrupted, err)
}

// exitCode returns 0 for success, 2 for a plan with changes, and 1 for an error.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errChanges):
		return 2
	case errors.Is(err, errInvalid), errors.Is(err, errUnwell): // already printed
		return 1
	default:
		fmt.Fprintln(os.Stderr, "olvmctl:", plaintext.Printable(err.Error())) // it may quote manifests of a stranger
		return 1
	}
}
