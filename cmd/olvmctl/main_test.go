package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// asOlvmctl makes the test binary run as olvmctl, to test separate processes: their terminals, signals and trust.
const asOlvmctl = "TEST_AS_OLVMCTL"

func TestMain(m *testing.M) {
	if os.Getenv(asOlvmctl) != "" {
		main()
	}

	code := m.Run()
	stopManagementClusters()
	os.Exit(code)
}

// TestAnInterruptedCommandSaysHowToGoOn checks the command line that users can copy.
func TestAnInterruptedCommandSaysHowToGoOn(t *testing.T) {
	for command, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"olvmctl start": {[]string{"start", "-f", "my cluster.yaml"},
			"olvmctl: to resume, run: olvmctl start -f 'my cluster.yaml'\n"},
		"olvmctl local start": {
			[]string{"local", "start"}, "olvmctl: to resume, run: olvmctl local start\n",
		},
		"olvmctl delete": {[]string{"delete", "it's", "$HOME", ""},
			"olvmctl: to resume, run: olvmctl delete 'it'\\''s' '$HOME' ''\n"},
		"olvmctl plan": {[]string{"plan", "x"}, ""},
	} {
		check.Equal(t, command, resumeHint(command, test.arguments), test.want)
	}
}

// TestEachResumableCommandExists checks the names in the list of resumable commands.
func TestEachResumableCommandExists(t *testing.T) {
	root := newCommand(streams{})

	for _, path := range resumable {
		found, _, err := root.Find(strings.Fields(path)[1:])
		check.Error(t, err, "")
		check.Equal(t, path, found.CommandPath(), path)
	}
}

func TestErrorsAfterAnInterrupt(t *testing.T) {
	interruptedContext, cancel := context.WithCancel(t.Context())
	cancel()
	waited := fmt.Errorf("%w while waiting: no machines", progress.ErrInterrupted)

	for name, test := range map[string]struct {
		ctx  context.Context
		err  error
		want string
		code int
	}{
		"a wait says itself that it was interrupted":   {interruptedContext, waited, waited.Error(), 1},
		"another error says that it was interrupted":   {interruptedContext, context.Canceled, "interrupted: context canceled", 1},
		"a plan with changes keeps its exit code":      {interruptedContext, errChanges, errChanges.Error(), 2},
		"an error before any interrupt stays as it is": {t.Context(), errors.New("no"), "no", 1},
	} {
		t.Run(name, func(t *testing.T) {
			err := markInterrupted(test.ctx, test.err)
			if err.Error() != test.want {
				t.Errorf("got %q, want %q", err, test.want)
			}

			if code := exitCode(err); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
		})
	}
}
