package progress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
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
				d.PrintLine("%d of %d", 1, 2)
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
			d := NewDisplay(&out)
			_ = d.RunStep("Asking", func() error { return test.run(d) })
			if diff := cmp.Diff(test.want, out.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWaitNamesWhatItWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noMachines := func(context.Context) error { return errors.New("no machines") }
		var out bytes.Buffer

		err := NewDisplay(&out).WaitFor(t.Context(), time.Millisecond, noMachines)
		if err == nil || err.Error() != "timed out after 1ms: no machines" {
			t.Errorf("after the timeout: %v", err)
		}

		ctx, cancel := context.WithCancel(t.Context())
		err = NewDisplay(&out).WaitFor(ctx, time.Minute, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()

			return errors.New("no machines")
		})
		if !errors.Is(err, ErrInterrupted) || !strings.HasSuffix(err.Error(), "no machines") {
			t.Errorf("after an interrupt: %v", err)
		}
	})
}

func TestWaitEndsWhenAnErrorStaysFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var out bytes.Buffer

		err := NewDisplay(&out).WaitFor(t.Context(), time.Hour, func(context.Context) error {
			if time.Since(begin) < 5*time.Second {
				return MarkFinal(errors.New("no template")) // a transient error
			}

			if time.Since(begin) < 8*time.Second {
				return errors.New("no address")
			}

			return fmt.Errorf("Machine a: %w", MarkFinal(errors.New("no network")))
		})
		check.Error(t, err, "cannot make progress: Machine a: no network")
		check.Equal(t, "the time that it waits", time.Since(begin), 8*time.Second+finalAfter)
	})
}

func TestWaitShowsWhatItWaitsForInALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := "no address\n" + strings.Repeat("ä", 300)
		var out bytes.Buffer

		err := NewDisplay(
			&out,
		).WaitFor(t.Context(), 25*time.Second, func(context.Context) error { return errors.New(long) })
		check.Error(t, err, long)

		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		check.Length(t, "lines: at once, and each ten seconds", lines, 3)

		for _, line := range lines {
			check.Contains(t, "line", line, "no address ää")
			check.Contains(t, "line", line, "ä …")
			if len(line) > maxNews+20 {
				t.Errorf("a line of %d bytes", len(line))
			}
		}
	})
}

func TestNoStepIsSilentFor15Seconds(t *testing.T) {
	for name, test := range map[string]struct {
		run  func(d *Display, step func() error) error
		step func(d *Display) error
		want string
	}{
		"a step that says nothing": {
			run: func(d *Display, step func() error) error { return d.RunStep("Asking", step) },
			step: func(*Display) error {
				time.Sleep(25 * time.Second)
				return nil
			},
			want: "Asking: \n  Asking: 10 s elapsed\n  Asking: 20 s elapsed\nAsking: ok (25 s)\n",
		},
		"a quiet step": {
			run: func(d *Display, step func() error) error { return d.RunQuietly("Looking", step) },
			step: func(*Display) error {
				time.Sleep(12 * time.Second)
				return nil
			},
			want: "  Looking: 10 s elapsed\n",
		},
		"a step that says something itself": {
			run: func(d *Display, step func() error) error { return d.RunStep("Asking", step) },
			step: func(d *Display) error {
				for range 4 {
					time.Sleep(8 * time.Second)
					d.PrintLine("one more")
				}

				return nil
			},
			want: "Asking: \n  one more\n  one more\n  one more\n  one more\nAsking: ok (32 s)\n",
		},
		"a quick quiet step": {
			run:  func(d *Display, step func() error) error { return d.RunQuietly("Looking", step) },
			step: func(*Display) error { return nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				d := NewDisplay(&out)
				check.Error(t, test.run(d, func() error { return test.step(d) }), "")
				check.Equal(t, "what is said", out.String(), test.want)
			})
		})
	}
}
