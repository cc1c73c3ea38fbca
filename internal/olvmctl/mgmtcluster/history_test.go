package mgmtcluster

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// lastYearOf returns the year of a klog line from the given month. The line is read at time now. If now is in December,
// the next month belongs to the year that is ending.
func lastYearOf(now, month time.Time) int {
	if month.Month() < now.Month() {
		return now.Year()
	}

	return now.Year() - 1
}

func TestLinesAboutAMachine(t *testing.T) {
	now := time.Now()
	klog := now.Add(-time.Minute).Format("I0102 15:04:05.000000")
	nextMonth := time.Date(now.Year(), now.Month()+1, 15, 12, 0, 0, 0, time.Local)
	machine := &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m-1"}}

	for name, test := range map[string]struct {
		read  func(string) (time.Time, string, error)
		lines []string
		want  time.Time
	}{
		"of a pod": {
			read: podLine,
			lines: []string{
				`2026-11-22T05:00:00.5Z I1122 05:00:00 "Terraform run succeeded" OLVMMachine="ns/m-1" added=4`,
				`2026-11-22T05:00:01Z I1122 05:00:01 "Terraform run succeeded" OLVMMachine="ns/m-10" added=4`,
				`not a line of a log about "ns/m-1"`,
			},
			want: time.Date(2026, 11, 22, 5, 0, 0, 5e8, time.UTC),
		},
		"of the local management cluster": {
			read: klogLine,
			lines: []string{
				klog + `    1547 runs.go:265] "Terraform run succeeded" OLVMMachine="ns/m-1" added=4`,
				klog + `    1547 runs.go:265] "Terraform run succeeded" OLVMMachine="ns/m-10" added=4`,
				`"ns/m-1"`,
			},
			want: now.Add(-time.Minute).Truncate(time.Microsecond),
		},
		"of last year": {
			read:  klogLine,
			lines: []string{nextMonth.Format("I0102 15:04:05.000000") + `    1547 runs.go:265] "Terraform run succeeded" OLVMMachine="ns/m-1" added=4`},
			want:  time.Date(lastYearOf(now, nextMonth), nextMonth.Month(), 15, 12, 0, 0, 0, time.Local),
		},
	} {
		t.Run(name, func(t *testing.T) {
			lines, err := linesAbout(strings.NewReader(strings.Join(test.lines, "\n")), test.read, machine)
			check.Error(t, err, "")
			check.Length(t, "lines", lines, 1)

			for _, line := range lines {
				check.Contains(t, "message", line.Message, "added=4")
				check.Equal(t, "time", line.Time.UTC(), test.want.UTC())
			}
		})
	}
}

// TestAnEventIsNotTwiceInAHistory has two lines in the log of a manager. The API server still has the event of one
// line, but not that of the other.
func TestAnEventIsNotTwiceInAHistory(t *testing.T) {
	entry := func(message string) HistoryEntry { return HistoryEntry{Kind: "manager", Message: message} }
	line := func(reason, note string) string {
		return `18094 event_broadcaster.go:338] "Event occurred" logger="events" object="ns/m-1" kind="OLVMMachine" ` +
			`type="Normal" reason="` + reason + `" action="Reconcile" note="` + note + `"`
	}
	events := []HistoryEntry{{Kind: "OLVMMachine", Reason: "SuccessfulApply", Message: `created VM "m-1"`}}

	got := withoutEvents([]HistoryEntry{
		entry(line("SuccessfulApply", `created VM \"m-1\"`)), entry(line("FailedApply", "no disk")), entry("Terraform run"),
	}, events)
	check.Equal(t, "lines", got, []HistoryEntry{entry(line("FailedApply", "no disk")), entry("Terraform run")})
}
