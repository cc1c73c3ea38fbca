package preview

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAPlanSeesWhatElseRollsMachinesOut has changes of fields other than the version and the template. Every output
// shows them.
func TestAPlanSeesWhatElseRollsMachinesOut(t *testing.T) {
	const rollout, workers = "\n  rollout:\n", "spec:\n  clusterName: demo\n  replicas: 2\n"

	certified := func(o *unstructured.Unstructured) {
		ends := time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339)
		check.Error(t, unstructured.SetNestedField(o.Object, ends, "status", "certificatesExpiryDate"), "")
	}

	for name, test := range map[string]struct {
		from, to string
		live     func(*unstructured.Unstructured)
		want     planreport.Summary
		line     string
	}{
		"kubeadm's configuration loses a field": {"    clusterConfiguration:\n      apiServer:\n        certSANs: [localhost, 127.0.0.1]\n",
			"    clusterConfiguration: {}\n", nil, planreport.Summary{Replace: 1}, "apiServer"},
		"kubeadm's configuration has its defaults": {"kubeadmConfigSpec:\n", "kubeadmConfigSpec:\n    format: cloud-config\n", nil,
			planreport.Summary{}, ""},
		"CoreDNS is updated in place": {"clusterConfiguration:\n", "clusterConfiguration:\n      dns: {imageTag: v1.12.0}\n", nil,
			planreport.Summary{}, ""},
		"a version without its v": {"version: v1.36.1", "version: 1.36.1", nil, planreport.Summary{}, ""},
		"a time has passed": {rollout, rollout + "    after: '2026-02-01T00:00:00Z'\n", nil, planreport.Summary{Replace: 1},
			"spec.rollout.after 2026-02-01T00:00:00Z has passed"},
		"a time is still to come": {rollout, rollout + "    after: '2999-01-01T00:00:00Z'\n", nil, planreport.Summary{},
			"all its existing machines are replaced after 2999-01-01T00:00:00Z"},
		"a machine is unhealthy": {"replicas: 2", "replicas: 2", func(o *unstructured.Unstructured) {
			if o.GetName() == "demo-md-0-b" {
				o.Object["status"] = map[string]any{"conditions": []any{
					map[string]any{"type": "HealthCheckSucceeded", "status": "False"},
					map[string]any{"type": "OwnerRemediated", "status": "False"}}}
			}
		}, planreport.Summary{Replace: 1}, "a MachineHealthCheck has found it unhealthy"},
		"certificates end soon": {"certificatesExpiryDays: 21", "certificatesExpiryDays: 3650", certified, planreport.Summary{Replace: 1},
			"its certificates end within 3650 days (spec.rollout.before)"},
		"certificates end later": {"certificatesExpiryDays: 21", "certificatesExpiryDays: 30", certified, planreport.Summary{}, ""},
		"a machine is outdated, and stays until it is deleted": {workers, "spec:\n  clusterName: demo\n  replicas: 2\n" +
			"  rollout: {after: '2026-02-01T00:00:00Z', strategy: {type: OnDelete}}\n", nil, planreport.Summary{},
			"2 outdated machines are replaced only when you delete them"},
		"a cluster is paused": {"spec:\n  clusterNetwork:", "spec:\n  paused: true\n  clusterNetwork:", nil, planreport.Summary{},
			"Cluster default/demo is paused"},
	} {
		t.Run(name, func(t *testing.T) {
			c := fixture.NewManagement(t)
			change(t, c, []string{"Machine"}, func(o *unstructured.Unstructured) {
				check.Error(
					t, unstructured.SetNestedField(o.Object, "2026-01-01T00:00:00Z", "metadata", "creationTimestamp"),
					"",
				)

				if test.live != nil {
					test.live(o)
				}
			})

			text := fixture.SampleManifests(t)
			check.Contains(t, "the sample", text, test.from)

			report := reported(t, strings.Replace(text, test.from, test.to, 1), c, nil)
			check.Equal(t, "summary", report.Summary, test.want)

			for output, text := range outputs(t, report) {
				check.Contains(t, output, text, test.line)
			}
		})
	}
}

// TestBothVersionsSayWhenCertificatesEnd has the field of v1beta1, too.
func TestBothVersionsSayWhenCertificatesEnd(t *testing.T) {
	machine := &unstructured.Unstructured{Object: map[string]any{
		"status": map[string]any{"certificatesExpiryDate": time.Now().AddDate(0, 0, 30).UTC().Format(time.RFC3339)},
	}}

	for name, test := range map[string]struct {
		kind, path string
		days       int64
		want       string
	}{
		"soon":              {"KubeadmControlPlane", "rollout.before", 31, "within 31 days (spec.rollout.before)"},
		"later":             {"KubeadmControlPlane", "rollout.before", 29, ""},
		"soon in v1beta1":   {"KubeadmControlPlane", "rolloutBefore", 31, "within 31 days (spec.rolloutBefore)"},
		"in a million days": {"KubeadmControlPlane", "rollout.before", 1_000_000, "within 1000000 days"},
		"of workers":        {"MachineDeployment", "rollout.before", 31, ""},
	} {
		owner := &unstructured.Unstructured{Object: map[string]any{"kind": test.kind}}
		path := append(strings.Split("spec."+test.path, "."), "certificatesExpiryDays")
		check.Error(t, unstructured.SetNestedField(owner.Object, test.days, path...), "")

		got := NewManifests(&planinput.Input{}).expiryReason(owner, machine)
		check.Contains(t, name, got, test.want)
		check.Equal(t, name+": a reason", got != "", test.want != "")
	}
}

