package conformance

import (
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"testing"
)

// TestLibgovirtRunsAVM needs libgovirt with its bindings: the packages gir1.2-govirt-1.0 and python3-gi of Debian and
// related distributions. It checks all requests to the simulator, so it does not run in parallel with other tests.
func TestLibgovirtRunsAVM(t *testing.T) {
	python := ""

	for _, one := range []string{"/usr/bin/python3", "python3"} { // the packages are for the system's Python
		if exec.CommandContext(t.Context(), one, "-c", `import gi; gi.require_version("GoVirt", "1.0")`).Run() == nil {
			python = one
			break
		}
	}

	if python == "" {
		t.Skip("libgovirt with its Python bindings is not installed")
	}

	newVM(t, connect(t), "libgovirt", nil)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()

	before := requestsSeen(t)
	last := before[len(before)-1].Seq
	output, err := exec.CommandContext(ctx, python, "libgovirt.py", sim.file, "libgovirt").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}

	for _, one := range requestsSeen(t) {
		if one.Seq > last && one.Status == http.StatusBadRequest {
			t.Errorf("%s %s was refused", one.Method, one.Path)
		}
	}
}

// seen is a request that the simulator has answered.
type seen struct {
	Seq          int
	Method, Path string
	Status       int
}

// requestsSeen returns the requests that the simulator has answered so far, the oldest first.
func requestsSeen(t *testing.T) []seen {
	t.Helper()
	request := must[*http.Request](
		t,
	)(
		http.NewRequestWithContext(t.Context(), http.MethodGet, sim.ControlURL+"/requests", nil),
	)
	response, err := sim.http.Do(request)
	check(t, err)
	defer response.Body.Close()

	var requests []seen
	check(t, json.NewDecoder(response.Body).Decode(&requests))

	return requests
}
