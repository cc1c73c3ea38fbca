package preview

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAPullRequestHidesNoDestroyedMachine scales the workers to zero. It also tries to hide that they belong to their
// MachineDeployment, or to this provider.
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
		return fixture.SampleManifests(t, append([]string{"replicas: 2", "replicas: 0"}, pairs...)...)
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
			planreport.Summary{}, "metadata.labels: cluster.x-k8s.io/deployment-name differs in the management " +
				"cluster"},
		"manifests that are being deleted": {none(t, "replicas: 0", "replicas: 2") +
			machine("demo-md-0-a", ", deletionTimestamp: '2026-01-01T00:00:00Z'"), planreport.Summary{}, ""},
		"manifests of the OLVMMachines": {none(t) + infra("demo-md-0-a") + infra("demo-md-0-b"), planreport.Summary{Destroy: 2}, ""},
		"a rollout, and manifests of the OLVMMachines": {strings.ReplaceAll(none(t, "replicas: 0", "replicas: 2"),
			"name: demo-md-0\n", "name: demo-md-1\n") + infra("demo-md-0-a"), planreport.Summary{Create: 2}, ""},
		"a template of another provider": {none(t, "replicas: 0", "replicas: 2", "kind: OLVMMachineTemplate\n        name: demo-md-0",
			"kind: DockerMachineTemplate\n        name: demo-md-0"), planreport.Summary{Replace: 2}, ""},
		"a template of another group": {none(t, "replicas: 0", "replicas: 2", "infrastructure.cluster.x-k8s.io\n        kind: OLVMMachineTemplate\n        name: demo-md-0",
			"example.com\n        kind: OLVMMachineTemplate\n        name: demo-md-0"), planreport.Summary{Replace: 2}, ""},
		"a cluster of another group": {none(t, "infrastructure.cluster.x-k8s.io\n    kind: OLVMCluster\n    name: demo",
			"example.com\n    kind: OLVMCluster\n    name: demo"), planreport.Summary{}, "a cluster cannot change its provider"},
		"a cluster of another provider": {none(t, "kind: OLVMCluster\n    name: demo", "kind: DockerCluster\n    name: demo"),
			planreport.Summary{}, "a cluster cannot change its provider"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := load([]string{"-"}, strings.NewReader(test.manifests))
			check.Error(t, err, "")

			err = m.AddLive(t.Context(), fixture.NewManagement(t), "")
			machines, owners, expandErr := m.Expand()
			err = cmp.Or(err, expandErr)
			check.Error(t, err, test.problem)

			if err != nil {
				return
			}

			report := m.reportOf(DescribeOffline(m, machines), owners, nil, true)
			check.Equal(t, "summary", report.Summary, test.want)
		})
	}
}

// converting is a management cluster that serves the owners of machines also in v1beta1, or does not know this version.
type converting struct {
	client.Client
	toV1Beta1 func(*unstructured.Unstructured)
}

func (c converting) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	asked, isAny := object.(*unstructured.Unstructured)
	if !isAny || asked.GroupVersionKind().Version != "v1beta1" {
		return c.Client.Get(ctx, key, object, options...)
	}

	kind := asked.GroupVersionKind()
	if c.toV1Beta1 == nil {
		return &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
	}

	asked.SetGroupVersionKind(kind.GroupKind().WithVersion("v1beta2"))

	if err := c.Client.Get(ctx, key, asked, options...); err != nil {
		return err
	}

	asked.SetGroupVersionKind(kind)
	c.toV1Beta1(asked)

	return nil
}

