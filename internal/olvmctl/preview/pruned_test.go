package preview

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/source"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// pool is an inventory that creates two VMs.
const pool = `
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: OLVMInventory
metadata: {name: pool, namespace: default}
spec:
  olvmDatacenterName: Default
  olvmOvirtAPIServer: {serverURL: "https://engine.example.com/ovirt-engine", credentialsSecret: {name: creds}}
  virtualMachines: {tag: pool}
  provision: [{name: small, count: 2, machineTemplateName: demo-md-0}]
`

// withPool adds the inventory and its VMs to a management cluster. A machine has claimed the second one.
func withPool(t *testing.T, c client.Client) client.Client {
	t.Helper()

	text := pool
	for number, claim := range []string{"", ", claimRef: {id: x, clusterName: demo, role: Worker, group: a, machineName: w}"} {
		text += fmt.Sprintf(
			"---\napiVersion: infrastructure.cluster.x-k8s.io/v1alpha1\nkind: OLVMInventoryVM\nmetadata:\n"+
				"  {name: pool-small-%d, namespace: default, ownerReferences: [{kind: OLVMInventory, name: pool, uid: u, apiVersion: x}]}\n"+
				"spec: {inventoryName: pool, fromProvision: {provisionName: small, machineTemplateName: demo-md-0}%s}\n",
			number,
			claim,
		)
	}

	for _, object := range must(manifest.Read([]byte(text))) {
		check.Error(t, c.Create(t.Context(), object), "")
	}

	return c
}

func TestAPrunedInventoryTakesItsVMsAndDisksWithIt(t *testing.T) {
	yes := true
	report := reported(t, fixture.SampleManifests(t), withPool(t, fixture.NewManagement(t)), &yes)
	check.Equal(t, "summary", report.Summary, planreport.Summary{Destroy: 2, Objects: 1})

	for output, text := range outputs(t, report) {
		check.Contains(t, output, text, "pool-small-0")
		check.Contains(t, output, text, "OLVMInventory default/pool is no longer in the manifests")
		check.Contains(t, output, text, "it is destroyed after machine w is deleted")
		check.Contains(t, output, text, "root")
	}

	kept := reported(t, fixture.SampleManifests(t)+"\n---\n"+pool, withPool(t, fixture.NewManagement(t)), &yes)
	check.Equal(t, "with the inventory in the manifests", kept.Summary, planreport.Summary{})
}

func TestAnInventoryThatIsToHaveFewerVMsDestroysThem(t *testing.T) {
	for name, test := range map[string]struct {
		manifests string
		want      planreport.Summary
	}{
		"one":  {strings.Replace(pool, "count: 2", "count: 1", 1), planreport.Summary{Destroy: 1}},
		"none": {strings.Replace(pool, "count: 2", "count: 0", 1), planreport.Summary{Destroy: 1}}, // one is claimed
		"no provision": {strings.Replace(pool, "provision: [{name: small, count: 2, machineTemplateName: demo-md-0}]",
			"", 1), planreport.Summary{Destroy: 1}},
	} {
		report := reported(
			t, fixture.SampleManifests(t)+"\n---\n"+test.manifests, withPool(t, fixture.NewManagement(t)), nil,
		)
		check.Equal(t, name, report.Summary, test.want)
		check.Contains(t, name, outputs(t, report)["text"], "pool-small-0 of OLVMInventory/pool")
	}
}

func TestASupportVMThatNothingAsksForIsDestroyed(t *testing.T) {
	c := fixture.NewManagement(t)

	for _, object := range must(manifest.Read([]byte(supported))) {
		if object.GetKind() == "OLVMMachine" {
			object.SetNamespace("default")
			object.SetLabels(map[string]string{"cluster.x-k8s.io/cluster-name": "demo",
				"infrastructure.cluster.x-k8s.io/support-service": "lb-api"})
			check.Error(t, c.Create(t.Context(), object), "")
		}
	}

	report := reported(t, fixture.SampleManifests(t), c, nil)
	check.Equal(t, "summary", report.Summary, planreport.Summary{Destroy: 1})

	for output, text := range outputs(t, report) {
		check.Contains(t, output, text, "demo-lb-api-0")
		check.Contains(t, output, text, "support service lb-api no longer requests it")
	}
}