// TestUnhealthyMachinesGoFirst scales three workers to one.
func TestUnhealthyMachinesGoFirst(t *testing.T) {
	for name, test := range map[string]struct {
		unhealthy string
		want      []string
		of        int
	}{
		"one is unhealthy": {"b", []string{"b"}, 2},
		"two are":          {"ab", []string{"a", "b"}, 0},
		"all are":          {"abc", nil, 3},
		"none is":          {"", nil, 3},
		"nothing is known": {"?", nil, 3},
	} {
		var machines []*unstructured.Unstructured

		for _, letter := range "abc" {
			machine := &unstructured.Unstructured{Object: map[string]any{}}
			machine.SetName(string(letter))

			if test.unhealthy != "?" {
				node := "node"
				if strings.ContainsRune(test.unhealthy, letter) {
					node = ""
				}

				machine.Object["status"] = map[string]any{"phase": "Running", "nodeRef": map[string]any{"name": node}}
			}

			machines = append(machines, machine)
		}

		owner := &unstructured.Unstructured{Object: map[string]any{"kind": "MachineDeployment"}}
		chosen, candidates := predictDeleted(owner, machines, 2)
		check.Equal(t, name, chosen, test.want)
		check.Length(t, name+": candidates", candidates, test.of)
	}
}

// TestMachinesToComeHaveNamesOfTheirOwn has a control plane and workers of the same name.
func TestMachinesToComeHaveNamesOfTheirOwn(t *testing.T) {
	text := strings.NewReplacer("name: demo-control-plane", "name: same", "name: demo-md-0\n  namespace: default\nspec:\n  clusterName",
		"name: same\n  namespace: default\nspec:\n  clusterName").
		Replace(fixture.SampleManifests(t))
	m, err := load([]string{"-"}, strings.NewReader(text))
	check.Error(t, err, "")
	machines, err := m.Machines()
	check.Error(t, err, "")
	check.Length(t, "machines", machines, 3)

	names := map[string]string{}

	for _, machine := range machines {
		check.Equal(t, machine.Name+" is also of "+names[machine.Name], names[machine.Name], "")
		names[machine.Name] = machine.From
	}
}

// TestAReplacedMachineIsNotRefused has a rollout that solves a problem: the template of the running machines has no
// more addresses.
func TestAReplacedMachineIsNotRefused(t *testing.T) {
	c := fixture.NewManagement(t)
	change(t, c, []string{"OLVMMachine"}, func(o *unstructured.Unstructured) {
		unstructured.RemoveNestedField(o.Object, "spec", "virtualMachine", "network")
	})

	report := reported(t, strings.ReplaceAll(fixture.SampleManifests(t), "v1.36.1", "v1.36.2"), c, nil)
	check.Equal(t, "summary", report.Summary, planreport.Summary{Replace: 3})
}

// TestATemplateThatLosesAFieldIsRefused expects a removed field to be rejected like a changed one.
func TestATemplateThatLosesAFieldIsRefused(t *testing.T) {
	m, err := load(
		[]string{"-"},
		strings.NewReader(
			fixture.SampleManifests(t, "        cpu:\n          topology: {cores: 2, sockets: 1, threads: 1}\n", ""),
		),
	)
	check.Error(t, err, "")
	check.Error(t, m.AddLive(t.Context(), fixture.NewManagement(t), ""), "templates are immutable")
}

