package desired

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestTwoEndpoints compares the endpoints of a Cluster and its OLVMCluster.
func TestTwoEndpoints(t *testing.T) {
	at := func(host string, port int32) clusterv1.APIEndpoint {
		return clusterv1.APIEndpoint{Host: host, Port: port}
	}
	for name, test := range map[string]struct {
		asked, own clusterv1.APIEndpoint
		differ     bool
	}{
		"the Cluster has none":       {at("", 0), at("10.0.0.5", 6443), false},
		"the same":                   {at("10.0.0.5", 6443), at("10.0.0.5", 6443), false},
		"another address":            {at("10.0.0.8", 6443), at("10.0.0.5", 6443), true},
		"another port":               {at("10.0.0.5", 7443), at("10.0.0.5", 6443), true},
		"an address in another form": {at("FD00:0::5", 6443), at("fd00::5", 6443), false},
		"a name in other capitals":   {at("API.example.com.", 6443), at("api.example.com", 6443), false},
		"a name of the address":      {at("api.example.com", 6443), at("10.0.0.5", 6443), false},
		"another name":               {at("api.example.com", 6443), at("api.example.org", 6443), true},
	} {
		err := CheckEndpoints("demo", test.asked, infrav1.APIEndpoint(test.own))
		if test.differ != (err != nil) {
			t.Errorf("%s: %v", name, err)
		}

		if test.differ && err != nil {
			check.Contains(t, name, err.Error(), test.asked.Host)
			check.Contains(t, name, err.Error(), test.own.Host)
			check.Contains(t, name, err.Error(), "spec.controlPlaneEndpoint of Cluster demo")
		}
	}
}
