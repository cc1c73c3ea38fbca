package preview

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// without returns the documents of the sample except the given kinds or names.
func without(t *testing.T, text string, objects ...string) string {
	t.Helper()

	return strings.Join(slices.DeleteFunc(strings.Split(text, "---\n"), func(document string) bool {
		return slices.ContainsFunc(objects, func(object string) bool {
			kind, name, _ := strings.Cut(object, "/")
			return strings.Contains(document, "\nkind: "+kind+"\n") && strings.Contains(document, "name: "+name+"\n")
		})
	}), "---\n")
}

// change changes objects of some kinds in a management cluster.
func change(t *testing.T, c client.Client, kinds []string, do func(*unstructured.Unstructured)) {
	t.Helper()

	for _, kind := range planinput.LiveKinds {
		if !slices.Contains(kinds, kind.Kind) {
			continue
		}

		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		check.Error(t, c.List(t.Context(), list), "")

		for i := range list.Items {
			do(&list.Items[i])
			check.Error(t, c.Update(t.Context(), &list.Items[i]), "")
		}
	}
}

// applied lists the kinds applied by a GitOps tool.
var applied = []string{"Cluster", "MachineDeployment", "KubeadmControlPlane", "OLVMCluster", "OLVMMachineTemplate"}

// byFlux gives all applied objects the labels of a Flux Kustomization.
func byFlux(t *testing.T, c client.Client) client.Client {
	t.Helper()
	change(t, c, applied, func(o *unstructured.Unstructured) {
		o.SetLabels(map[string]string{"kustomize.toolkit.fluxcd.io/name": "clusters",
			"kustomize.toolkit.fluxcd.io/namespace": "flux-system"})
	})

	return c
}

// reported returns the report of manifests with a management cluster, and without an engine.
func reported(t *testing.T, manifests string, live client.Reader, prune *bool) planreport.Report {
	t.Helper()

	m, err := load([]string{"-"}, strings.NewReader(manifests))
	check.Error(t, err, "")

	if prune != nil {
		m.SetPruning(*prune)
	}

	check.Error(t, m.AddLive(t.Context(), live, ""), "")

	machines, owners, err := m.Expand()
	check.Error(t, err, "")

	report := m.reportOf(DescribeOffline(m, machines), owners, nil, true)

	return report
}

// outputs returns the three outputs of a report.
func outputs(t *testing.T, report planreport.Report) map[string]string {
	t.Helper()

	var text, comment strings.Builder
	check.Error(t, report.WriteText(&text), "")
	check.Error(t, report.WriteMarkdown(&comment, ""), "")

	encoded, err := json.Marshal(report.WithoutIdlePlans())
	check.Error(t, err, "")

	return map[string]string{"text": text.String(), "Markdown": comment.String(), "JSON": string(encoded)}
}

