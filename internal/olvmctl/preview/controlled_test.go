package preview

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// aMachine returns the manifest of a Machine of the sample, with more metadata.
func aMachine(name, metadata string) string {
	return "\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: " + name + ", namespace: " +
		"default" +
		metadata + "}\nspec: {clusterName: demo, bootstrap: {dataSecretName: a}, infrastructureRef: {apiGroup: " +
		"infrastructure.cluster.x-k8s.io, kind: OLVMMachine, name: " + name + "}}\n"
}

// create adds objects to a management cluster.
func create(t *testing.T, c client.Client, texts ...string) {
	t.Helper()

	for _, text := range texts {
		object := &unstructured.Unstructured{}
		check.Error(t, yaml.Unmarshal([]byte(strings.TrimPrefix(text, "\n---\n")), &object.Object), "")
		check.Error(t, c.Create(t.Context(), object), "")
	}
}

// aSet returns the manifest of the MachineSet of the sample's workers.
func aSet(replicas int, metadata string) string {
	return fmt.Sprintf("\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineSet\nmetadata: {name: demo-md-0-s, "+
		"namespace: default%s}\nspec: {clusterName: demo, replicas: %d, selector: {matchLabels: {a: b}}, template: "+
		"{spec: "+
		"{clusterName: demo, bootstrap: {dataSecretName: a}, infrastructureRef: {apiGroup: "+
		"infrastructure.cluster.x-k8s.io, kind: OLVMMachineTemplate, name: demo-md-0}}}}\n", metadata, replicas)
}

