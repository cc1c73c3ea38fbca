package preview

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/source"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// fleet is a management cluster with clusters of all kinds, a change of their manifests, and the expected result.
type fleet struct {
	random    *rand.Rand
	live      []client.Object
	manifests []string
	want      planreport.Summary
	// asked is the wanted number of machines. has is the current number.
	asked, has int64
	// drifted are the owners of machines that were changed in the engine.
	drifted map[string]bool
	// prune includes deletions in the plan. paused and onDelete count the expected notes.
	prune            bool
	paused, onDelete int
}

func (f *fleet) maybe() bool { return f.random.IntN(3) == 0 }

// add adds an object to the management cluster, and returns a copy for the manifests.
func (f *fleet) add(text string) map[string]any {
	text = strings.ReplaceAll(text, "NETWORK", "{gateway: 10.0.0.1, ipv4: {subnet: 10.0.0.0/16, ipAddresses: [10.0.1.0-10.0.9.9]}}")

	var object, copied map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		panic(err)
	}

	if err := yaml.Unmarshal([]byte(text), &copied); err != nil {
		panic(err)
	}

	f.live = append(f.live, &unstructured.Unstructured{Object: object})

	return copied
}

func (f *fleet) write(object map[string]any) {
	text, err := yaml.Marshal(object)
	if err != nil {
		panic(err)
	}

	f.manifests = append(f.manifests, string(text))
}

func newFleet(seed uint64) *fleet {
	f := &fleet{random: rand.New(rand.NewPCG(seed, 1)), drifted: map[string]bool{}} //nolint:gosec // a test
	f.prune = f.maybe()

	for i := range 1 + f.random.IntN(3) {
		f.addCluster(fmt.Sprintf("c%d", i))
	}

	return f
}

// addCluster adds a cluster. Its control plane has the same name, has another name, or is managed elsewhere.
func (f *fleet) addCluster(name string) {
	controlPlane, ref := "", ""
	if !f.maybe() {
		controlPlane = []string{name, name + "-control-plane"}[f.random.IntN(2)]
		ref = "controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: " +
			controlPlane + "}"
	}

	cluster := f.add(`{apiVersion: cluster.x-k8s.io/v1beta2, kind: Cluster, metadata: {name: ` + name +
		`, namespace: default}, spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OLVMCluster, name: ` +
		name + `}, ` + ref + `}}`)
	infra := f.add(`{apiVersion: infrastructure.cluster.x-k8s.io/v1, kind: OLVMCluster, metadata: {name: ` + name +
		`, namespace: default}, spec: {olvmDatacenterName: Default, controlPlaneEndpoint: {host: ` + name +
		`.example.com, port: 6443}, olvmOvirtAPIServer: {serverURL: ` + fixture.EngineURL + `}}}`)
	pruned := f.prune && f.maybe()

	if !pruned && f.maybe() {
		f.paused++
		_ = unstructured.SetNestedField(cluster, true, "spec", "paused")
	}

	switch {
	case pruned: // its objects were removed from the folder
	case !f.prune && f.maybe(): // it is in another folder, with its machines
		if _, paused := cluster["spec"].(map[string]any)["paused"]; paused {
			f.paused--
		}
	default:
		f.write(cluster)
		f.write(infra)
	}

	if controlPlane != "" {
		f.addOwner("KubeadmControlPlane", controlPlane, name, pruned)
	}

	for i := range f.random.IntN(3) {
		owner := fmt.Sprintf("%s-md-%d", name, i)
		if i == 0 && f.maybe() {
			owner = name
		}

		f.addOwner("MachineDeployment", owner, name, pruned)
	}
}

// template returns an OLVMMachineTemplate.
func template(name string) string {
	return `{apiVersion: infrastructure.cluster.x-k8s.io/v1, kind: OLVMMachineTemplate, metadata: {name: ` + name +
		`, namespace: default}, spec: {template: {spec: {olvmOvirtClusterName: Default, vmTemplateName: a, olvmNetwork: ` +
		`{networkName: a, vnicProfileName: a}, virtualMachine: {memory: 8GB, network: NETWORK}}}}}`
}