// TestAPullRequestHidesNoRolloutBehindAnotherAPIVersion changes the settings of machines in a manifest with the
// previous API version.
func TestAPullRequestHidesNoRolloutBehindAnotherAPIVersion(t *testing.T) {
	controlPlane := func(changes ...string) []string { return slices.Concat(fixture.ControlPlaneInV1Beta1, changes) }
	workers := func(changes ...string) []string { return slices.Concat(fixture.WorkersInV1Beta1, changes) }

	// References in v1beta1 have an apiVersion instead of a group. The rest of the sample is the same.
	toV1Beta1 := func(o *unstructured.Unstructured) {
		if bootstrap, found, _ := unstructured.NestedMap(
			o.Object, "spec", "template", "spec", "bootstrap", "configRef",
		); found {
			delete(bootstrap, "apiGroup")
			bootstrap["apiVersion"] = "bootstrap.cluster.x-k8s.io/v1beta1"
			check.Error(
				t, unstructured.SetNestedMap(o.Object, bootstrap, "spec", "template", "spec", "bootstrap", "configRef"),
				"",
			)
		}
	}
	_, kubeadm, _ := strings.Cut(fixture.SampleManifests(t), "  kubeadmConfigSpec:\n")
	kubeadm, _, _ = strings.Cut("  kubeadmConfigSpec:\n"+kubeadm, "\n---\n")

	for name, test := range map[string]struct {
		changes   []string
		unread    bool
		machines  int64
		why, line string
	}{
		"nothing":                 {changes: controlPlane(fixture.WorkersInV1Beta1...)},
		"a field for kubeadm":     {controlPlane("127.0.0.1]", "127.0.0.2]"), false, 1, "certSANs", "certSANs"},
		"all for kubeadm is gone": {controlPlane(kubeadm, ""), false, 1, "spec.kubeadmConfigSpec", ""},
		"another group of it": {
			workers("bootstrap.cluster.x-k8s.io/v1beta1\n          kind: KubeadmConfigTemplate",
				"example.com/v1beta1\n          kind: KubeadmConfigTemplate"),
			false,
			2,
			"configRef.group",
			"",
		},
		"a field for kubeadm is gone": {
			controlPlane("        certSANs: [localhost, 127.0.0.1]", "        {}"),
			false,
			1,
			"certSANs",
			"",
		},
		"another bootstrap template": {
			workers("KubeadmConfigTemplate\n          name: demo-md-0", "KubeadmConfigTemplate\n          name: "+
				"demo-md-1"),
			false,
			2,
			"configRef.name",
			"",
		},
		"another kind of it": {
			workers("kind: KubeadmConfigTemplate\n          name", "kind: RKE2ConfigTemplate\n          name"),
			false,
			2,
			"configRef.kind",
			"",
		},
		"a failure domain": {
			workers("      version: v1.36.1\n      bootstrap", "      version: v1.36.1\n      failureDomain: b\n   "+
				"   bootstrap"),
			false,
			2,
			"failureDomain",
			"",
		},
		"workers in an unread version": {workers(), true, 2, "its apiVersion changes to cluster.x-k8s.io/v1beta1", ""},
		"a control plane in one": {
			controlPlane(),
			true,
			1,
			"its apiVersion changes to controlplane.cluster.x-k8s.io/v1beta1",
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := load([]string{"-"}, strings.NewReader(fixture.SampleManifests(t, test.changes...)))
			check.Error(t, err, "")

			live := converting{fixture.NewManagement(t), toV1Beta1}
			if test.unread {
				live.toV1Beta1 = nil
			}

			check.Error(t, m.AddLive(t.Context(), live, ""), "")

			machines, owners, err := m.Expand()
			check.Error(t, err, "")
			report := m.reportOf(DescribeOffline(m, machines), owners, nil, true)
			check.Equal(t, "summary", report.Summary, planreport.Summary{Replace: test.machines})

			if test.machines > 0 {
				check.Length(t, "owners", owners, 1)
				check.Contains(t, "reasons", strings.Join(owners[0].Reasons, "\n"), test.why)
				check.Contains(t, "differences", strings.Join(owners[0].Differences, "\n"), test.line)
			}
		})
	}
}

