package conformance

import (
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestLibgovirtRunsAVM needs libgovirt with its bindings: gir1.2-govirt-1.0 and python3-gi of Debian and its relatives.
func TestLibgovirtRunsAVM(t *testing.T) {
	t.Parallel()
	python := ""
	for _, one := range []string{"/usr/bin/python3", "python3"} { // packages are for that of the system
		if exec.CommandContext(t.Context(), one, "-c", `import gi; gi.require_version("GoVirt", "1.0")`).Run() == nil {
			python = one
			break
		}
	}
	if python == "" {
		t.Skip("libgovirt with its Python bindings is not installed")
	}
	newVM(t, connect(t), "libgovirt", nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	output, err := exec.CommandContext(ctx, python, "libgovirt.py", sim.file, "libgovirt").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	request := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, sim.ControlURL+"/requests", nil))
	response, err := sim.http.Do(request)
	check(t, err)
	defer response.Body.Close()
	var requests []struct {
		Method, Path string
		Status       int
	}
	check(t, json.NewDecoder(response.Body).Decode(&requests))
	for _, one := range requests {
		if one.Status == http.StatusBadRequest && !strings.Contains(one.Path, "/affinitygroups") {
			t.Errorf("%s %s was refused", one.Method, one.Path)
		}
	}
}