// ownerText returns a control plane or a MachineDeployment.
func ownerText(kind, name, cluster, template string, replicas int64) string {
	ref := "infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OLVMMachineTemplate, name: " + template + "}"
	if kind == "KubeadmControlPlane" {
		return fmt.Sprintf(`{apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: %s, metadata: {name: %s, namespace: default}, `+
			`spec: {replicas: %d, version: v1.36.1, machineTemplate: {spec: {%s}}, kubeadmConfigSpec: {files: [{path: /a, content: a}]}}}`,
			kind, name, replicas, ref)
	}

	return fmt.Sprintf(`{apiVersion: cluster.x-k8s.io/v1beta2, kind: %s, metadata: {name: %s, namespace: default}, `+
		`spec: {clusterName: %s, replicas: %d, template: {spec: {clusterName: %s, version: v1.36.1, failureDomain: a, bootstrap: `+
		`{dataSecretName: a}, %s}}}}`, kind, name, cluster, replicas, cluster, ref)
}

// addOwner adds an owner with its machines, and a change to the owner.
func (f *fleet) addOwner(kind, name, cluster string, pruned bool) {
	from := f.add(template(kind[:1] + "-" + name))
	from["metadata"].(map[string]any)["name"] = strings.ToLower(kind[:1]) + "-" + name
	last := f.live[len(f.live)-1].(*unstructured.Unstructured)
	last.SetName(strings.ToLower(kind[:1]) + "-" + name)

	machines := int64(f.random.IntN(5))
	if kind == "KubeadmControlPlane" {
		machines = int64(1 + 2*f.random.IntN(2))
	}

	owner := f.add(ownerText(kind, name, cluster, last.GetName(), machines))
	replicas, rollsOut, onDelete := f.change(owner, kind, machines)
	goes := pruned || f.prune && kind == "MachineDeployment" && f.maybe()

	if !goes {
		f.write(owner)
		f.write(from)
	} else {
		replicas, rollsOut, onDelete = 0, false, false
	}

	f.expect(kind, name, cluster, machines, replicas, rollsOut, onDelete, goes)
}

// change changes the number of an owner's machines, and fields that cause rollouts.
func (f *fleet) change(owner map[string]any, kind string, machines int64) (replicas int64, rollsOut, onDelete bool) {
	replicas = machines

	if f.maybe() {
		replicas = int64(f.random.IntN(6))
		if kind == "KubeadmControlPlane" {
			replicas = int64(1 + 2*f.random.IntN(3))
		}

		_ = unstructured.SetNestedField(owner, replicas, "spec", "replicas")
	}

	if !f.maybe() {
		return replicas, false, false
	}

	isControlPlane := kind == "KubeadmControlPlane"

	switch way := f.random.IntN(4); {
	case way == 0 && isControlPlane:
		_ = unstructured.SetNestedField(owner, "v1.36.2", "spec", "version")
	case way == 0:
		_ = unstructured.SetNestedField(owner, "v1.36.2", "spec", "template", "spec", "version")
	case way == 1 && isControlPlane:
		unstructured.RemoveNestedField(owner, "spec", "kubeadmConfigSpec", "files")
	case way == 1:
		unstructured.RemoveNestedField(owner, "spec", "template", "spec", "failureDomain")
	case way == 2:
		_ = unstructured.SetNestedField(owner, "2026-01-01T00:00:00Z", "spec", "rollout", "after")
	case isControlPlane:
		_ = unstructured.SetNestedField(owner, "etcd", "spec", "kubeadmConfigSpec", "clusterConfiguration", "certificatesDir")
	default:
		_ = unstructured.SetNestedField(owner, "b", "spec", "template", "spec", "bootstrap", "dataSecretName")
	}

	if !isControlPlane && f.maybe() {
		_ = unstructured.SetNestedField(owner, "OnDelete", "spec", "rollout", "strategy", "type")
		return replicas, false, true
	}

	return replicas, true, false
}

