package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// newDemo returns a demo that writes output and errors to the same buffer.
func newDemo() (*demo, *bytes.Buffer) {
	var out bytes.Buffer
	return &demo{start: time.Now(), out: &out, errors: &out}, &out
}

// look returns the state of a test's goal at a time after the beginning.
type look func(since time.Duration) (seen string, reached bool, err error)

func TestWait(t *testing.T) {
	twoMachines := func(since time.Duration) (string, bool, error) {
		if since < 3*time.Second {
			return "no machines", false, nil
		}

		return "2 machines", false, nil
	}

	for name, test := range map[string]struct {
		look   look
		broken func(since time.Duration) error
		err    string
		said   []string
	}{
		"what is reached at once is not worth a word": {
			look: func(time.Duration) (string, bool, error) { return "", true, nil },
		},
		"what changes is said, and what does not each ten seconds, with what is missing": {
			look: func(since time.Duration) (string, bool, error) {
				seen, _, _ := twoMachines(since)
				return seen, since > 25*time.Second, nil
			},
			said: []string{"   0s  no machines", "   3s  2 machines", "  13s  2 machines; no node", "  23s  2 machines; no node"},
		},
		"a guest that fails, or a process, ends it at once": {
			look: twoMachines,
			broken: func(since time.Duration) error {
				if since < 4*time.Second {
					return nil
				}

				return errors.New("the guest of VM a did not come up")
			},
			err:  "the guest of VM a did not come up",
			said: []string{"   0s  no machines", "   3s  2 machines"},
		},
		"what it waits for counts before what broke meanwhile": {
			look:   func(time.Duration) (string, bool, error) { return "", true, nil },
			broken: func(time.Duration) error { return errors.New("too late") },
		},
		"an API server that is busy does not end it": {
			look: func(since time.Duration) (string, bool, error) {
				if since < 12*time.Second {
					return "", false, errors.New("etcdserver:\nrequest timed out")
				}

				return "", true, nil
			},
			said: []string{
				"   0s  the management cluster does not answer: etcdserver: request timed out",
				"  10s  the management cluster does not answer: etcdserver: request timed out; no node",
			},
		},
		"one that never is names what is missing in the end": {
			look: func(time.Duration) (string, bool, error) { return "no machines", false, nil },
			err:  "there is no cluster after 30s: no node",
			said: []string{"   0s  no machines", "  10s  no machines; no node", "  20s  no machines; no node"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, out := newDemo()
				err := d.waitForGoal(t.Context(), goal{
					unmet: "there is no cluster", limit: 30 * time.Second,
					look: func(context.Context) (string, bool, error) { return test.look(time.Since(d.start)) },
					broken: func(context.Context) error {
						if test.broken == nil {
							return nil
						}

						return test.broken(time.Since(d.start))
					},
					missing: func(context.Context) string { return "no node" },
				})
				check.Error(t, err, test.err)

				said := strings.Split(strings.TrimSpace(out.String()), "\n")
				for i, line := range said {
					said[i] = strings.TrimPrefix(line, "demo ")
				}

				check.Equal(t, "what is said", strings.Join(said, "\n"), strings.Join(test.said, "\n"))
			})
		})
	}
}

// TestABreakWhileTheServerHangs covers a process that ends while the API server hangs, as after the end of etcd. The
// demo does not wait for the server's answer.
func TestABreakWhileTheServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, out := newDemo()
		err := d.waitForGoal(t.Context(), goal{
			unmet: "there is no cluster", limit: time.Minute,
			look: func(ctx context.Context) (string, bool, error) {
				<-ctx.Done()
				return "", false, ctx.Err()
			},
			broken: func(context.Context) error {
				if time.Since(d.start) < time.Second {
					return nil
				}

				return errors.New("etcd ended")
			},
			missing: func(context.Context) string { return "" },
		})
		check.Error(t, err, "etcd ended")
		check.Equal(t, "time until it is said", time.Since(d.start), time.Second)
		check.Equal(t, "what is said", out.String(), "")
	})
}

