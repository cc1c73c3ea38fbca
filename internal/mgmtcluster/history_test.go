package mgmtcluster

import (
	"strings"
	"testing"
)

func TestLinesAboutAMachine(t *testing.T) {
	log := strings.Join([]string{
		`2026-11-22T05:00:00.5Z I1122 05:00:00 "Terraform run succeeded" OLVMMachine="ns/m-1" added=4`,
		`2026-11-22T05:00:01Z I1122 05:00:01 "Terraform run succeeded" OLVMMachine="ns/m-10" added=4`,
		`not a line of a log about "ns/m-1"`,
	}, "\n")
	lines, err := linesAbout(strings.NewReader(log), "ns/m-1")
	if err != nil || len(lines) != 1 || !strings.Contains(lines[0].Message, "added=4") || lines[0].Time.Second() != 0 {
		t.Errorf("%+v, %v", lines, err)
	}
}