func TestAPrunedSecretOfAnEngineIsTold(t *testing.T) {
	labels := map[string]string{"kustomize.toolkit.fluxcd.io/name": "clusters",
		"kustomize.toolkit.fluxcd.io/namespace": "flux-system"}

	for name, test := range map[string]struct {
		labels  map[string]string
		written bool
		want    int64
	}{
		"a tool has applied it":           {labels, false, 1},
		"a tool applies it still":         {labels, true, 0},
		"a person has made it":            {nil, false, 0},
		"another tool has applied it too": {map[string]string{"kapp.k14s.io/app": "x"}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := byFlux(t, fixture.NewManagement(t))
			check.Error(t, c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "demo-ovirt-credentials", Labels: test.labels}}), "")

			manifests := fixture.SampleManifests(t)
			if test.written {
				manifests += "\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: demo-ovirt-credentials, namespace: default}\n"
			}

			report := reported(t, manifests, c, nil)
			check.Equal(t, "summary", report.Summary, planreport.Summary{Objects: test.want})

			if test.want > 0 {
				for output, text := range outputs(t, report) {
					check.Contains(t, output, text, "demo-ovirt-credentials")
				}

				check.Contains(t, "text", outputs(t, report)["text"], ", 1 object to delete\n")
			}
		})
	}
}

// TestWhatNamesAGitOpsTool removes the workers of a cluster. Its objects have the marks of various tools.
func TestWhatNamesAGitOpsTool(t *testing.T) {
	const instance = "app.kubernetes.io/instance"

	mark := func(labels, annotations map[string]string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			o.SetLabels(maps.Clone(labels))

			own := map[string]string{}
			for key, value := range annotations {
				own[key] = strings.ReplaceAll(value, "SELF", o.GetKind()+":"+o.GetNamespace()+"/"+o.GetName())
			}

			o.SetAnnotations(own)
		}
	}
	application := func(t *testing.T, c client.Client) {
		t.Helper()

		check.Error(t, c.Create(t.Context(), must(manifest.Read([]byte("apiVersion: argoproj.io/v1alpha1\n" +
			"kind: Application\nmetadata: {name: clusters, namespace: argocd}\n")))[0]), "")
	}

	for name, test := range map[string]struct {
		mark    func(*unstructured.Unstructured)
		argo    bool
		written string
		destroy int64
		line    string
	}{
		"Helm's label alone": {mark(map[string]string{instance: "clusters"}, nil), false, "", 0,
			"no GitOps tool has applied the manifests"},
		"a label that names an Application": {mark(map[string]string{instance: "clusters"}, nil), true, "", 2,
			"all objects applied by Argo CD Application clusters"},
		"a label that names another Application": {mark(map[string]string{instance: "other"}, nil), true, "", 0,
			"app.kubernetes.io/instance alone does not identify a tool"},
		"a label that the manifests have, too": {mark(map[string]string{instance: "clusters"}, nil), false, "clusters", 2,
			"all objects applied by instance clusters"},
		"a tracking ID": {mark(nil, map[string]string{"argocd.argoproj.io/tracking-id": "clusters:x/SELF"}), false, "", 2,
			"all objects applied by Argo CD Application clusters"},
		"a tracking ID beside a label of Helm": {mark(map[string]string{instance: "release"},
			map[string]string{"argocd.argoproj.io/tracking-id": "clusters:x/SELF"}), false, "", 2,
			"all objects applied by Argo CD Application clusters"},
		"a copy of another's tracking ID": {mark(nil, map[string]string{
			"argocd.argoproj.io/tracking-id": "clusters:x/Cluster:default/another"}), false, "", 0, "no GitOps tool"},
		"a release of Helm": {mark(nil, map[string]string{"meta.helm.sh/release-name": "demo",
			"meta.helm.sh/release-namespace": "default"}), false, "", 2, "all objects applied by Helm release default/demo"},
		"an object that Helm keeps": {mark(nil, map[string]string{"meta.helm.sh/release-name": "demo",
			"helm.sh/resource-policy": "keep"}), false, "", 0, "Helm release"},
		"an object that Argo CD keeps": {mark(nil, map[string]string{"argocd.argoproj.io/tracking-id": "clusters:x/SELF",
			"argocd.argoproj.io/sync-options": "Validate=false, Prune=false"}), false, "", 0, "Argo CD"},
		"one that outlives its Application is pruned still": {mark(nil, map[string]string{
			"argocd.argoproj.io/tracking-id":  "clusters:x/SELF",
			"argocd.argoproj.io/sync-options": "Delete=false"}), false, "", 2, "Argo CD"},
	} {
		t.Run(name, func(t *testing.T) {
			c := fixture.NewManagement(t)
			change(t, c, applied, test.mark)

			if test.argo {
				application(t, c)
			}

			manifests := without(t, fixture.SampleManifests(t), "MachineDeployment/demo-md-0")
			if test.written != "" {
				manifests += "\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, labels: {" + instance + ": " +
					test.written + "}}\n"
			}

			report := reported(t, manifests, c, nil)
			check.Equal(t, "destroyed", report.Summary.Destroy, test.destroy)
			check.Contains(t, "the line", report.Deletions, test.line)
		})
	}
}