// TestAPullRequestHidesNothingBehindAnotherControlPlane changes and removes a control plane of another provider. Its
// machines belong to this provider.
func TestAPullRequestHidesNothingBehindAnotherControlPlane(t *testing.T) {
	const written = "\n---\napiVersion: controlplane.cluster.x-k8s.io/v1beta1\nkind: RKE2ControlPlane\n" +
		"metadata: {name: demo-control-plane, namespace: default}\nspec: {replicas: 3, version: v1.36.1+rke2r1}\n"

	before, rest, _ := strings.Cut(
		fixture.SampleManifests(t, "kind: KubeadmControlPlane", "kind: RKE2ControlPlane"),
		"apiVersion: controlplane.cluster.x-k8s.io",
	)
	_, rest, _ = strings.Cut(rest, "\n---\n")
	sample := before + rest

	for name, test := range map[string]struct {
		manifests  string
		prune      bool
		unreadable string
		want       string
	}{
		"nothing changes":      {sample + written, true, "", ""},
		"fewer machines":       {sample + strings.Replace(written, "replicas: 3", "replicas: 1", 1), false, "", "RKE2ControlPlane default/demo-control-plane: spec.replicas changes"},
		"a field less":         {sample + strings.Replace(written, "replicas: 3, ", "", 1), false, "", "spec.replicas changes"},
		"it is gone":           {sample, true, "", "missing in the manifests"},
		"it is kept elsewhere": {sample, false, "", ""},
		"it may not be read": {sample + written, false, "RKE2ControlPlane",
			"you may not read it in the management cluster (get rke2controlplanes.controlplane.cluster.x-k8s.io), so it may change"},
		"it is not served in this version": {sample + strings.Replace(written, "v1beta1", "v1alpha9", 1), false, "v1alpha9",
			"the management cluster does not serve controlplane.cluster.x-k8s.io/v1alpha9, so it may change"},
		"it is gone from the management cluster": {sample + written, false, "gone",
			"missing in the management cluster, so it is created"},
		"the Cluster names another": {strings.Replace(sample, "RKE2ControlPlane", "KamajiControlPlane", 1), true,
			"", "RKE2ControlPlane default/demo-control-plane: missing in the manifests"},
		"the Cluster is not in them": {strings.Replace(written, "replicas: 3", "replicas: 1", 1) + "---\n" + sample[strings.Index(sample, "kind: OLVMCluster\nmetadata")-len("apiVersion: infrastructure.cluster.x-k8s.io/v1\n"):], false,
			"", "spec.replicas changes"},
	} {
		t.Run(name, func(t *testing.T) {
			live := fixture.NewManagement(t)
			change(t, live, []string{"Cluster"}, func(o *unstructured.Unstructured) {
				check.Error(
					t, unstructured.SetNestedField(o.Object, "RKE2ControlPlane", "spec", "controlPlaneRef", "kind"), "",
				)
			})

			old := &unstructured.Unstructured{}
			old.SetAPIVersion("controlplane.cluster.x-k8s.io/v1beta2")
			old.SetKind("KubeadmControlPlane")
			old.SetName("demo-control-plane")
			old.SetNamespace("default")
			check.Error(t, live.Delete(t.Context(), old), "")

			object := &unstructured.Unstructured{}
			check.Error(t, yaml.Unmarshal([]byte(strings.TrimPrefix(written, "\n---\n")), &object.Object), "")
			if test.unreadable != "gone" {
				check.Error(t, live.Create(t.Context(), object), "")
			}

			m, err := load([]string{"-"}, strings.NewReader(test.manifests))
			check.Error(t, err, "")
			m.SetPruning(test.prune)
			check.Error(t, m.AddLive(t.Context(), unreadable{live, test.unreadable}, ""), "")

			_, _, err = m.Expand()
			check.Error(t, err, test.want)
		})
	}
}

