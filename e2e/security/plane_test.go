package security

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// children returns the command lines of those child processes that run a program.
func children(t *testing.T, program string) [][]string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}

	var out [][]string

	for _, path := range stats {
		stat, err := os.ReadFile(path)
		_, rest, ok := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if err != nil || !ok || len(fields) < 2 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}

		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		arguments := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		if filepath.Base(arguments[0]) == program {
			out = append(out, arguments)
		}
	}

	return out
}

// argument returns the value of a flag in a command line.
func argument(line []string, name string) string {
	at := slices.IndexFunc(line, func(word string) bool { return strings.HasPrefix(word, "--"+name+"=") })
	if at < 0 {
		return ""
	}

	return strings.TrimPrefix(line[at], "--"+name+"=")
}

// TestEtcdOfALocalPlaneAnswersNobodyElse (row H1 of docs/operate/security.md) attacks the etcd of local planes as any
// process of the host can. It reads the arguments of etcd, and sends requests. The etcd of a persistent plane must sync
// its data to disk.
func TestEtcdOfALocalPlaneAnswersNobodyElse(t *testing.T) {
	for name, persistent := range map[string]bool{"one that stays": true, "one for a while": false} {
		t.Run(name, func(t *testing.T) {
			if !persistent {
				testenv.SkipInShort(t, "starts etcd with the arguments of the other one, but for where its data are")
			}

			options := localplane.Options{
				Tools:   suite.Tools,
				Dir:     filepath.Join(suite.Dir, fmt.Sprintf("plane-%t", persistent)),
				OnlyAPI: true,
			}
			if persistent {
				options.DataDir = filepath.Join(options.Dir, "data")
			}

			before := children(t, "etcd")
			plane, err := localplane.Start(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			defer plane.Stop()
			secret := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"},
				StringData: map[string]string{"a": canary},
			}
			if err := plane.Client.Create(t.Context(), secret); err != nil {
				t.Fatal(err)
			}

			etcds := slices.DeleteFunc(children(t, "etcd"), func(line []string) bool {
				return slices.ContainsFunc(before, func(other []string) bool { return slices.Equal(line, other) })
			})
			if len(etcds) != 1 {
				t.Fatalf("%d etcds were started", len(etcds))
			}

			line := etcds[0]
			if unsafe := argument(line, "unsafe-no-fsync") == "true"; unsafe == persistent {
				t.Errorf("data that stay: %t; etcd runs with %q", persistent, line)
			}

			for _, url := range []string{argument(line, "listen-client-urls"), argument(line, "listen-peer-urls"),
				argument(line, "listen-metrics-urls")} {
				for _, path := range []string{"/v3/kv/range", "/v3/maintenance/snapshot", "/version", "/members",
					"/raft"} {
					if status := ask(t.Context(), url+path); status != 0 && status != http.StatusNotFound {
						t.Errorf("somebody without a certificate gets HTTP %d for %s%s", status, url, path)
					}
				}
			}

			if info, err := os.Stat(argument(line, "key-file")); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("the key is %v, %v", info, err)
			}
		})
	}
}

// ask sends a request that reads everything in etcd. It returns the status, or 0 if there is no answer.
func ask(ctx context.Context, url string) int {
	client := &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url,
		strings.NewReader(`{"key":"AA==","range_end":"AA=="}`))
	if err != nil {
		return -1
	}

	response, err := client.Do(request)
	if err != nil {
		return 0
	}

	_ = response.Body.Close()

	return response.StatusCode
}