func TestDeletionsArePartOfThePlan(t *testing.T) {
	const workers = "MachineDeployment/demo-md-0"

	yes, no := true, false
	argo := func(t *testing.T) client.Client {
		t.Helper()

		c := fixture.NewManagement(t)
		change(t, c, applied, func(o *unstructured.Unstructured) {
			o.SetAnnotations(
				map[string]string{"argocd.argoproj.io/tracking-id": "clusters:x/" + o.GetKind() + ":default/" +
					o.GetName()},
			)
		})

		return c
	}
	flux := func(t *testing.T) client.Client { t.Helper(); return byFlux(t, fixture.NewManagement(t)) }

	for name, test := range map[string]struct {
		live    func(*testing.T) client.Client
		without []string
		prune   *bool
		destroy int64
		pruned  int
		line    string
	}{
		"that Flux prunes": {flux, []string{workers}, nil, 2, 1,
			"all objects applied by Flux Kustomization flux-system/clusters"},
		"that Argo CD prunes": {argo, []string{workers}, nil, 2, 1,
			"all objects applied by Argo CD Application clusters"},
		"with the template": {flux, []string{workers, "OLVMMachineTemplate/demo-md-0"}, nil, 2, 2,
			"Checked for deletions: "},
		"nobody prunes, and nobody asks": {fixture.NewManagement, []string{workers}, nil, 0, 0,
			"Not checked for deletions: no GitOps tool has applied"},
		"somebody asks": {fixture.NewManagement, []string{workers}, &yes, 2, 1,
			"all objects in namespace default"},
		"somebody does not want to know": {flux, []string{workers}, &no, 0, 0,
			"Not checked for deletions: --prune=false"},
		"nothing goes": {flux, nil, nil, 0, 0, "Checked for deletions: "},
		"Flux is told to keep it": {func(t *testing.T) client.Client {
			t.Helper()

			c := flux(t)
			change(t, c, []string{"MachineDeployment"}, func(o *unstructured.Unstructured) {
				o.SetAnnotations(map[string]string{"kustomize.toolkit.fluxcd.io/prune": "disabled"})
			})

			return c
		}, []string{workers}, nil, 0, 0, "Checked for deletions: "},
		"another tool has applied it": {func(t *testing.T) client.Client {
			t.Helper()

			c := flux(t)
			change(t, c, []string{"MachineDeployment"}, func(o *unstructured.Unstructured) {
				o.SetLabels(map[string]string{"kustomize.toolkit.fluxcd.io/name": "others"})
			})

			return c
		}, []string{workers}, nil, 0, 0, "Checked for deletions: "},
		"the whole cluster goes, and another stays": {flux, []string{"Cluster/demo", "OLVMCluster/demo", workers,
			"KubeadmControlPlane/demo-control-plane", "OLVMMachineTemplate/demo-md-0"}, nil, 3, 5,
			"Checked for deletions: "},
	} {
		t.Run(name, func(t *testing.T) {
			report := reported(t, without(t, fixture.SampleManifests(t), test.without...), test.live(t), test.prune)
			check.Equal(t, "destroyed", report.Summary.Destroy, test.destroy)
			check.Length(t, "objects", report.Pruned, test.pruned)
			check.Contains(t, "the line", report.Deletions, test.line)
			check.Equal(t, "something changes", report.HasChanges(), test.pruned > 0)

			for output, text := range outputs(t, report) {
				check.Contains(t, output, text, report.Deletions)

				if test.destroy > 0 {
					check.Contains(t, output, strings.ToLower(text), "destroyed")
					check.Contains(t, output, text, "demo-md-0-a")
					check.Contains(t, output, text, "is no longer in the manifests")
				}
			}
		})
	}
}

