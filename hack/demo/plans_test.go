package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestChangesCanBeMadeToEachSample makes the demo's changes to each sample, so that an edited sample does not break the
// demo.
func TestChangesCanBeMadeToEachSample(t *testing.T) {
	for _, sample := range []string{"demo.yaml", "nodes.yaml"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", sample))
		check.Error(t, err, "")
		before, err := manifest.Read(content)
		check.Error(t, err, "")

		for i, more := range []int{0, 1, -1} { // numbers of objects
			changed, err := changes[i].make(string(content))
			check.Error(t, err, "")
			check.Equal(t, sample+": changed", changed != string(content), true)

			after, err := manifest.Read([]byte(changed))
			check.Error(t, err, "")
			check.Equal(t, sample+": objects, "+changes[i].what, len(after), len(before)+more)
		}
	}

	for _, one := range changes {
		_, err := one.make("kind: Cluster\n")
		check.Error(t, err, "can be changed")
	}
}

func TestTheBriefOfAPlanHasNoMachineThatStays(t *testing.T) {
	report := planreport.New(planreport.Findings{Machines: []*planreport.Result{
		{Name: "stays"},
		{Name: "a\x1b[2J", Destroyed: "its owner goes", Disks: []string{"root 50GB", "data 20GB"}},
		{Name: "b", Refused: "no host"},
		{Name: "c", Replaces: "d", Addresses: []string{"10.0.0.7"}},
	}, Owners: []planreport.OwnerChange{{
		Cluster: "demo", Namespace: "default", From: "MachineDeployment/md", Machines: 1, Replicas: 1,
		Reasons: []string{"template a becomes b"}, Differences: []string{"memory: 16GB -> 24GB"},
	}}})

	text := summarizeReport(report)
	check.Lacks(t, "the text", text, "stays")
	check.Lacks(t, "the text", text, "\x1b")

	for _, want := range []string{
		"rolls out 1 of 1 machines (template a becomes b)", "memory: 16GB -> 24GB", "with its disks: root 50GB, data 20GB",
		"refused: no host", "+ c, 10.0.0.7, in place of d",
	} {
		check.Contains(t, "the text", text, want)
	}

	check.Equal(t, "the last line", strings.TrimSpace(text[strings.LastIndex(text, "\n"):]), report.Summary.String())
}
