package preview

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// fluxLabels are the labels of objects applied by a Flux Kustomization.
var fluxLabels = map[string]any{
	"kustomize.toolkit.fluxcd.io/name": "clusters", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
}

// TestANewMachineThatNeedsWhatIsPrunedIsRefused scales the workers up. It also removes an object from the manifests
// that the new worker needs. The controllers could not create this worker.
func TestANewMachineThatNeedsWhatIsPrunedIsRefused(t *testing.T) {
	core := func(kind, name string) client.Object {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind,
			"metadata": map[string]any{"namespace": "default", "name": name, "labels": fluxLabels}}}
	}
	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1alpha1", "kind": "OLVMInventory",
		"metadata": map[string]any{"namespace": "default", "name": "metal", "labels": fluxLabels},
		"spec":     map[string]any{"olvmDatacenterName": "Default"},
	}}
	fromPool := []string{"      olvmOvirtClusterName: Default\n      vmTemplateName: ol9-k8s\n      olvmNetwork:\n" +
		"        networkName: kvm-vlan\n        vnicProfileName: kvm-vlan\n      virtualMachine:\n        memory: 16GB",
		"      fromInventory: {inventoryName: metal}\n      virtualMachine:\n        memory: 16GB"}

	for name, test := range map[string]struct {
		removed string
		changes []string
		live    client.Object
		want    string
	}{
		"the template":     {"OLVMMachineTemplate/demo-md-0", nil, nil, "OLVMMachineTemplate default/demo-md-0"},
		"the OLVMCluster":  {"OLVMCluster/demo", nil, nil, "OLVMCluster default/demo"},
		"the login":        {"", nil, core("Secret", "demo-ovirt-credentials"), "Secret default/demo-ovirt-credentials"},
		"the CA":           {"", nil, core("ConfigMap", "demo-ovirt-ca"), "ConfigMap default/demo-ovirt-ca"},
		"the pool of VMs":  {"", fromPool, pool, "OLVMInventory default/metal"},
		"nothing":          {"", nil, nil, ""},
		"what others need": {"OLVMMachineTemplate/demo-control-plane", nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := byFlux(t, fixture.NewManagement(t))
			if test.live != nil {
				check.Error(t, c.Create(t.Context(), test.live), "")
			}

			manifests := fixture.SampleManifests(t, append([]string{"replicas: 2", "replicas: 3"}, test.changes...)...)
			if test.changes != nil { // the template of an inventory is new
				manifests = strings.ReplaceAll(manifests, "name: demo-md-0\n", "name: demo-md-1\n")
			}

			report := reported(t, without(t, manifests, test.removed), c, nil)
			check.Equal(t, "refused", report.Summary.Refused > 0, test.want != "")

			for output, text := range outputs(t, report) {
				if test.want != "" {
					check.Contains(t, output, text, "requires ")
					check.Contains(t, output, text, test.want)
					check.Contains(t, output, text, "keep it in the manifests")
				}
			}
		})
	}
}
