package docs

import (
	"os"
	"regexp"
	"testing"

	lua "github.com/yuin/gopher-lua"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestTheHealthOfAClusterInArgoCD runs the script of gitops/README.md with the interpreter that Argo CD has. Argo CD
// itself has confirmed none of these answers.
func TestTheHealthOfAClusterInArgoCD(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("gitops/README.md")
	check.Error(t, err, "")
	script := regexp.MustCompile("(?s)```lua\n(.*?)```").FindSubmatch(page)
	check.Length(t, "scripts", script, 2)

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
			state := lua.NewState()
			defer state.Close()

			check.Error(t, state.DoString("obj = "+test.object), "")
			check.Error(t, state.DoString(string(script[1])), "")
			health, ok := state.Get(-1).(*lua.LTable)
			check.Equal(t, "a table is returned", ok, true)
			check.Equal(t, "status", health.RawGetString("status").String(), test.status)
			check.Equal(t, "message", health.RawGetString("message").String(), test.message)
		})
	}
}
