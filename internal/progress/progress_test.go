package progress

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStep(t *testing.T) {
	for name, test := range map[string]struct {
		run  func(*Display) error
		want string
	}{
		"a quick step is one line": {
			run:  func(*Display) error { return nil },
			want: "Asking: ok (0 s)\n",
		},
		"what is said stands below the step": {
			run: func(d *Display) error {
				d.Say("%d of %d", 1, 2)
				return nil
			},
			want: "Asking: \n  1 of 2\nAsking: ok (0 s)\n",
		},
		"each line that is written stands below the step": {
			run: func(d *Display) error {
				_, err := d.Write([]byte("one\ntwo\n"))
				return err
			},
			want: "Asking: \n  one\n  two\nAsking: ok (0 s)\n",
		},
		"a step that fails says so": {
			run:  func(*Display) error { return errors.New("no") },
			want: "Asking: failed\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			d := To(&out)
			_ = d.Step("Asking", func() error { return test.run(d) })
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWaitNamesWhatItWaitedFor(t *testing.T) {
	noMachines := func(context.Context) error { return errors.New("no machines") }
	var out bytes.Buffer

	err := To(&out).Wait(t.Context(), time.Millisecond, noMachines)
	if err == nil || err.Error() != "not done after 1ms: no machines" {
		t.Errorf("after the timeout: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	err = To(&out).Wait(ctx, time.Minute, func(ctx context.Context) error {
		cancel()
		<-ctx.Done()

		return errors.New("no machines")
	})
	if !errors.Is(err, ErrInterrupted) || !strings.HasSuffix(err.Error(), "no machines") {
		t.Errorf("after an interrupt: %v", err)
	}
}