// TestAPullRequestGivesNoOrdersByAnnotation has annotations that Cluster API follows, wherever it reads them.
func TestAPullRequestGivesNoOrdersByAnnotation(t *testing.T) {
	const (
		controlPlane = "kind: KubeadmControlPlane\nmetadata:\n"
		workers      = "kind: MachineDeployment\nmetadata:\n"
		restored     = "  annotations: {cluster.x-k8s.io/conversion-data: '{\"spec\":{}}'}\n"
		marked       = "annotations: {cluster.x-k8s.io/remediate-machine: ''}"
		toDelete     = "annotations: {cluster.x-k8s.io/delete-machine: ''}"
		machine      = "\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nmetadata: {name: demo-md-0-a, namespace: default, " +
			marked + "}\nspec: {clusterName: demo, bootstrap: {dataSecretName: a}, infrastructureRef: {apiGroup: " +
			"infrastructure.cluster.x-k8s.io, kind: OLVMMachine, name: demo-md-0-a}}\n"
		older = "\n---\napiVersion: controlplane.cluster.x-k8s.io/v1beta1\nkind: RKE2ControlPlane\nmetadata:\n  name: a\n"
	)

	annotated := func(name, value string) string {
		return fixture.SampleManifests(t, workers, workers+"  annotations: {"+name+": '"+value+"'}\n")
	}

	for name, test := range map[string]struct {
		manifests string
		want      string
	}{
		"nothing":            {fixture.SampleManifests(t), ""},
		"another annotation": {fixture.SampleManifests(t, controlPlane, controlPlane+"  annotations: {a: b}\n"), ""},
		"fields for a conversion": {fixture.SampleManifests(t, controlPlane, controlPlane+restored),
			"cluster.x-k8s.io/conversion-data is reserved for Cluster API; remove it"},
		"fields of workers": {fixture.SampleManifests(t, workers, workers+restored),
			"cluster.x-k8s.io/conversion-data is reserved for Cluster API; remove it"},
		"fields of another's kind": {fixture.SampleManifests(t) + older + restored,
			"cluster.x-k8s.io/conversion-data is reserved for Cluster API; remove it"},
		"a Machine to destroy": {fixture.SampleManifests(t) + machine,
			"cluster.x-k8s.io/remediate-machine makes a MachineHealthCheck destroy machines"},
		"all workers": {fixture.SampleManifests(t, "  template:\n    spec:\n      clusterName", "  template:\n    metadata: {"+marked+"}\n    spec:\n      clusterName"),
			"spec.template.metadata.annotations: cluster.x-k8s.io/remediate-machine"},
		"all control planes": {fixture.SampleManifests(t, "  machineTemplate:\n", "  machineTemplate:\n    metadata: {"+marked+"}\n"),
			"spec.machineTemplate.metadata.annotations: cluster.x-k8s.io/remediate-machine"},
		"a Machine to delete first": {fixture.SampleManifests(t) + strings.Replace(machine, marked, toDelete, 1), ""},
		"all workers to delete": {fixture.SampleManifests(t, "  template:\n    spec:\n      clusterName",
			"  template:\n    metadata: {"+toDelete+"}\n    spec:\n      clusterName"),
			"spec.template.metadata.annotations: cluster.x-k8s.io/delete-machine marks all machines alike"},
		"all control planes to delete": {fixture.SampleManifests(t, "  machineTemplate:\n",
			"  machineTemplate:\n    metadata: {"+toDelete+"}\n"),
			"spec.machineTemplate.metadata.annotations: cluster.x-k8s.io/delete-machine"},
		"all certificates end": {fixture.SampleManifests(t, "  machineTemplate:\n",
			"  machineTemplate:\n    metadata: {annotations: {machine.cluster.x-k8s.io/certificates-expiry: "+
				"'2020-01-01T00:00:00Z'}}\n"),
			"spec.machineTemplate.metadata.annotations: machine.cluster.x-k8s.io/certificates-expiry"},
		"an update in place": {
			annotated("in-place-updates.internal.cluster.x-k8s.io/update-in-progress", ""),
			"is reserved for Cluster API; remove it",
		},
		"Argo CD makes it anew": {
			annotated("argocd.argoproj.io/sync-options", "Prune=false, Force=true"),
			"may have Argo CD delete the object",
		},
		"Argo CD keeps it":  {annotated("argocd.argoproj.io/sync-options", "Prune=false,Validate=false"), ""},
		"a hook of Argo CD": {annotated("argocd.argoproj.io/hook", "PreSync"), "has Argo CD delete the object"},
		"a hook of Helm": {
			annotated("helm.sh/hook", "pre-upgrade"),
			"has Helm or Argo CD delete the object",
		},
		"Flux makes it anew": {
			annotated("kustomize.toolkit.fluxcd.io/force", "enabled"),
			"may have Flux delete the object",
		},
		"Flux does not": {annotated("kustomize.toolkit.fluxcd.io/force", "disabled"), ""},
		"a label, too": {
			fixture.SampleManifests(t, workers, workers+"  labels: {kustomize.toolkit.fluxcd.io/force: enabled, x: "+
				"y}\n", "\n  labels:\n    cluster.x-k8s.io/cluster-name: demo\nspec:\n  clusterName",
				"\nspec:\n  clusterName"),
			"metadata.labels: kustomize.toolkit.fluxcd.io/force",
		},
		"kapp makes it anew": {
			annotated("kapp.k14s.io/update-strategy", "fallback-on-replace"),
			"may have kapp delete the object",
		},
		"kustomize leaves it out": {
			annotated("config.kubernetes.io/local-config", "true"),
			"has kustomize and Flux leave the object out",
		},
		"an object of another kind": {
			fixture.SampleManifests(t) + "\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: a, annotations: " +
				"{helm.sh/hook: x}}\n",
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load([]string{"-"}, strings.NewReader(test.manifests))
			check.Error(t, err, test.want)
		})
	}
}

