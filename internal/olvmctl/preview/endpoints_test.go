package preview

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// liveObject returns an object of a management cluster with the label of the Cluster other.
func liveObject(kind, namespace string, annotations map[string]string, content map[string]any) client.Object {
	out := &unstructured.Unstructured{Object: content}
	out.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1")
	out.SetKind(kind)
	out.SetNamespace(namespace)
	out.SetName("other")
	out.SetCreationTimestamp(metav1.Now())
	out.SetAnnotations(annotations)
	out.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "other"})

	return out
}

// TestAPlanRefusesAnEndpointThatAnotherHas has a new cluster. The management cluster has objects in the cluster's
// namespace and in another one.
func TestAPlanRefusesAnEndpointThatAnotherHas(t *testing.T) {
	cluster := func(namespace, url, host string) client.Object {
		return liveObject("OLVMCluster", namespace, nil, map[string]any{
			"spec": map[string]any{
				"olvmDatacenterName":   "Default",
				"controlPlaneEndpoint": map[string]any{"host": host, "port": int64(6443)},
				"olvmOvirtAPIServer":   map[string]any{"serverURL": url},
			},
			"status": map[string]any{"initialization": map[string]any{"provisioned": true}},
		})
	}
	machine := func(namespace, address string) client.Object {
		return liveObject("OLVMMachine", namespace, map[string]string{
			"infrastructure.cluster.x-k8s.io/olvm-addresses": `{"nic1":["` + address + `"]}`,
		}, map[string]any{"spec": map[string]any{}})
	}

	for name, test := range map[string]struct {
		live []client.Object
		want string
	}{
		"nobody": {},
		"a cluster of another namespace": {
			live: []client.Object{cluster("far", "ENGINE_URL", "127.20.30.5")},
			want: "the control plane endpoint of OLVMCluster far/other",
		},
		"a machine of another namespace": {
			live: []client.Object{cluster("far", "ENGINE_URL", "127.20.30.9"), machine("far", "127.20.30.5")},
			want: "OLVMMachine far/other",
		},
		"a cluster of another engine": {live: []client.Object{cluster("far", "https://else", "127.20.30.5")}},
		"another address":             {live: []client.Object{cluster("far", "ENGINE_URL", "127.20.30.9")}},
		"a cluster of its namespace": {
			live: []client.Object{cluster("new", "ENGINE_URL", "127.20.30.5")},
			want: "the control plane endpoint of OLVMCluster new/other",
		},
	} {
		t.Run(name, func(t *testing.T) {
			manifests := strings.ReplaceAll(fixture.SampleManifests(t), "namespace: default", "namespace: new")
			m, err := load([]string{"-"}, strings.NewReader(manifests))
			check.Error(t, err, "")
			check.Error(t, m.AddLive(t.Context(), fixture.NewManagementOf(t, test.live...), ""), "")

			for _, result := range offline(t, m) {
				if test.want == "" {
					check.Equal(t, result.Name+" is refused", result.Refused, "")
					continue
				}

				check.Contains(t, "error of "+result.Name, result.Refused, "127.20.30.5 belongs to "+test.want)
				check.Contains(t, "error of "+result.Name, result.Refused, "spec.controlPlaneEndpoint.host")
			}
		})
	}
}

// offline plans the machines without an engine.
func offline(t *testing.T, m *Manifests) []*planreport.Result {
	t.Helper()
	machines, err := m.Machines()
	check.Error(t, err, "")

	return DescribeOffline(m, machines)
}

// TestAPlanNamesTwoEndpoints has a Cluster and an OLVMCluster with different endpoints.
func TestAPlanNamesTwoEndpoints(t *testing.T) {
	m, err := load(
		[]string{"-"},
		strings.NewReader(fixture.SampleManifests(
			t, "  infrastructureRef:\n    apiGroup: infra",
			"  controlPlaneEndpoint:\n    host: 127.20.30.8\n    port: 6443\n  infrastructureRef:\n    apiGroup: infra",
		)),
	)
	check.Error(t, err, "")

	for _, result := range offline(t, m) {
		check.Contains(t, "error", result.Refused, "it is 127.20.30.5:6443")
		check.Contains(t, "error", result.Refused, "spec.controlPlaneEndpoint of Cluster demo is 127.20.30.8:6443")
	}
}

// TestOneOfTwoNewClustersOfAPlanKeepsTheAddress has the same cluster twice, with two names.
func TestOneOfTwoNewClustersOfAPlanKeepsTheAddress(t *testing.T) {
	second := strings.ReplaceAll(fixture.SampleManifests(t), "demo", "twin")
	m, err := load([]string{"-"}, strings.NewReader(fixture.SampleManifests(t)+"\n---\n"+second))
	check.Error(t, err, "")

	refused := map[string]bool{}
	for _, result := range offline(t, m) {
		refused[result.Cluster] = result.Refused != ""
	}

	check.Equal(t, "refused", refused, map[string]bool{"demo": false, "twin": true})
}