// TestTheSummaryAddsUp has two workers and a control plane, and changes them in various ways.
func TestTheSummaryAddsUp(t *testing.T) {
	before, md, _ := strings.Cut(fixture.SampleManifests(t), "kind: MachineDeployment\n")
	workers := func(pairs ...string) string {
		return before + "kind: MachineDeployment\n" + strings.NewReplacer(pairs...).Replace(md)
	}
	newest := "replicas: 1\n  deletion: {order: Newest}"

	for name, test := range map[string]struct {
		manifests string
		want      planreport.Summary
		// named is the number of machines certain to be deleted. candidates is the number of machines in an open
		// choice.
		named, candidates int
		live              func(*unstructured.Unstructured)
	}{
		"nothing":                  {fixture.SampleManifests(t), planreport.Summary{}, 0, 0, nil},
		"more workers":             {workers("replicas: 2", "replicas: 5"), planreport.Summary{Create: 3}, 0, 0, nil},
		"fewer workers":            {workers("replicas: 2", "replicas: 1"), planreport.Summary{Destroy: 1}, 0, 2, nil},
		"no workers":               {workers("replicas: 2", "replicas: 0"), planreport.Summary{Destroy: 2}, 2, 0, nil},
		"fewer, the newest first":  {workers("replicas: 2", newest), planreport.Summary{Destroy: 1}, 1, 0, nil},
		"a rollout":                {workers("v1.36.1", "v1.36.2"), planreport.Summary{Replace: 2}, 0, 0, nil},
		"a rollout with more":      {workers("v1.36.1", "v1.36.2", "replicas: 2", "replicas: 3"), planreport.Summary{Replace: 2, Create: 1}, 0, 0, nil},
		"a rollout with fewer":     {workers("v1.36.1", "v1.36.2", "replicas: 2", "replicas: 1"), planreport.Summary{Replace: 1, Destroy: 1}, 1, 0, nil},
		"a rollout to none":        {workers("v1.36.1", "v1.36.2", "replicas: 2", "replicas: 0"), planreport.Summary{Destroy: 2}, 2, 0, nil},
		"an upgrade of everything": {strings.ReplaceAll(fixture.SampleManifests(t), "v1.36.1", "v1.36.2"), planreport.Summary{Replace: 3}, 0, 0, nil},
		"one that is marked goes": {workers("replicas: 2", "replicas: 1"), planreport.Summary{Destroy: 1}, 1, 0,
			func(o *unstructured.Unstructured) {
				if o.GetName() == "demo-md-0-b" {
					o.SetAnnotations(map[string]string{"cluster.x-k8s.io/delete-machine": ""})
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			c := fixture.NewManagement(t)
			change(t, c, []string{"Machine"}, func(o *unstructured.Unstructured) {
				o.SetCreationTimestamp(
					metav1.NewTime(time.Unix(int64(len(o.GetName()))+int64(o.GetName()[len(o.GetName())-1]), 0)),
				)

				if test.live != nil {
					test.live(o)
				}
			})

			report := reported(t, test.manifests, c, nil)
			check.Equal(t, "summary", report.Summary, test.want)
			check.Equal(t, "changed", report.Changed, test.want.CountChanges())

			named, candidates := 0, 0

			for _, machine := range report.Machines {
				if machine.Destroyed != "" {
					named++

					check.Equal(
						t,
						"which one",
						name == "a rollout to none" || name == "no workers" || name == "a rollout with fewer" ||
							machine.Name == "demo-md-0-b",
						true,
					)
				}

				if machine.MayGo != "" {
					candidates++
				}
			}

			check.Equal(t, "named", named, test.named)
			check.Equal(t, "candidates", candidates, test.candidates)

			outputs := outputs(t, report)
			check.Contains(t, "text", outputs["text"], "\n"+test.want.String()+"\n")
			check.Contains(t, "Markdown", outputs["Markdown"], "### "+test.want.String()+"\n")
			check.Equal(
				t, "JSON begins with the summary", strings.HasPrefix(outputs["JSON"], `{"summary":{"create":`), true,
			)
		})
	}
}

func TestAMachineThatIsBeingDeletedIsCountedOnce(t *testing.T) {
	c := fixture.NewManagement(t)
	change(t, c, []string{"Machine"}, func(o *unstructured.Unstructured) { o.SetFinalizers([]string{"x/y"}) })

	for _, kind := range planinput.LiveKinds {
		if kind.Kind == "Machine" {
			gone := &unstructured.Unstructured{}
			gone.SetGroupVersionKind(kind)
			gone.SetNamespace("default")
			gone.SetName("demo-md-0-a")
			check.Error(t, c.Delete(t.Context(), gone), "")
		}
	}

	report := reported(t, fixture.SampleManifests(t), c, nil)
	check.Equal(t, "summary", report.Summary, planreport.Summary{Create: 1, Destroy: 1})
}

func TestARolloutShowsWhatDiffersInTheWordsOfTheUser(t *testing.T) {
	template := ""

	for _, document := range strings.Split(fixture.SampleManifests(t), "---\n") {
		if strings.Contains(document, "\nkind: OLVMMachineTemplate\n") &&
			strings.Contains(document, "name: demo-md-0\n") {
			template = strings.NewReplacer("name: demo-md-0\n", "name: demo-md-1\n", "memory: 16GB",
				"memory: 32GB\n        dataDisks: [{name: data, size: 20GB}]").Replace(document)
		}
	}

	manifests := strings.Replace(fixture.SampleManifests(t), "kind: OLVMMachineTemplate\n        name: demo-md-0",
		"kind: OLVMMachineTemplate\n        name: demo-md-1", 1) + "\n---\n" + template
	report := reported(t, manifests, fixture.NewManagement(t), nil)
	check.Length(t, "owners", report.Owners, 1)
	check.Equal(
		t, "differences", report.Owners[0].Differences, []string{"+ dataDisk data 20GB", "memory: 16GB -> 32GB"},
	)

	for output, text := range outputs(t, report) {
		check.Contains(t, output, text, "dataDisk data 20GB")
		check.Contains(t, output, text, "memory: 16GB -")
	}
}
