package mgmtcluster

import (
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestLinesAboutAMachine(t *testing.T) {
	log := strings.Join([]string{
		`2026-11-22T05:00:00.5Z I1122 05:00:00 "Terraform run succeeded" OLVMMachine="ns/m-1" added=4`,
		`2026-11-22T05:00:01Z I1122 05:00:01 "Terraform run succeeded" OLVMMachine="ns/m-10" added=4`,
		`not a line of a log about "ns/m-1"`,
	}, "\n")
	lines, err := linesAbout(strings.NewReader(log), "ns/m-1")
	check.Error(t, err, "")
	check.Length(t, "lines", lines, 1)
	check.Contains(t, "lines[0].Message", lines[0].Message, "added=4")
	check.Equal(t, "lines[0].Time.Second()", lines[0].Time.Second(), 0)
}