// TestAChangedControlPlaneIsReadInANamespaceOfItsOwn has nothing else of its namespace in the manifests.
func TestAChangedControlPlaneIsReadInANamespaceOfItsOwn(t *testing.T) {
	const cluster = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: prod, namespace: prod}\nspec: " +
		"{infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OLVMCluster, name: prod}, " +
		"controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: RKE2ControlPlane, name: prod}}\n"
	const live = "apiVersion: controlplane.cluster.x-k8s.io/v1beta1\nkind: RKE2ControlPlane\n" +
		"metadata: {name: prod, namespace: prod}\nspec: {replicas: 3}\n"

	for name, test := range map[string]struct{ written, want string }{
		"nothing changes": {live, ""},
		"fewer machines":  {strings.Replace(live, "replicas: 3", "replicas: 1", 1), "RKE2ControlPlane prod/prod: spec.replicas changes"},
		"another group":   {strings.Replace(live, "controlplane.cluster", "controlplane.example", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			management := fixture.NewManagement(t)

			for _, text := range []string{cluster, live} {
				object := &unstructured.Unstructured{}
				check.Error(t, yaml.Unmarshal([]byte(text), &object.Object), "")
				check.Error(t, management.Create(t.Context(), object), "")
			}

			m, err := load([]string{"-"}, strings.NewReader(fixture.SampleManifests(t)+"\n---\n"+test.written))
			check.Error(t, err, "")
			check.Error(t, m.AddLive(t.Context(), management, ""), "")

			_, err = m.ReportOn(t.Context(), Request{Offline: true})
			check.Error(t, err, test.want)
		})
	}
}

// TestAMachineHealthCheckIsNamed has one for a running Cluster: which machines it finds unhealthy is decided later.
func TestAMachineHealthCheckIsNamed(t *testing.T) {
	const live = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineHealthCheck\nmetadata: {name: workers, namespace: default}\n" +
		"spec: {clusterName: demo, selector: {matchLabels: {a: b}}, checks: {unhealthyNodeConditions: [{type: Ready, status: " +
		"Unknown, timeoutSeconds: 300}], nodeStartupTimeoutSeconds: 600}}\n"

	for name, test := range map[string]struct {
		pairs      []string
		unreadable string
		isNew      bool
		want       string
	}{
		"nothing changes":       {},
		"a default is not set":  {pairs: []string{", nodeStartupTimeoutSeconds: 600", ""}},
		"it is new":             {isNew: true, want: "MachineHealthCheck default/workers: it is new"},
		"all are unhealthy":     {pairs: []string{"Unknown", "'True'"}, want: "unhealthyNodeConditions"},
		"it covers more":        {pairs: []string{"{a: b}", "{}"}, want: "spec.selector.matchLabels"},
		"of a Cluster to come":  {pairs: []string{"clusterName: demo", "clusterName: other"}},
		"it may not be read":    {unreadable: "MachineHealthCheck", want: "get machinehealthchecks.cluster.x-k8s.io"},
		"alone in the manifest": {pairs: []string{"Unknown", "'True'"}, unreadable: "alone", want: "unhealthyNodeConditions"},
	} {
		t.Run(name, func(t *testing.T) {
			management := fixture.NewManagement(t)

			if !test.isNew {
				object := &unstructured.Unstructured{}
				check.Error(t, yaml.Unmarshal([]byte(live), &object.Object), "")
				check.Error(t, management.Create(t.Context(), object), "")
			}

			written := strings.NewReplacer(test.pairs...).Replace(live)
			if test.unreadable != "alone" {
				written = fixture.SampleManifests(t) + "\n---\n" + written
			}

			m, err := load([]string{"-"}, strings.NewReader(written))
			check.Error(t, err, "")
			check.Error(t, m.AddLive(t.Context(), unreadable{management, test.unreadable}, ""), "")

			report, err := m.ReportOn(t.Context(), Request{Offline: true})
			check.Error(t, err, "")

			for output, text := range outputs(t, report) {
				check.Contains(t, output, text, test.want)
				check.Equal(t, output+" has a note", strings.Contains(text, "it finds unhealthy"), test.want != "")
			}
		})
	}
}