// TestAServerThatHangs covers a look that never returns, as with an API server stopped by SIGSTOP.
func TestAServerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(12*time.Second, interrupt)

		d, out := newDemo()
		err := d.waitForGoal(ctx, goal{
			unmet: "there is no cluster", limit: time.Minute,
			look: func(ctx context.Context) (string, bool, error) {
				<-ctx.Done()
				return "", false, ctx.Err()
			},
			broken:  func(context.Context) error { return nil },
			missing: func(context.Context) string { return "" },
		})
		check.Error(t, err, "interrupted")
		check.Contains(t, "what is said", out.String(), "demo    5s  the management cluster does not answer: context deadline")
	})
}

func TestExplain(t *testing.T) {
	for name, test := range map[string]struct {
		err       error
		dir, want string
	}{
		"the cause comes first, then the logs": {
			errors.New("capolvm-manager ended: exit status 1"), "/run",
			"\ndemo failed after 7 s: capolvm-manager ended: exit status 1\n\nThe logs of all processes: /run/*.log\n",
		},
		"without a plane there are no logs": {
			errors.New("failed to build etcd"), "", "\ndemo failed after 7 s: failed to build etcd\n",
		},
		"Ctrl-C is no failure of the demo": {
			fmt.Errorf("the pods: %w", errInterrupted), "/run", "\ndemo interrupted after 7 s\n",
		},
		"nor during a start": {
			fmt.Errorf("failed to start etcd: %w", context.Canceled), "/run", "\ndemo interrupted after 7 s\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, out := newDemo()
				d.dir = test.dir
				time.Sleep(7 * time.Second)
				d.explainFailure(test.err)
				d.explainFailure(errors.New("a consequence"))
				check.Equal(t, "text", out.String(), test.want)
			})
		})
	}
}

func TestInFreeNetwork(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "demo.yaml"))
	check.Error(t, err, "")

	sample := string(content)
	check.Contains(t, "the sample", sample, fmt.Sprintf("host: %s.%d\n", sampleNetwork, endpointHost))
	check.Contains(t, "the sample", sample, fmt.Sprintf("port: %d\n", endpointPort))

	// Another demo may run, or a process that has made no reservation. In both cases, the first network is taken.
	listener, err := net.Listen("tcp", fmt.Sprintf("%s.%d:%d", sampleNetwork, endpointHost, endpointPort))
	if err == nil {
		defer listener.Close()
	}

	addresses := regexp.MustCompile(`127\.2\d\.\d+\.`)
	networks := map[string]bool{}

	for range 2 {
		manifests, moved, err := inFreeNetwork(sample)
		check.Error(t, err, "")
		check.Contains(t, "what is said", moved, "127.20.30.5:6443 is in use on this machine; the cluster is in 127.21.")
		check.Equal(t, "addresses", len(addresses.FindAllString(manifests, -1)), len(addresses.FindAllString(sample, -1)))

		for _, network := range addresses.FindAllString(manifests, -1) {
			networks[network] = true
		}

		check.Lacks(t, "manifests", manifests, sampleNetwork)
	}

	check.Equal(t, "networks of two demos", len(networks), 2)
}

func TestRunFolders(t *testing.T) {
	runs, now := t.TempDir(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

	var names []string

	for range 2 { // two demos started at the same moment both continue
		dir, inUse, err := makeRunDir(runs, now)
		check.Error(t, err, "")
		defer inUse.Close()

		names = append(names, filepath.Base(dir))
	}

	for i := range 7 {
		dir, inUse, err := makeRunDir(runs, now.Add(time.Duration(i+1)*time.Hour))
		check.Error(t, err, "")
		check.Error(t, inUse.Close(), "")

		names = append(names, filepath.Base(dir))
	}

	var left []string

	entries, err := os.ReadDir(runs)
	check.Error(t, err, "")

	for _, entry := range entries {
		left = append(left, entry.Name())
	}

	check.Equal(t, "folders: those in use, and of the others the last few", left, append(names[:2:2], names[4:]...))
	check.Equal(t, "names", names[:3], []string{"20260102-030405", "20260102-030405-2", "20260102-040405"})
}
