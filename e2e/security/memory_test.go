package security

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory returns the peak memory of a process in MiB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}

	match := peak.FindSubmatch(status)
	if match == nil {
		t.Fatalf("there is no peak in %s", status)
	}

	kilobytes, err := strconv.Atoi(string(match[1]))
	if err != nil {
		t.Fatal(err)
	}

	return kilobytes >> 10
}

// TestAnEndlessAnswerIsCutOff (row M5 of docs/operate/security.md) uses engines that answer with endless lists: one of
// empty items, and one of a single text.
func TestAnEndlessAnswerIsCutOff(t *testing.T) {
	for name, test := range map[string]struct{ begin, again, says string }{
		"items":      {"<data_centers>", strings.Repeat("<data_center/>", 4000), "more than 50000 items"},
		"elements":   {"<data_centers><data_center>", strings.Repeat("<a/>", 8000), "4000000 elements"},
		"text":       {"<data_centers><data_center><name>", strings.Repeat("x", 1<<16), "more than 16 MiB"},
		"attributes": {"<data_centers><data_center ", strings.Repeat(`a="" `, 8000), "a tag of more than 64 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testsite.New(t, suite.API.Client, testsite.Options{Gate: func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !strings.HasSuffix(r.URL.Path, "/datacenters") {
						next.ServeHTTP(w, r)
						return
					}

					w.Header().Set("Content-Type", "application/xml")

					_, err := io.WriteString(w, test.begin)
					for err == nil {
						_, err = io.WriteString(w, test.again)
					}
				})
			}})
			m := start(t, s, "")
			s.Eventually("the answer is refused", func() error { // a busy machine may need a second try
				message := s.ExpectCondition(
					s.OLVM, infrav1.EngineAvailableCondition, "False/"+infrav1.EngineUnreachableReason,
				)
				if !strings.Contains(message, test.says) {
					return fmt.Errorf("the condition says %q", message)
				}

				return nil
			})

			mebibytes := peakMemory(t, m.Process.PID())
			t.Logf("the peak was %d MiB", mebibytes)
			if mebibytes > 1024 { // memory limit of the manager in the Deployment
				t.Errorf("the manager took %d MiB", mebibytes)
			}
		})
	}
}