// expect adds the machines of an owner to the expected result.
func (f *fleet) expect(kind, name, cluster string, machines, replicas int64, rollsOut, onDelete, goes bool) {
	outdated, deleting, remediated, unhealthy := int64(0), int64(0), int64(0), int64(0)
	drifted := f.maybe()
	f.drifted[kind+"/"+name] = drifted

	for i := range machines {
		isDeleting := f.random.IntN(6) == 0
		isRemediated := !isDeleting && f.random.IntN(6) == 0
		hasNode := f.addMachine(kind, name, cluster, i, isDeleting, isRemediated)

		switch {
		case isDeleting:
			deleting++
		case isRemediated:
			remediated++
			unhealthy++
		case !hasNode:
			unhealthy++
		}
	}

	there := machines - deleting

	switch {
	case rollsOut:
		outdated = there
	case goes, kind == "KubeadmControlPlane" && (there < 3 || unhealthy != 1): // Cluster API remediates none
	default:
		outdated = remediated
	}

	if onDelete && there-outdated > 0 {
		f.onDelete++
	}

	replaced := min(outdated, max(0, replicas-(there-outdated)))
	destroyed := max(0, there-replicas)
	f.want.Create += max(0, replicas-there)
	f.want.Replace += replaced
	f.want.Destroy += deleting + destroyed
	f.asked, f.has = f.asked+replicas, f.has+machines

	if drifted {
		f.want.Update += there - destroyed - replaced
	}
}

// addMachine adds a machine of an owner. Some machines are marked for deletion, some are unhealthy, and some have no
// node.
func (f *fleet) addMachine(kind, name, cluster string, i int64, isDeleting, isRemediated bool) (hasNode bool) {
	own := fmt.Sprintf("%s-%c", name, 'v'+rune(i))
	if kind == "MachineDeployment" {
		own = fmt.Sprintf("%s-set-%c", name, 'v'+rune(i))
		if f.random.IntN(8) == 0 {
			own = fmt.Sprintf("%s-%d", name, i) // like the names of new machines in a plan
		}
	}

	f.add(`{apiVersion: infrastructure.cluster.x-k8s.io/v1, kind: OLVMMachine, metadata: {name: ` + own +
		`, namespace: default, labels: {cluster.x-k8s.io/cluster-name: ` + cluster + `}, annotations: ` +
		`{cluster.x-k8s.io/cloned-from-name: ` + strings.ToLower(kind[:1]) + "-" + name + `}}, spec: {olvmOvirtClusterName: Default, ` +
		`vmTemplateName: a, olvmNetwork: {networkName: a, vnicProfileName: a}, virtualMachine: {memory: 8GB, network: NETWORK}}}`)

	group := map[string]string{"KubeadmControlPlane": "controlplane.cluster.x-k8s.io"}[kind]
	if group == "" {
		group = "cluster.x-k8s.io"
	}

	labels := "cluster.x-k8s.io/cluster-name: " + cluster
	if kind == "MachineDeployment" {
		labels += ", cluster.x-k8s.io/deployment-name: " + name
	}

	conditions := ""
	if isRemediated {
		conditions = `, conditions: [{type: HealthCheckSucceeded, status: "False"}, {type: OwnerRemediated, status: "False"}]`
	}

	node := []string{own, `""`}[f.random.IntN(4)/3]
	f.add(fmt.Sprintf(`{apiVersion: cluster.x-k8s.io/v1beta2, kind: Machine, metadata: {name: %s, namespace: default, labels: {%s}, `+
		`creationTimestamp: "2025-0%d-01T00:00:00Z", ownerReferences: [{apiVersion: %s/v1beta2, kind: %s, name: %s, uid: u, controller: true}]}, `+
		`spec: {clusterName: %s, version: v1.36.1, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OLVMMachine, name: %s}}, `+
		`status: {nodeRef: {name: %s}%s}}`, own, labels, i+1, group, kind, name, cluster, own,
		node, conditions))

	machine := f.live[len(f.live)-1].(*unstructured.Unstructured)
	if isDeleting {
		_ = unstructured.SetNestedField(machine.Object, time.Now().UTC().Format(time.RFC3339), "metadata", "deletionTimestamp")
		machine.SetFinalizers([]string{"x/y"})
	}

	if f.random.IntN(6) == 0 {
		machine.SetAnnotations(map[string]string{"cluster.x-k8s.io/delete-machine": ""})
	}

	return node == own
}

// drift makes the remaining machines differ in the engine, as if a Terraform plan had found it.
func (f *fleet) drift(results []*planreport.Result) {
	for _, r := range results {
		if !r.IsNew && r.Destroyed == "" && r.Replaced == "" && f.drifted[ownerOf(f.live, r.Name)] {
			r.Changes = []terraform.Change{{Address: "ovirt_vm.this", Type: "ovirt_vm", Action: "update"}}
		}
	}
}