// TestAPullRequestChangesNoRecordOfAController has manifests of objects that controllers have made, and owners that the
// garbage collector believes.
func TestAPullRequestChangesNoRecordOfAController(t *testing.T) {
	const (
		config = "\n---\napiVersion: bootstrap.cluster.x-k8s.io/v1beta2\nkind: KubeadmConfig\nmetadata: {name: %s, " +
			"namespace: default}\nspec: {verbosity: %d}\n"
		owners = "ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: gone, uid: none}]"
		infra  = "\n---\napiVersion: infrastructure.cluster.x-k8s.io/v1\nkind: OLVMMachine\nmetadata: {name: " +
			"demo-control-plane-x, namespace: default, annotations: {%s}}\nspec: {olvmOvirtClusterName: Default, " +
			"vmTemplateName: ol9-k8s, olvmNetwork: {networkName: kvm-vlan, vnicProfileName: kvm-vlan}, " +
			"virtualMachine: " +
			"{memory: 7GB}}\n"
		inventoryVM = "\n---\napiVersion: infrastructure.cluster.x-k8s.io/v1alpha1\nkind: " +
			"OLVMInventoryVM\nmetadata: {name: " +
			"small-0, namespace: default}\nspec: {inventoryName: small, vmID: a}\n"
		set = ", ownerReferences: [{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, name: demo-md-0, " +
			"uid: u, controller: true}]"
	)

	owned := func(kind string) string {
		return fixture.SampleManifests(t, "kind: "+kind+"\nmetadata:\n", "kind: "+kind+"\nmetadata:\n  "+owners+"\n")
	}
	sample := fixture.SampleManifests(t)

	for name, test := range map[string]struct {
		manifests, unreadable, want string
	}{
		"a Cluster without an existing owner": {owned("Cluster"), "", "Cluster default/demo: " +
			"metadata.ownerReferences: the " +
			"object in the management cluster has other owners"},
		"workers without one": {
			owned("MachineDeployment"),
			"",
			"MachineDeployment default/demo-md-0: metadata.ownerReferences",
		},
		"a bootstrap template": {
			owned("KubeadmConfigTemplate"),
			"",
			"KubeadmConfigTemplate default/demo-md-0: metadata.ownerReferences",
		},
		"one that may not be read": {owned("KubeadmConfigTemplate"), "KubeadmConfigTemplate", "you may not read it"},
		"one that is new": {
			sample + strings.Replace(aMachine("new", ", "+owners), "kind: OLVMMachine, name: new",
				"kind: OLVMMachine, name: demo-md-0-a", 1),
			"",
			"",
		},
		"the owner that it has": {sample + aSet(2, set), "", ""},
		"no owner any more": {
			sample + aSet(2, ", ownerReferences: []"),
			"",
			"MachineSet default/demo-md-0-s: metadata.ownerReferences",
		},
		"fewer machines of a set": {
			sample + aSet(0, ""),
			"",
			"MachineSet default/demo-md-0-s: spec.replicas: it differs in the management cluster, and " +
				"MachineDeployment demo-md-0 controls it",
		},
		"a VM of an inventory": {
			sample + strings.Replace(inventoryVM, "vmID: a", "vmID: b", 1),
			"",
			"OLVMInventoryVM default/small-0: spec.vmID: it differs in the management cluster",
		},
		"that VM as it is": {sample + inventoryVM, "", ""},
		"the set as it is": {sample + aSet(2, ""), "", ""},
		"a label of a Machine": {
			sample + aMachine("demo-md-0-a", ", labels: {cluster.x-k8s.io/set-name: x}"),
			"",
			"metadata.labels: cluster.x-k8s.io/set-name differs",
		},
		"a label that it has": {
			sample + aMachine("demo-md-0-a", ", labels: {cluster.x-k8s.io/deployment-name: demo-md-0}"),
			"",
			"",
		},
		"a label of its user": {sample + aMachine("demo-md-0-a", ", labels: {team: x}"), "", ""},
		"the VM of another Machine": {
			sample + strings.Replace(aMachine("demo-md-0-a", ""), "kind: OLVMMachine, name: demo-md-0-a",
				"kind: OLVMMachine, name: demo-md-0-b", 1),
			"",
			"spec.infrastructureRef: it is OLVMMachine demo-md-0-a",
		},
		"the template of a VM": {
			sample + fmt.Sprintf(infra, "cluster.x-k8s.io/cloned-from-name: x"),
			"",
			"cluster.x-k8s.io/cloned-from-name differs",
		},
		"the template that it has": {
			sample + fmt.Sprintf(infra, "cluster.x-k8s.io/cloned-from-name: demo-control-plane"),
			"",
			"",
		},
		"addresses of a VM": {
			sample + fmt.Sprintf(infra, "infrastructure.cluster.x-k8s.io/olvm-addresses: '{}'"),
			"",
			"olvm-addresses differs",
		},
		"a topology's owner": {
			fixture.SampleManifests(t, "\n  labels:\n    cluster.x-k8s.io/cluster-name: demo\nspec:\n  clusterName",
				"\n  labels: {topology.cluster.x-k8s.io/owned: ''}\nspec:\n  clusterName"),
			"",
			"topology.cluster.x-k8s.io/owned differs",
		},
		"a control plane's config": {
			sample + fmt.Sprintf(config, "demo-control-plane-x", 9),
			"",
			"spec.verbosity differs in the management cluster, and Machine default/demo-control-plane-x is made of it",
		},
		"one that cannot be compared": {
			sample + fmt.Sprintf(config, "demo-control-plane-x", 5),
			"KubeadmConfig",
			"you may not read it in the management cluster (get kubeadmconfigs.bootstrap.cluster.x-k8s.io), and " +
				"Machine",
		},
		"the config as it is": {sample + fmt.Sprintf(config, "demo-control-plane-x", 5), "", ""},
		"a config of nothing": {sample + fmt.Sprintf(config, "other", 9), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			live := fixture.NewManagement(t)
			create(t, live, aSet(2, set), inventoryVM, fmt.Sprintf(config, "demo-control-plane-x", 5),
				"{apiVersion: bootstrap.cluster.x-k8s.io/v1beta2, kind: KubeadmConfigTemplate, metadata: {name: "+
					"demo-md-0, "+
					"namespace: default}, spec: {}}")
			change(t, live, []string{"Machine"}, func(o *unstructured.Unstructured) {
				if o.GetName() == "demo-control-plane-x" {
					o.SetLabels(map[string]string{"cluster.x-k8s.io/control-plane": ""})
					check.Error(t, unstructured.SetNestedStringMap(o.Object, map[string]string{
						"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig",
						"name": "demo-control-plane-x",
					}, "spec", "bootstrap", "configRef"), "")
				}
			})

			m, err := load([]string{"-"}, strings.NewReader(test.manifests))
			check.Error(t, err, "")
			err = m.AddLive(t.Context(), unreadable{live, test.unreadable}, "")
			check.Error(t, err, test.want)
		})
	}
}

