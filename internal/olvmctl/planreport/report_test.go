package planreport

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestAPlanWithoutAnEngineCountsNothingThatItDoesNotKnow(t *testing.T) {
	t.Parallel()

	machines := []*Result{{Name: "one"}, {Name: "two"}}
	for offline, want := range map[bool]string{
		true:  "Plan: what would become of 2 machines is not known offline, 0 to destroy",
		false: "Plan: 0 to create, 0 to update, 0 to replace, 0 to destroy",
	} {
		report := New(Findings{Machines: machines, Offline: offline})
		check.Equal(t, "the summary", report.Summary.String(), want)
	}
}