// ownerOf returns the owner of a Machine, as kind and name.
func ownerOf(live []client.Object, machine string) string {
	for _, object := range live {
		if object.GetName() == machine && object.GetObjectKind().GroupVersionKind().Kind == "Machine" {
			return object.GetOwnerReferences()[0].Kind + "/" + object.GetOwnerReferences()[0].Name
		}
	}

	return ""
}

// report plans the fleet.
func (f *fleet) report(t *testing.T) planreport.Report {
	t.Helper()

	m, err := loadWith([]string{"-"}, strings.NewReader(strings.Join(f.manifests, "\n---\n")), source.Options{MayBeEmpty: true})
	check.Error(t, err, "")
	m.SetPruning(f.prune)
	check.Error(t, m.AddLive(t.Context(), fixture.NewManagementOf(t, f.live...), "default"), "")

	machines, owners, err := m.Expand()
	check.Error(t, err, "")

	results := DescribeOffline(m, machines)
	f.drift(results)

	report := m.reportOf(results, owners, nil, true)

	return report
}

// TestThePlanAddsUpInEveryCombination has clusters with many kinds of changes at once. The changes are other numbers of
// machines, and rollouts caused by versions, templates, times and removed fields. Some machines are being deleted, are
// unhealthy, or have drifted. There are also control planes of other providers, clusters in other folders, and pruned
// objects. The counts must match the listed machines, and the three outputs must agree.
func TestThePlanAddsUpInEveryCombination(t *testing.T) {
	seeds := uint64(400)
	if testing.Short() {
		seeds = 50
	}

	for seed := range seeds {
		f := newFleet(seed)
		report := f.report(t)
		name := fmt.Sprintf("seed %d", seed)
		objects := report.Summary.Objects
		report.Summary.Objects = 0
		check.Equal(t, name, report.Summary, f.want)
		report.Summary.Objects = objects
		check.Equal(t, name+": machines after it", report.Summary.Create-report.Summary.Destroy, f.asked-f.has)
		check.Equal(t, name+": something changes", report.HasChanges(), f.want != planreport.Summary{} || objects > 0)
		check.Equal(t, name+": paused", strings.Count(strings.Join(report.Notes, "\n"), " is paused: "), f.paused)
		check.Equal(t, name+": OnDelete", strings.Count(strings.Join(report.Notes, "\n"), "OnDelete"), f.onDelete)

		checkOutputs(t, name, report)

		if t.Failed() {
			t.Fatalf("%s:\n%s\n%s", name, strings.Join(f.manifests, "---\n"), outputs(t, report)["text"])
		}
	}
}

// checkOutputs compares the outputs of a report with its summary.
func checkOutputs(t *testing.T, name string, report planreport.Report) {
	t.Helper()

	outputs := outputs(t, report)
	check.Contains(t, name+": text", outputs["text"], "\n"+report.Summary.String()+"\n")
	check.Equal(t, name+": Markdown", strings.HasPrefix(outputs["Markdown"], "### "+report.Summary.String()+"\n"), true)

	var decoded struct {
		Summary  planreport.Summary
		Machines []struct {
			Name, Replaced, Replaces, Destroyed, MayGo string
			Changes                                    []any
		}
		Owners []struct {
			Deleted   int64
			Destroyed []string
		}
	}

	check.Error(t, json.Unmarshal([]byte(outputs["JSON"]), &decoded), "")
	check.Equal(t, name+": JSON", decoded.Summary, report.Summary)

	listed, names := planreport.Summary{Objects: report.Summary.Objects}, map[string]bool{}
	for _, m := range decoded.Machines {
		check.Equal(t, name+": "+m.Name+" is there twice", names[m.Name], false)
		names[m.Name] = true

		for output, text := range outputs {
			check.Contains(t, name+": "+output, text, m.Name)
		}

		switch {
		case m.Destroyed != "":
			listed.Destroy++
			check.Contains(t, name+": text", strings.ToLower(outputs["text"]), "destroyed: ")
		case m.Replaced != "":
			listed.Replace++
		}
	}

	for _, owner := range decoded.Owners {
		listed.Destroy += owner.Deleted - int64(len(owner.Destroyed))
	}

	check.Equal(t, name+": destroyed, as they are listed", listed.Destroy, report.Summary.Destroy)
	check.Equal(t, name+": replaced, as they are listed", listed.Replace, report.Summary.Replace)
}