// TestAMarkedMachineIsNamed marks a worker, with and without fewer replicas.
func TestAMarkedMachineIsNamed(t *testing.T) {
	const marked = ", annotations: {cluster.x-k8s.io/delete-machine: ''}"

	fewer := fixture.SampleManifests(t, "replicas: 2", "replicas: 1")

	for name, test := range map[string]struct {
		manifests, before  string
		destroyed, note    string
		candidates, listed int
	}{
		"fewer machines": {
			manifests: fewer + aMachine("demo-md-0-b", marked),
			destroyed: "demo-md-0-b",
			listed:    1,
		},
		"the other one": {
			manifests: fewer + aMachine("demo-md-0-a", marked),
			destroyed: "demo-md-0-a",
			listed:    1,
		},
		"as many machines": {
			manifests: fixture.SampleManifests(t) + aMachine("demo-md-0-b", marked),
			note: "Machine default/demo-md-0-b: cluster.x-k8s.io/delete-machine: it is destroyed first when " +
				"MachineDeployment default/demo-md-0 has fewer machines",
		},
		"it was marked before": {
			manifests: fixture.SampleManifests(t) + aMachine("demo-md-0-b", marked),
			before:    "demo-md-0-b",
		},
		"both are marked": {
			manifests:  fewer + aMachine("demo-md-0-a", marked) + aMachine("demo-md-0-b", marked),
			candidates: 2,
			listed:     1,
		},
		"not the one marked there": {
			manifests:  fewer + aMachine("demo-md-0-a", marked),
			before:     "demo-md-0-b",
			candidates: 2,
			listed:     1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := fixture.NewManagement(t)
			change(t, live, []string{"Machine"}, func(o *unstructured.Unstructured) {
				if o.GetName() == test.before {
					o.SetAnnotations(map[string]string{"cluster.x-k8s.io/delete-machine": ""})
				}
			})

			report := reported(t, test.manifests, live, nil)
			check.Equal(t, "summary", report.Summary, planreport.Summary{Destroy: int64(test.listed)})

			candidates := 0

			for _, machine := range report.Machines {
				if machine.Destroyed != "" {
					check.Equal(t, "destroyed", machine.Name, test.destroyed)
				}

				if machine.MayGo != "" {
					candidates++
				}
			}

			check.Equal(t, "candidates", candidates, test.candidates)

			for output, text := range outputs(t, report) {
				check.Contains(t, output, text, cmp.Or(test.destroyed, ""))
				check.Equal(t, output+" has the note", strings.Contains(strings.ReplaceAll(text,
					`\`, ""), "is destroyed first when"), test.note != "")
			}

			check.Contains(t, "the text", outputs(t, report)["text"], test.note)
		})
	}
}

// TestMarkedControlPlanesCompeteByFailureDomain marks three of four control plane machines. A control plane takes the
// oldest one of the fullest failure domain.
func TestMarkedControlPlanesCompeteByFailureDomain(t *testing.T) {
	owner := &unstructured.Unstructured{Object: map[string]any{"kind": "KubeadmControlPlane"}}

	var machines []*unstructured.Unstructured

	for i, test := range []struct {
		name, domain string
		marked       bool
	}{{"d", "y", false}, {"a", "x", true}, {"b", "y", true}, {"c", "y", true}} {
		machine := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"failureDomain": test.domain}}}
		machine.SetName(test.name)
		machine.SetCreationTimestamp(metav1.NewTime(time.Unix(int64(i+1), 0)))

		if test.marked {
			machine.SetAnnotations(map[string]string{"cluster.x-k8s.io/delete-machine": ""})
		}

		machines = append(machines, machine)
	}

	for count, want := range map[int64][]string{1: {"b"}, 2: {"b", "c"}, 4: {"a", "b", "c", "d"}} {
		out, candidates := predictDeleted(owner, machines, count)
		check.Equal(t, fmt.Sprintf("the first %d", count), out, want)
		check.Length(t, "candidates", candidates, 0)
	}
}

// TestCertificatesEndWhenAnAnnotationSaysSo has a manifest of a control plane machine, or of its KubeadmConfig. Cluster
// API believes both.
func TestCertificatesEndWhenAnAnnotationSaysSo(t *testing.T) {
	const expiry = ", annotations: {machine.cluster.x-k8s.io/certificates-expiry: '%s'}"

	soon, late := "2020-01-01T00:00:00Z", time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339)
	config := func(date string) string {
		return "\n---\napiVersion: bootstrap.cluster.x-k8s.io/v1beta2\nkind: KubeadmConfig\nmetadata: {name: " +
			"demo-control-plane-x, namespace: default" + fmt.Sprintf(expiry, date) + "}\nspec: {}\n"
	}

	for name, test := range map[string]struct {
		more string
		want int64
	}{
		"nothing":                {"", 0},
		"of the Machine":         {aMachine("demo-control-plane-x", fmt.Sprintf(expiry, soon)), 1},
		"later":                  {aMachine("demo-control-plane-x", fmt.Sprintf(expiry, late)), 0},
		"of its KubeadmConfig":   {config(soon), 1},
		"the Machine's is later": {config(soon) + aMachine("demo-control-plane-x", fmt.Sprintf(expiry, late)), 0},
		"of a worker":            {aMachine("demo-md-0-a", fmt.Sprintf(expiry, soon)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			live := fixture.NewManagement(t)
			change(t, live, []string{"Machine"}, func(o *unstructured.Unstructured) {
				check.Error(t, unstructured.SetNestedStringMap(o.Object, map[string]string{
					"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": o.GetName(),
				}, "spec", "bootstrap", "configRef"), "")
			})

			more := strings.ReplaceAll(test.more, "bootstrap: {dataSecretName: a}",
				"bootstrap: {configRef: {apiGroup: "+
					"bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: demo-control-plane-x}}")
			report := reported(t, fixture.SampleManifests(t)+more, live, nil)
			check.Equal(t, "replaced", report.Summary.Replace, test.want)
		})
	}
}

// TestARemediationInAPullRequestIsRefused has one for a worker, which its controller would power off and on.
func TestARemediationInAPullRequestIsRefused(t *testing.T) {
	const remediation = "\n---\napiVersion: infrastructure.cluster.x-k8s.io/v1alpha1\nkind: " +
		"OLVMRemediation\nmetadata: " +
		"{name: demo-md-0-a, namespace: default}\nspec: {strategy: {type: Reboot, retryLimit: 3}}\n"

	for name, test := range map[string]struct {
		live, unreadable, want string
	}{
		"it is new": {
			"",
			"",
			"OLVMRemediation default/demo-md-0-a: it is new: if a MachineHealthCheck finds Machine " +
				"default/demo-md-0-a unhealthy, its VM is powered off and on",
		},
		"it changes":         {strings.Replace(remediation, "3", "1", 1), "", "spec.strategy.retryLimit changes"},
		"it may not be read": {"", "OLVMRemediation", "get olvmremediations.infrastructure.cluster.x-k8s.io"},
		"it is there":        {remediation, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			live := fixture.NewManagement(t)
			if test.live != "" {
				create(t, live, test.live)
			}

			m, err := load([]string{"-"}, strings.NewReader(fixture.SampleManifests(t)+remediation))
			check.Error(t, err, "")
			check.Error(t, m.AddLive(t.Context(), unreadable{live, test.unreadable}, ""), "")

			_, _, err = m.Expand()
			check.Error(t, err, test.want)
		})
	}
}

// TestATemplateOfRemediationsIsNamed has one that MachineHealthChecks may refer to.
func TestATemplateOfRemediationsIsNamed(t *testing.T) {
	const template = "\n---\napiVersion: infrastructure.cluster.x-k8s.io/v1alpha1\nkind: " +
		"OLVMRemediationTemplate\nmetadata: " +
		"{name: reboot, namespace: default}\nspec: {template: {spec: {strategy: {type: Reboot, retryLimit: 3}}}}\n"

	for name, test := range map[string]struct {
		live, want string
	}{
		"it is new":   {"", "OLVMRemediationTemplate default/reboot: it is new: "},
		"it changes":  {strings.Replace(template, "3", "1", 1), "spec.template.spec.strategy.retryLimit changes"},
		"it is there": {template, ""},
	} {
		t.Run(name, func(t *testing.T) {
			live := fixture.NewManagement(t)
			if test.live != "" {
				create(t, live, test.live)
			}

			report := reported(t, fixture.SampleManifests(t)+template, live, nil)
			check.Contains(t, "the text", outputs(t, report)["text"], test.want)

			for output, text := range outputs(t, report) {
				check.Equal(t, output+" has a note", strings.Contains(text, "are powered off and on"), test.want != "")
			}
		})
	}
}

// TestAMachinePoolMakesNoMachineUnseen has pools of this provider, which it does not serve, and of another.
func TestAMachinePoolMakesNoMachineUnseen(t *testing.T) {
	const pool = "\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: MachinePool\nmetadata: {name: pool, " +
		"namespace: default}\n" +
		"spec: {clusterName: demo, replicas: 3, template: {spec: {clusterName: demo, bootstrap: {dataSecretName: a}, " +
		"infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: KIND, name: pool}}}}\n"

	for name, test := range map[string]struct {
		kind, cluster, problem, note string
	}{
		"a template of ours": {
			"OLVMMachineTemplate",
			"demo",
			"MachinePool default/pool: spec.template.spec.infrastructureRef: OLVMMachineTemplate: this provider " +
				"has no machine pools",
			"",
		},
		"a kind that is none": {"OLVMMachinePool", "demo", "OLVMMachinePool: this provider has no machine pools", ""},
		"of another provider": {
			"DockerMachinePool",
			"demo",
			"",
			"its machines are of another provider (DockerMachinePool.infrastructure.cluster.x-k8s.io)",
		},
		"of a cluster of these": {"DockerMachinePool", "other", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(pool, "KIND", test.kind, 1)
			text = strings.Replace(text, "{clusterName: demo", "{clusterName: "+test.cluster, 1)

			m, err := load([]string{"-"}, strings.NewReader(fixture.SampleManifests(t)+text))
			check.Error(t, err, "")

			report, err := m.ReportOn(t.Context(), Request{Offline: true})
			check.Error(t, err, test.problem)

			if err != nil {
				return
			}

			for output, text := range outputs(t, report) {
				check.Contains(t, output, strings.ReplaceAll(text, `\`, ""), test.note)
				check.Equal(t, output+" has a note", strings.Contains(text, "are of another provider"), test.note != "")
			}
		})
	}
}

// TestAPrunedNamespaceTakesItsMachinesWithIt keeps all objects of a namespace in the manifests, and drops the
// Namespace.
func TestAPrunedNamespaceTakesItsMachinesWithIt(t *testing.T) {
	labels := map[string]string{
		"kustomize.toolkit.fluxcd.io/name": "clusters", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
	}
	written := "\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n"

	for name, test := range map[string]struct {
		labels  map[string]string
		written string
		want    planreport.Summary
	}{
		"Flux has applied it":    {labels, "", planreport.Summary{Destroy: 3, Objects: 1}},
		"the manifests have it":  {labels, written, planreport.Summary{}},
		"another has applied it": {nil, "", planreport.Summary{}},
		"it is to be kept anyway": {
			map[string]string{"kustomize.toolkit.fluxcd.io/name": "clusters", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
				"kustomize.toolkit.fluxcd.io/prune": "disabled"},
			"",
			planreport.Summary{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			live := fixture.NewManagement(t)
			byFlux(t, live)
			check.Error(t, live.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: "default", Labels: test.labels,
			}}), "")

			report := reported(t, fixture.SampleManifests(t)+test.written, live, nil)
			check.Equal(t, "summary", report.Summary, test.want)

			for output, text := range outputs(t, report) {
				check.Equal(t, output+" names it", strings.Contains(text, "Namespace default is no longer in the manifests"),
					test.want.Destroy > 0)
			}
		})
	}
}

// TestAPrunedCRDIsRefused keeps all objects in the manifests, and drops the definition of their kind.
func TestAPrunedCRDIsRefused(t *testing.T) {
	const crd = "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: " +
		"clusters.cluster.x-k8s.io, labels: {kustomize.toolkit.fluxcd.io/name: NAME, " +
		"kustomize.toolkit.fluxcd.io/namespace: flux-system}}}"

	for name, test := range map[string]struct{ of, written, want string }{
		"Flux has applied it": {
			"clusters",
			"",
			"CustomResourceDefinition clusters.cluster.x-k8s.io is not in the manifests any more",
		},
		"another has applied it":   {"others", "", ""},
		"the manifests contain it": {"clusters", "\n---\n" + crd, ""},
	} {
		t.Run(name, func(t *testing.T) {
			live := fixture.NewManagement(t)
			byFlux(t, live)
			create(t, live, strings.Replace(crd, "NAME", test.of, 1))

			m, err := load([]string{"-"}, strings.NewReader(fixture.SampleManifests(t)+test.written))
			check.Error(t, err, "")
			check.Error(t, m.AddLive(t.Context(), live, ""), test.want)
		})
	}
}

// TestAForeignKindIsNotTakenForOurs has objects of other API groups with our kinds and names.
func TestAForeignKindIsNotTakenForOurs(t *testing.T) {
	control, workers := "kind: KubeadmControlPlane\n    name: demo-control-plane",
		"kind: KubeadmConfigTemplate\n          name: demo-md-0"
	manifests := func(pairs ...string) *Manifests {
		m, err := load([]string{"-"}, strings.NewReader(fixture.SampleManifests(t, pairs...)))
		check.Error(t, err, "")

		return m
	}
	find := func(m *Manifests, kind string) *unstructured.Unstructured {
		for _, owner := range m.Owners {
			if owner.GetKind() == kind {
				return owner
			}
		}

		return nil
	}

	own := manifests()
	check.Equal(t, "our configuration", own.formatOf(find(own, "MachineDeployment")), bootstrap.CloudConfig)
	check.Equal(t, "our control plane", own.clusterOfControlPlane(find(own, "KubeadmControlPlane")), "demo")

	foreign := manifests("bootstrap.cluster.x-k8s.io\n          "+workers, "example.com\n          "+workers,
		"controlplane.cluster.x-k8s.io\n    "+control, "example.com\n    "+control)
	check.Equal(t, "a foreign configuration", foreign.formatOf(find(foreign, "MachineDeployment")), "")
	check.Equal(t, "a foreign control plane", foreign.clusterOfControlPlane(find(foreign, "KubeadmControlPlane")), "")

	_, _, err := foreign.Expand()
	check.Error(t, err, "no Cluster in the manifests refers to it; add the Cluster, or correct its controlPlaneRef")

	other := manifests(control, "kind: RKE2ControlPlane\n    name: demo-control-plane")
	check.Equal(t, "another kind of control plane", other.clusterOfControlPlane(find(other, "KubeadmControlPlane")), "")

	machine := &unstructured.Unstructured{}
	machine.SetNamespace("default")

	for version, want := range map[string]bool{"cluster.x-k8s.io/v1beta1": true, "example.com/v1beta2": false} {
		machine.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: version, Kind: "MachineDeployment",
			Name: "demo-md-0"}})
		check.Equal(t, version+" owns it", isControlled(machine, own.Owners), want)
	}

	services := manifests("infrastructure.cluster.x-k8s.io\n    kind: OLVMCluster\n    name: demo",
		"example.com\n    kind: OLVMCluster\n    name: demo")
	services.Services[types.NamespacedName{Namespace: "default", Name: "demo"}] = &infrav1alpha1.OLVMSupportServices{
		Spec: infrav1alpha1.OLVMSupportServicesSpec{ClusterName: "demo"},
	}
	_, err = services.supportMachines()
	check.Error(t, err, "the infrastructure of Cluster demo is of kind OLVMCluster.example.com, not an OLVMCluster "+
		"of this provider")
}

// TestAForeignTemplateIsNoPartOfAClass changes a template of another API group than that of the class.
func TestAForeignTemplateIsNoPartOfAClass(t *testing.T) {
	live := fixture.NewManagement(t)
	change(t, live, []string{"Cluster"}, func(o *unstructured.Unstructured) {
		check.Error(t, unstructured.SetNestedField(o.Object, "class", "spec", "topology", "classRef", "name"), "")
	})

	foreign := strings.NewReplacer("bootstrap.cluster.x-k8s.io/v1beta2", "example.com/v1").Replace(aWorkersTemplate)
	create(t, live, aClass, aWorkersTemplate, foreign)

	for name, test := range map[string]struct{ template, want string }{
		"the template of the class": {aWorkersTemplate, "KubeadmConfigTemplate default/workers: spec.template"},
		"one of another group":      {foreign, ""},
	} {
		m, err := load([]string{"-"}, strings.NewReader(strings.Replace(test.template, `"2"`, `"4"`, 1)))
		check.Error(t, err, "")
		check.Error(t, m.AddLive(t.Context(), live, ""), "")

		_, _, err = m.Expand()
		check.Error(t, err, test.want)
		check.Equal(t, name, err == nil, test.want == "")
	}
}

// TestAForeignTemplateOfAClusterFileKeepsItsName has manifests of a cluster file whose workers are of another provider.
func TestAForeignTemplateOfAClusterFileKeepsItsName(t *testing.T) {
	text := strings.ReplaceAll(fixture.SampleManifests(t, "apiGroup: infrastructure.cluster.x-k8s.io\n        "+
		"kind: OLVMMachineTemplate\n        name: demo-md-0",
		"apiGroup: example.com\n        kind: OLVMMachineTemplate\n        name: demo-md-0",
		"memory: 16GB", "memory: 32GB"),
		"ENGINE_URL", fixture.EngineURL)

	m, err := load([]string{"-"}, strings.NewReader(text))
	check.Error(t, err, "")

	var objects []*unstructured.Unstructured

	for _, document := range strings.Split(text, "\n---\n") {
		object := &unstructured.Unstructured{}
		check.Error(t, yaml.Unmarshal([]byte(document), &object.Object), "")
		objects = append(objects, object)
	}

	followed, err := planinput.FollowGenerations(t.Context(), objects, fixture.NewManagement(t))
	check.Error(t, err, "")
	check.Length(t, "owners", m.Owners, 2)

	for _, object := range followed {
		if object.GetKind() == "MachineDeployment" {
			_, ref := planinput.MachineRefs(object)
			check.Equal(t, "the template of another provider", ref.Name, "demo-md-0")
		}
	}
}

// TestAPullRequestChangesNoTerraformState has a Secret in the place of the state of a machine.
func TestAPullRequestChangesNoTerraformState(t *testing.T) {
	const state = "\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: tfstate-default-demo-md-0-a, namespace: " +
		"default}\ndata: " +
		"{tfstate: "

	for name, test := range map[string]struct {
		data, want string
		offline    bool
	}{
		"another state": {
			"YQ==}\n",
			"Secret default/tfstate-default-demo-md-0-a: it has the Terraform state of OLVMMachine default/demo-md-0-a",
			false,
		},
		"none":     {"''}\n", "it has the Terraform state", false},
		"the same": {"eA==}\n", "", false},
		"unread":   {"eA==}\n", "it has the Terraform state", true},
	} {
		t.Run(name, func(t *testing.T) {
			live := fixture.NewManagement(t)
			check.Error(t, live.Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "tfstate-default-demo-md-0-a", Namespace: "default"},
				Data:       map[string][]byte{"tfstate": []byte("x")},
			}), "")

			text := strings.ReplaceAll(fixture.SampleManifests(t), "ENGINE_URL", fixture.EngineURL)
			m, err := load([]string{"-"}, strings.NewReader(text+state+test.data))
			check.Error(t, err, "")
			check.Error(t, m.AddManagementCluster(t.Context(), writable{live}, "", test.offline), test.want)
		})
	}
}

// writable is a management cluster that accepts dry runs.
type writable struct{ client.Client }

func (writable) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return nil
}

// TestManifestsOfAClusterFileGiveNoOrders has manifests in the place of those that a cluster file describes.
func TestManifestsOfAClusterFileGiveNoOrders(t *testing.T) {
	for name, test := range map[string]struct{ from, to, want string }{
		"nothing": {"", "", ""},
		"an unknown field": {
			"  replicas: 2\n",
			"  replcas: 2\n",
			"MachineDeployment default/demo-md-0: spec.replcas: unknown field",
		},
		"an order": {"kind: MachineDeployment\nmetadata:\n", "kind: MachineDeployment\nmetadata:\n  annotations: " +
			"{argocd.argoproj.io/hook: Sync}\n", "has Argo CD delete the object with its machines"},
	} {
		objects, err := manifest.Read([]byte(fixture.SampleManifests(t, test.from, test.to)))
		check.Error(t, err, "")

		_, err = loadClusterFile(objects)
		check.Error(t, err, test.want)
		check.Equal(t, name, err == nil, test.want == "")
	}
}

// asWritten is a management cluster that refuses dry runs of more than a manifest.
type asWritten struct{ client.Client }

func (asWritten) Apply(_ context.Context, object runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	content, err := json.Marshal(object)
	if err == nil && strings.Contains(string(content), "resourceVersion") {
		err = errors.New("metadata.managedFields must be nil")
	}

	return err
}

// TestTheAPIServerIsAskedAboutTheManifestOfAMachine has a manifest of a Machine that the management cluster has, too.
func TestTheAPIServerIsAskedAboutTheManifestOfAMachine(t *testing.T) {
	text := strings.ReplaceAll(fixture.SampleManifests(t), "ENGINE_URL", fixture.EngineURL) + aMachine("demo-md-0-a",
		"")
	m, err := load([]string{"-"}, strings.NewReader(text))
	check.Error(t, err, "")
	check.Error(t, m.AddManagementCluster(t.Context(), asWritten{fixture.NewManagement(t)}, "", true), "")
}
