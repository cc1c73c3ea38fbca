package preview

import (
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAPullRequestHidesNoDestroyedMachine scales the workers to zero. It also adds something to disguise them as no
// longer belonging to their MachineDeployment, or to this provider.
func TestAPullRequestHidesNoDestroyedMachine(t *testing.T) {
	machine := func(name, metadata string) string {
		return "\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: " + name + ", namespace: default" + metadata +
			"}\nspec: {clusterName: demo, version: v1.36.1, bootstrap: {dataSecretName: a}, infrastructureRef: {apiGroup: " +
			"infrastructure.cluster.x-k8s.io, kind: OLVMMachine, name: " + name + "}}\n"
	}
	infra := func(name string) string {
		return "\n---\napiVersion: infrastructure.cluster.x-k8s.io/v1\nkind: OLVMMachine\nmetadata: {name: " + name +
			", namespace: default}\nspec: {olvmOvirtClusterName: Default, vmTemplateName: ol9-k8s, olvmNetwork: {networkName: kvm-vlan, " +
			"vnicProfileName: kvm-vlan}, virtualMachine: {memory: 16GB, network: {gateway: 127.20.30.1, ipv4: {subnet: 127.20.30.0/24, " +
			"ipAddresses: [127.20.30.100-127.20.30.149]}}}}\n"
	}
	none := func(t *testing.T, pairs ...string) string {
		t.Helper()
		return fixture.Sample(t, append([]string{"replicas: 2", "replicas: 0"}, pairs...)...)
	}

	for name, test := range map[string]struct {
		manifests string
		want      planreport.Summary
		problem   string
	}{
		"nothing else": {none(t), planreport.Summary{Destroy: 2}, ""},
		"manifests of the Machines": {none(t) + machine("demo-md-0-a", "") + machine("demo-md-0-b", ""),
			planreport.Summary{Destroy: 2}, ""},
		"manifests with other labels": {none(t) + machine("demo-md-0-a", ", labels: {cluster.x-k8s.io/deployment-name: x}"),
			planreport.Summary{Destroy: 2}, ""},
		"manifests that are being deleted": {none(t, "replicas: 0", "replicas: 2") +
			machine("demo-md-0-a", ", deletionTimestamp: '2026-01-01T00:00:00Z'"), planreport.Summary{}, ""},
		"manifests of the OLVMMachines": {none(t) + infra("demo-md-0-a") + infra("demo-md-0-b"), planreport.Summary{Destroy: 2}, ""},
		"a rollout, and manifests of the OLVMMachines": {strings.ReplaceAll(none(t, "replicas: 0", "replicas: 2"),
			"name: demo-md-0\n", "name: demo-md-1\n") + infra("demo-md-0-a"), planreport.Summary{Create: 2}, ""},
		"a template of another provider": {none(t, "replicas: 0", "replicas: 2", "kind: OLVMMachineTemplate\n        name: demo-md-0",
			"kind: DockerMachineTemplate\n        name: demo-md-0"), planreport.Summary{Replace: 2}, ""},
		"a cluster of another provider": {none(t, "kind: OLVMCluster\n    name: demo", "kind: DockerCluster\n    name: demo"),
			planreport.Summary{}, "a cluster cannot change its provider"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := load([]string{"-"}, strings.NewReader(test.manifests))
			check.Error(t, err, "")
			check.Error(t, m.AddLive(t.Context(), fixture.Management(t), ""), "")

			machines, owners, err := m.Expand()
			check.Error(t, err, test.problem)

			if err != nil {
				return
			}

			report := m.reportOf(Offline(m, machines), owners, nil, true)
			check.Equal(t, "summary", report.Summary, test.want)
		})
	}
}