// TestAnotherAPIVersionLosesNoTimeoutUnseen writes a control plane in v1beta1, unable to express some of its timeouts.
func TestAnotherAPIVersionLosesNoTimeoutUnseen(t *testing.T) {
	const current, older = "controlplane.cluster.x-k8s.io/v1beta2", "controlplane.cluster.x-k8s.io/v1beta1"
	const infra = `"machineTemplate":{"spec":{"infrastructureRef":{"name":"a"}}}`
	const timeouts = `,"kubeadmConfigSpec":{"joinConfiguration":{"timeouts":{"kubeletHealthCheckSeconds":600}}}`

	for name, test := range map[string]struct {
		version, when, field, fields string
		want                         int64
	}{
		"nothing tells who set it":   {older, "joinConfiguration", "kubeletHealthCheckSeconds", "", 1},
		"a manifest has set it":      {older, "joinConfiguration", "kubeletHealthCheckSeconds", infra + timeouts, 1},
		"another has set it":         {older, "joinConfiguration", "kubeletHealthCheckSeconds", infra, 0},
		"of the first control plane": {older, "initConfiguration", "tlsBootstrapSeconds", "", 1},
		"v1beta1 has it elsewhere":   {older, "joinConfiguration", "tlsBootstrapSeconds", "", 0},
		"v1beta1 has it, too":        {older, "initConfiguration", "controlPlaneComponentHealthCheckSeconds", "", 0},
		"the same version":           {current, "joinConfiguration", "kubeletHealthCheckSeconds", infra, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := []string{"spec", "kubeadmConfigSpec", test.when, "timeouts"}
			management := fixture.NewManagement(t)
			change(t, management, []string{"KubeadmControlPlane"}, func(o *unstructured.Unstructured) {
				check.Error(t, unstructured.SetNestedField(o.Object, int64(600), append(path, test.field)...), "")

				if test.fields != "" {
					o.SetAnnotations(map[string]string{
						"kubectl.kubernetes.io/last-applied-configuration": `{"spec":{` + test.fields + `}}`,
					})
				}
			})

			var changes []string
			if test.version == older {
				changes = fixture.ControlPlaneInV1Beta1
			}

			m, err := load([]string{"-"}, strings.NewReader(fixture.SampleManifests(t, changes...)))
			check.Error(t, err, "")
			check.Error(t, m.AddLive(t.Context(), converting{management, func(o *unstructured.Unstructured) {
				unstructured.RemoveNestedField(o.Object, path...)
			}}, ""), "")

			report, err := m.ReportOn(t.Context(), Request{Offline: true})
			check.Error(t, err, "")
			check.Equal(t, "machines", report.Summary.Replace, test.want)

			if test.want > 0 {
				check.Contains(t, "the reason", strings.Join(report.Owners[0].Reasons, " "), "timeouts."+test.field+" is not in "+older)
			}
		})
	}
}
