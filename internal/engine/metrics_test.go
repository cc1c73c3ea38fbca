package engine

import (
	"math"
	"strings"
	"testing"
)

func TestMetricsNameNoIDs(t *testing.T) {
	const id = "0f8fad5b-d9cb-469f-a165-70867728950e"
	for path, want := range map[string]string{
		"/ovirt-engine/api":                                  "api",
		"/ovirt-engine/api/":                                 "api",
		"/ovirt-engine/sso/oauth/token":                      "session",
		"/ovirt-engine/services/sso-logout":                  "session",
		"/ovirt-engine/api/vms":                              "vms",
		"/ovirt-engine/api/vms/" + id:                        "vms",
		"/ovirt-engine/api/vms/" + id + "/nics/" + id:        "vms/nics",
		"/ovirt-engine/api/vms/" + id + "/start":             "vms/start",
		"/api-proxy/ovirt-engine/api/datacenters/" + id:      "datacenters",
		"/ovirt-engine/api/clusters/12/affinitygroups/" + id: "clusters/affinitygroups",
		"/ovirt-engine/api/vms/Not-a-UUID/nics":              "vms/nics",
	} {
		if got := getResource(path); got != want {
			t.Errorf("%s is about %s, want %s", path, got, want)
		}
	}
}

func TestAnObservationOfAnotherProcessIsChecked(t *testing.T) {
	right := Observation{Engine: "e", Resource: "vms/nics", Method: "GET", Code: "200", Seconds: 1}

	for name, test := range map[string]struct {
		change func(*Observation)
		want   bool
	}{
		"an answer":           {func(*Observation) {}, true},
		"no answer":           {func(o *Observation) { o.Code = "error" }, true},
		"bytes":               {func(o *Observation) { *o = Observation{Resource: "vms", Bytes: 9} }, true},
		"an unknown method":   {func(o *Observation) { o.Method = "X" }, false},
		"an unknown code":     {func(o *Observation) { o.Code = "9" }, false},
		"a text for a code":   {func(o *Observation) { o.Code = "good" }, false},
		"an ID":               {func(o *Observation) { o.Resource = "vms/1" }, false},
		"no resource":         {func(o *Observation) { o.Resource = "" }, false},
		"a long resource":     {func(o *Observation) { o.Resource = strings.Repeat("a", 99) }, false},
		"time that runs back": {func(o *Observation) { o.Seconds = -1 }, false},
		"no number":           {func(o *Observation) { o.Seconds = math.NaN() }, false},
		"negative bytes":      {func(o *Observation) { o.Bytes = -1 }, false},
	} {
		seen := right
		test.change(&seen)

		if got := seen.IsValid(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}

	for i := range 2 * maxResources {
		isKnownResource(strings.Repeat("b", i%20+1) + strings.Repeat("c", i/20+1))
	}

	if isKnownResource("another") {
		t.Error("metrics tell any number of kinds apart")
	}
}
