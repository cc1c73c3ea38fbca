package docs

import (
	"os"
	"regexp"
	"testing"

	lua "github.com/yuin/gopher-lua"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestTheHealthOfAClusterInArgoCD runs the script of gitops/README.md with Argo CD's interpreter. Argo CD itself has
// confirmed none of these answers.
func TestTheHealthOfAClusterInArgoCD(t *testing.T) {
	t.Parallel()
	script := healthScript(t, "cluster.x-k8s.io_Cluster")

	const (
		made = `initialization = {controlPlaneInitialized = true}, `
		up   = `{type = "ControlPlaneAvailable", status = "True"}, {type = "RemoteConnectionProbe", status = "True"}`
	)

	for name, test := range map[string]struct{ object, status, message string }{
		"a cluster that is new": {`{metadata = {}}`, "Progressing", "not available yet"},
		"a cluster that is made": {`{metadata = {}, status = {conditions = {
			{type = "Available", status = "False", message = "* ControlPlane: none"},
			{type = "ControlPlaneAvailable", status = "False", message = "not initialized"},
			{type = "RemoteConnectionProbe", status = "False"}}}}`, "Progressing", "* ControlPlane: none"},
		"a cluster that runs": {`{metadata = {}, spec = {paused = false}, status = {` + made + `conditions = {
			{type = "Available", status = "True", message = ""}, ` + up + `}}}`, "Healthy", ""},
		"a worker that is not ready": {`{metadata = {}, status = {` + made + `conditions = {` + up + `,
			{type = "Available", status = "False", message = "* WorkersAvailable: 1 of 2"}}}}`, "Progressing",
			"* WorkersAvailable: 1 of 2"},
		"a control plane that is lost": {`{metadata = {}, status = {` + made + `conditions = {
			{type = "Available", status = "False", message = "x"},
			{type = "ControlPlaneAvailable", status = "False", message = "etcd has no quorum"}}}}`, "Degraded",
			"ControlPlaneAvailable: etcd has no quorum"},
		"a control plane that does not answer": {`{metadata = {}, status = {` + made + `conditions = {
			{type = "Available", status = "False", message = "x"}, {type = "RemoteConnectionProbe", status = "False"}}}}`,
			"Degraded", "RemoteConnectionProbe: "},
		"a cluster that goes": {`{metadata = {deletionTimestamp = "2026-01-01T00:00:00Z"}, status = {` + made +
			`conditions = {{type = "ControlPlaneAvailable", status = "False"}}}}`, "Progressing", "it is being deleted"},
		"a cluster that is paused": {`{metadata = {}, spec = {paused = true}, status = {` + made + `conditions = {
			{type = "ControlPlaneAvailable", status = "False"}}}}`, "Suspended", "it is paused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectHealth(t, script, test.object, test.status, test.message)
		})
	}
}

// TestTheHealthOfAMachineInArgoCD is the same for an OLVMMachine: its last edit counts, and an earlier verdict does
// not.
func TestTheHealthOfAMachineInArgoCD(t *testing.T) {
	t.Parallel()
	script := healthScript(t, "infrastructure.cluster.x-k8s.io_OLVMMachine")

	machine := func(ready, upToDate string) string {
		return `{metadata = {generation = 3}, status = {conditions = {{type = "Ready", message = "", ` + ready +
			`}, {type = "UpToDate", message = "m", ` + upToDate + `}}}}`
	}

	const ready = `status = "True"`

	for name, test := range map[string]struct{ object, status, message string }{
		"a machine that is new": {`{metadata = {}}`, "Progressing", "not ready yet"},
		"a machine that runs": {
			machine(ready, `status = "True", observedGeneration = 3`), "Healthy", "",
		},
		"an edit that is refused": {
			machine(ready, `status = "False", reason = "ReplaceRefused", observedGeneration = 3`), "Degraded",
			"ReplaceRefused: m",
		},
		"an edit that waits for a restart": {
			machine(ready, `status = "False", reason = "WaitingForRestart", observedGeneration = 3`), "Suspended", "m",
		},
		"a verdict on an earlier edit": {
			machine(ready, `status = "True", observedGeneration = 2`), "Progressing",
			"nobody has looked at the last edit yet",
		},
		"a machine that nobody can compare": {
			machine(ready, `status = "Unknown", reason = "StateInvalid", observedGeneration = 3`), "Unknown", "m",
		},
		"a machine that is not ready": {
			machine(`status = "False"`, `status = "False", observedGeneration = 3`), "Progressing", "",
		},
		"a machine that goes": {
			`{metadata = {deletionTimestamp = "2026-01-01T00:00:00Z"}}`, "Progressing", "it is being deleted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectHealth(t, script, test.object, test.status, test.message)
		})
	}
}

// healthScript returns the script of gitops/README.md for a kind.
func healthScript(t *testing.T, kind string) string {
	t.Helper()
	page, err := os.ReadFile("gitops/README.md")
	check.Error(t, err, "")

	script := regexp.MustCompile("(?s)```lua\n-- resource.customizations.health." + regexp.QuoteMeta(kind) + " (.*?)```").
		FindSubmatch(page)
	check.Length(t, "scripts for "+kind, script, 2)

	return "-- " + string(script[1])
}

func expectHealth(t *testing.T, script, object, status, message string) {
	t.Helper()
	state := lua.NewState()
	defer state.Close()

	check.Error(t, state.DoString("obj = "+object), "")
	check.Error(t, state.DoString(script), "")
	health, ok := state.Get(-1).(*lua.LTable)
	check.Equal(t, "a table is returned", ok, true)
	check.Equal(t, "status", health.RawGetString("status").String(), status)
	check.Equal(t, "message", health.RawGetString("message").String(), message)
}
