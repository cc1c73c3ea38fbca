package engine

import "testing"

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
	} {
		if got := resourceOf(path); got != want {
			t.Errorf("%s is about %s, want %s", path, got, want)
		}
	}
}
