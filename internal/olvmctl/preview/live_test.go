package preview

import (
	"slices"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// expand compares manifests with the management cluster.
func expand(t *testing.T, manifests string) (replaced, replaces []string, owners []planreport.OwnerChange, err error) {
	t.Helper()
	var paths []string
	if manifests != "" {
		paths = []string{"-"}
	}

	m, err := load(paths, strings.NewReader(manifests))
	if err != nil {
		t.Fatal(err)
	}

	if err := m.AddLive(t.Context(), fixture.NewManagement(t), ""); err != nil {
		return nil, nil, nil, err
	}

	machines, owners, err := m.Expand()
	for _, machine := range machines {
		if machine.Replaced != "" {
			replaced = append(replaced, machine.Name+": "+machine.Replaced)
		}

		if machine.Replaces != "" {
			replaces = append(replaces, machine.Name+" for "+machine.Replaces)
		}
	}

	slices.Sort(replaced)

	return replaced, replaces, owners, err
}

func TestWhatRunsIsNotRolledOut(t *testing.T) {
	for name, manifests := range map[string]string{"the manifests that made it": fixture.SampleManifests(t), "no manifests": ""} {
		replaced, _, owners, err := expand(t, manifests)
		check.Error(t, err, "")
		check.Length(t, name+": replaced", replaced, 0)
		check.Length(t, name+": owners", owners, 0)
	}
}

func TestARolloutIsShownAsOne(t *testing.T) {
	before, md, _ := strings.Cut(fixture.SampleManifests(t), "kind: MachineDeployment\n") // and all later documents
	template := ""

	for _, document := range strings.Split(fixture.SampleManifests(t), "---\n") {
		if strings.Contains(document, "\nkind: OLVMMachineTemplate\n") &&
			strings.Contains(document, "name: demo-md-0\n") {
			template = strings.NewReplacer("demo-md-0", "demo-md-1", "16GB", "32GB").Replace(document)
		}
	}

	for name, test := range map[string]struct {
		manifests string
		replaced  int
		want      string
	}{
		"another version of workers": {before + "kind: MachineDeployment\n" +
			strings.Replace(md, "version: v1.36.1", "version: v1.36.2", 1), 2,
			"rolls out 2 of 2 machines (version v1.36.1 becomes v1.36.2)"},
		"another template of workers": {before + "kind: MachineDeployment\n" +
			strings.Replace(md, "kind: OLVMMachineTemplate\n        name: demo-md-0",
				"kind: OLVMMachineTemplate\n        name: demo-md-1", 1) + "\n---\n" + template, 2,
			"rolls out 2 of 2 machines (template demo-md-0 becomes demo-md-1)"},
		"more workers": {before + "kind: MachineDeployment\n" + strings.Replace(md, "replicas: 2", "replicas: 3", 1),
			0, "scales from 2 to 3 machines"},
		"fewer workers": {before + "kind: MachineDeployment\n" + strings.Replace(md, "replicas: 2", "replicas: 1", 1),
			0, "scales from 2 to 1 machine"},
		"another configuration of the control plane": {fixture.SampleManifests(t, "certSANs: [localhost, 127.0.0.1]",
			"certSANs: [localhost, 127.0.0.2]"), 1,
			"rolls out 1 of 1 machines (spec.kubeadmConfigSpec.clusterConfiguration.apiServer.certSANs[1] changes)"},
	} {
		replaced, replaces, owners, err := expand(t, test.manifests)
		check.Error(t, err, "")
		check.Length(t, name+": replaced", replaced, test.replaced)
		check.Length(t, name+": replaces", replaces, test.replaced)
		check.Length(t, name+": owners", owners, 1)
		check.Contains(t, name+": owners[0].String()", owners[0].String(), test.want)
	}
}

func TestATemplateThatIsChangedInPlaceIsRefused(t *testing.T) {
	_, _, _, err := expand(t, fixture.SampleManifests(t, "memory: 16GB", "memory: 32GB"))
	if err == nil ||
		!strings.Contains(
			err.Error(),
			"OLVMMachineTemplate default/demo-md-0: spec.template.spec.virtualMachine.memory differs",
		) || !strings.Contains(err.Error(), "give it a new name") {
		t.Error(err)
	}
}

func TestOfflineSaysWhatMachinesWouldBe(t *testing.T) {
	sample := fixture.SampleManifests(t, "vmTemplateName: ol9-k8s", "vmTemplateName: ol9-k8s-${KUBERNETES_VERSION}")

	m, err := load([]string{"-"}, strings.NewReader(sample))
	if err != nil {
		t.Fatal(err)
	}

	machines, err := m.Machines()
	if err != nil {
		t.Fatal(err)
	}

	results := DescribeOffline(m, machines)
	check.Length(t, "results", results, 3)
	check.Contains(t, "results[0].Text", results[0].Text, "A VM of template ol9-k8s-v1.36.1 in cluster Default")
	check.Equal(t, "results[0].Changed()", results[0].IsChanged(), false)
	check.Contains(t, "results[0].Text", results[0].Text, "of memory and")
	check.Length(t, "results[1].Addresses", results[1].Addresses, 1)
}
