package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localroot"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestMachinesThatAreAlikeArePlannedOnce compares derived results with a separate plan of each machine. There are
// twelve workers, so some names and addresses are prefixes of others.
func TestMachinesThatAreAlikeArePlannedOnce(t *testing.T) {
	s := newSite(t)
	text := strings.NewReplacer("replicas: 2", "replicas: 12", "replicas: 1\n", "replicas: 3\n").Replace(s.manifests)
	objects, err := manifest.Read([]byte(text))
	check.Error(t, err, "")

	input, err := planinput.LoadObjects(objects)
	check.Error(t, err, "")
	manifests := preview.NewManifests(input)
	machines, err := manifests.Machines()
	check.Error(t, err, "")

	ca, err := os.ReadFile(s.caFile)
	check.Error(t, err, "")

	credentials := preview.Credentials{Username: s.sim.Username(), Password: s.sim.Password(),
		ServerURLs: []string{s.sim.URL()}, CA: ca}

	var progress strings.Builder
	results, _, err := preview.PlanAll(t.Context(), manifests, machines, credentials, &progress)
	check.Error(t, err, "")
	check.Length(t, "results", results, len(machines))
	check.Equal(t, "plans that were made: "+progress.String(), strings.Count(progress.String(), "\n") < 4, true)

	sessions := &engine.Sessions{}
	defer sessions.Close(t.Context())
	local, err := localroot.NewRunner(t.Context(), sessions)
	check.Error(t, err, "")
	defer local.Close()
	rendered, _, err := preview.Render(t.Context(), manifests, machines, credentials, sessions)
	check.Error(t, err, "")

	for i, machine := range rendered {
		own, err := preview.RunPlan(t.Context(), local.Executor, machine, local.Dir)
		check.Error(t, err, "")
		check.Equal(t, "name", results[i].Name, own.Name)
		check.Equal(t, own.Name+": text", results[i].Text, own.Text)
		check.Equal(t, own.Name+": changes", sorted(results[i].Changes), sorted(own.Changes))
		check.Equal(t, own.Name+": plan", planJSON(t, results[i]), planJSON(t, own))
	}
}

// sorted returns changes in a fixed order, because Terraform's order varies.
func sorted(changes []terraform.Change) []terraform.Change {
	return slices.SortedFunc(slices.Values(changes), func(a, b terraform.Change) int {
		return strings.Compare(a.Address, b.Address)
	})
}

// planJSON returns the plan in Terraform's format, without its timestamp.
func planJSON(t *testing.T, result *planreport.Result) string {
	t.Helper()
	plan := *result.Plan
	plan.Timestamp = ""

	encoded, err := json.Marshal(&plan)
	check.Error(t, err, "")

	return string(encoded)
}