// TestAFieldThatOthersHaveSetIsNotRemoved has a control plane with fields missing from its manifest.
func TestAFieldThatOthersHaveSetIsNotRemoved(t *testing.T) {
	const (
		ref    = `"f:machineTemplate":{"f:spec":{"f:infrastructureRef":{"f:name":{}}}}`
		ntp    = `"f:kubeadmConfigSpec":{"f:ntp":{"f:enabled":{}}}`
		count  = `"f:kubeadmConfigSpec":{"f:verbosity":{}}`
		note   = "spec.kubeadmConfigSpec.ntp is not in the manifest"
		change = "spec.kubeadmConfigSpec.ntp.enabled changes"
	)
	by := func(manager, operation, fields string) any {
		var tree map[string]any
		check.Error(t, json.Unmarshal([]byte(`{"f:spec":{`+fields+`}}`), &tree), "")

		return map[string]any{"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": tree,
			"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2"}
	}

	for name, test := range map[string]struct {
		managers   []any
		last       string
		want, note string
	}{
		"nothing tells":         {want: change},
		"kubectl edit":          {managers: []any{by("gitops", "Apply", ref+","+count), by("kubectl-edit", "Update", ntp)}, note: note},
		"a policy applies it":   {managers: []any{by("gitops", "Apply", ref), by("policy", "Apply", ntp)}, note: note},
		"the applier has it":    {managers: []any{by("gitops", "Apply", ref+","+ntp)}, want: change},
		"the applier has all":   {managers: []any{by("gitops", "Apply", ref+`,"f:kubeadmConfigSpec":{}`)}, want: change},
		"another version":       {managers: []any{map[string]any{"manager": "m", "operation": "Apply", "apiVersion": "a/v1"}}, want: change},
		"kubectl has noted it":  {last: `"ntp":{"enabled":true}`, want: change},
		"kubectl has noted not": {last: `"verbosity":5`, note: note},
	} {
		t.Run(name, func(t *testing.T) {
			live := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
				"metadata": map[string]any{"name": "demo", "namespace": "default"},
				"spec":     map[string]any{"kubeadmConfigSpec": map[string]any{"verbosity": int64(5)}},
			}}
			owner := live.DeepCopy()
			check.Error(
				t, unstructured.SetNestedField(live.Object, true, "spec", "kubeadmConfigSpec", "ntp", "enabled"), "",
			)

			if test.managers != nil {
				check.Error(t, unstructured.SetNestedSlice(live.Object, test.managers, "metadata", "managedFields"), "")
			}

			if test.last != "" {
				live.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"spec":{` +
					`"machineTemplate":{"spec":{"infrastructureRef":{"name":"a"}}},"kubeadmConfigSpec":{` + test.last + `}}}`})
			}

			m := NewManifests(&planinput.Input{})
			check.Equal(t, "what changes", m.changeForAll(owner, live), test.want)
			check.Contains(t, "the notes", strings.Join(m.notes, "\n"), test.note)
			check.Length(t, "notes", m.notes, min(len(test.note), 1))
		})
	}
}

// TestOnlyWhatClusterAPIRemediatesIsReplaced has a control plane about to lose its etcd. Cluster API does not remediate
// it.
func TestOnlyWhatClusterAPIRemediatesIsReplaced(t *testing.T) {
	const refused, rebooted = "is unhealthy, but may not be replaced", "uses a remediation template"

	for name, test := range map[string]struct {
		kind                        string
		machines, unhealthy, others int
		template, handedOver        bool
		want                        int
		note                        string
	}{
		"workers":                        {kind: "MachineDeployment", machines: 1, unhealthy: 1, want: 1},
		"all workers":                    {kind: "MachineDeployment", machines: 2, unhealthy: 2, want: 2},
		"the only one":                   {kind: "KubeadmControlPlane", machines: 1, unhealthy: 1, note: refused},
		"one of two":                     {kind: "KubeadmControlPlane", machines: 2, unhealthy: 1, note: refused},
		"one of three":                   {kind: "KubeadmControlPlane", machines: 3, unhealthy: 1, want: 1},
		"two of five":                    {kind: "KubeadmControlPlane", machines: 5, unhealthy: 2, note: refused},
		"one, and another has no node":   {kind: "KubeadmControlPlane", machines: 3, unhealthy: 1, others: 1, note: refused},
		"a template":                     {kind: "MachineDeployment", machines: 2, unhealthy: 1, template: true, note: rebooted},
		"a template for a control plane": {kind: "KubeadmControlPlane", machines: 3, unhealthy: 1, template: true, note: rebooted},
		"a template that gave up":        {kind: "MachineDeployment", machines: 2, unhealthy: 1, template: true, handedOver: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			owner := &unstructured.Unstructured{Object: map[string]any{"kind": test.kind}}
			var machines []*unstructured.Unstructured

			for i := range test.machines {
				var conditions []any
				add := func(kind string) { conditions = append(conditions, map[string]any{"type": kind, "status": "False"}) }
				node := "node"

				switch {
				case i < test.unhealthy:
					add("HealthCheckSucceeded")

					if test.template {
						add("ExternallyRemediated")
					}

					if !test.template || test.handedOver {
						add("OwnerRemediated")
					}
				case i < test.unhealthy+test.others:
					node = ""
				}

				machines = append(machines, &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
					"nodeRef": map[string]any{"name": node}, "conditions": conditions}}})
			}

			m, replaced := &Manifests{}, 0

			for _, machine := range machines {
				if m.isRemediated(owner, machine, machines) {
					replaced++
				}
			}

			check.Equal(t, "machines that are replaced", replaced, test.want)
			check.Contains(t, "the notes", strings.Join(m.notes, "\n"), test.note)
			check.Equal(t, "whether something is noted", len(m.notes) > 0, test.note != "")
		})
	}
}