// TestAnEmptyFolderPrunesEverything has a repository whose last manifest was deleted.
func TestAnEmptyFolderPrunesEverything(t *testing.T) {
	for name, change := range map[string]bool{"an error": false, "asked for": true} {
		m, err := loadWith([]string{t.TempDir()}, nil, source.Options{MayBeEmpty: change})
		if !change {
			check.Error(t, err, "no manifests found in")
			continue
		}

		check.Error(t, err, "")
		m.SetPruning(true)
		check.Error(t, m.AddLive(t.Context(), byFlux(t, fixture.NewManagement(t)), ""), "")

		machines, owners, err := m.Expand()
		check.Error(t, err, "")

		report := m.reportOf(DescribeOffline(m, machines), owners, nil, true)
		check.Equal(t, name, report.Summary, planreport.Summary{Destroy: 3, Objects: 6})

		for output, text := range outputs(t, report) {
			check.Contains(t, output, text, "all objects in all namespaces, because there are no manifests")
			check.Contains(t, output, text, "demo-control-plane-x")
		}
	}

	_, err := loadWith([]string{t.TempDir() + "/gone"}, nil, source.Options{MayBeEmpty: true})
	check.Error(t, err, "git does not store empty folders")
}

// TestAPlanAgreesWithTheControllers has various changes of a running machine.
func TestAPlanAgreesWithTheControllers(t *testing.T) {
	for name, test := range map[string]struct {
		kind, action string
		undoes       bool
		refused      bool
	}{
		"a data disk goes":                             {"ovirt_disk", "delete", false, true},
		"a data disk of a change that is taken back":   {"ovirt_disk", "delete", true, false},
		"a NIC of a change that is taken back":         {"ovirt_nic", "delete", true, false},
		"a NIC is made again":                          {"ovirt_nic", "replace", false, true},
		"a NIC is made again, as a change is reverted": {"ovirt_nic", "replace", true, true},
		"the VM, as a change is taken back":            {"ovirt_vm", "delete", true, true},
		"more memory":                                  {"ovirt_vm", "update", false, false},
		"leaving an affinity group":                    {"ovirt_vm_affinity_group", "delete", false, false},
	} {
		machine := Machine{Namespace: "default", Name: "a", provisioned: true, live: true, undoes: test.undoes}
		result := resultOf(machine)
		result.Changes = []terraform.Change{{Address: "x.y", Type: test.kind, Action: test.action}}
		applyRefusals(result, machine)
		check.Equal(t, name, result.Refused != "", test.refused)

		if test.refused {
			for output, text := range outputs(t, planreport.New(planreport.Findings{Machines: []*planreport.Result{result}})) {
				check.Contains(t, output, text, "which the controllers refuse")
			}
		}
	}
}
