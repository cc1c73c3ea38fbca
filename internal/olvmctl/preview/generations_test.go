package preview

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planinput/fixture"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/planreport"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// generation matches the suffix of later template generations.
var generation = regexp.MustCompile(`-[0-9a-f]{8}$`)

// ofFile returns the report of a cluster file with these manifests.
func ofFile(t *testing.T, manifests string, live client.Reader) (planreport.Report, *Manifests) {
	t.Helper()

	objects, err := manifest.Read([]byte(manifests))
	check.Error(t, err, "")

	m, err := loadClusterFile(objects)
	check.Error(t, err, "")
	check.Error(t, m.AddLive(t.Context(), live, ""), "")

	machines, owners, err := m.Expand()
	check.Error(t, err, "")

	return m.reportOf(DescribeOffline(m, machines), owners, nil, true), m
}

func TestAClusterFileIsPlannedWithTheTemplatesOfAnUpgrade(t *testing.T) {
	larger := fixture.SampleManifests(t, "memory: 16GB", "memory: 32GB")

	same, _ := ofFile(t, fixture.SampleManifests(t), fixture.NewManagement(t))
	check.Equal(t, "nothing has changed", same.Summary, planreport.Summary{})

	rollout, m := ofFile(t, larger, fixture.NewManagement(t))
	check.Equal(t, "more memory", rollout.Summary, planreport.Summary{Replace: 2})
	check.Equal(t, "differences", rollout.Owners[0].Differences, []string{"memory: 16GB -> 32GB"})

	// In the management cluster after the upgrade, the workers and their template have the next name.
	name := ""

	for key := range m.Templates {
		if strings.HasPrefix(key.Name, "demo-md-0-") {
			name = key.Name
		}
	}

	check.Equal(t, name+" is of the next generation", generation.MatchString(name), true)

	after := fixture.NewManagement(t)
	change(t, after, []string{"OLVMMachine", "MachineDeployment"}, func(o *unstructured.Unstructured) {
		if strings.HasPrefix(o.GetName(), "demo-md-0") && o.GetKind() == "OLVMMachine" {
			o.SetAnnotations(map[string]string{"cluster.x-k8s.io/cloned-from-name": name})
		}

		if o.GetKind() == "MachineDeployment" {
			check.Error(
				t, unstructured.SetNestedField(o.Object, name, "spec", "template", "spec", "infrastructureRef", "name"),
				"",
			)
		}
	})

	at := slices.IndexFunc(must(manifest.Read([]byte(larger))), func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "OLVMMachineTemplate" && o.GetName() == "demo-md-0"
	})
	template := must(manifest.Read([]byte(larger)))[at]
	template.SetName(name)
	check.Error(t, after.Create(t.Context(), template), "")

	settled, _ := ofFile(t, larger, after)
	check.Equal(t, "after the upgrade", settled.Summary, planreport.Summary{})

	back, _ := ofFile(t, fixture.SampleManifests(t), after)
	check.Equal(t, "back to the memory before", back.Summary, planreport.Summary{Replace: 2})
}

// TestTheManifestsOfAClusterFileCanBeAppliedAfterAChange applies the manifests with the validation of the API server.
func TestTheManifestsOfAClusterFileCanBeAppliedAfterAChange(t *testing.T) {
	names := func(manifests string) (out, refs []string) {
		objects, err := planinput.FollowGenerations(
			t.Context(), must(manifest.Read([]byte(manifests))), fixture.NewManagement(t),
		)
		check.Error(t, err, "")

		for _, object := range objects {
			if object.GetKind() == "OLVMMachineTemplate" {
				out = append(out, object.GetName())
			}

			if _, ref := planinput.MachineRefs(object); ref.Kind == "OLVMMachineTemplate" {
				refs = append(refs, ref.Name)
			}
		}

		slices.Sort(out)
		slices.Sort(refs)

		return out, refs
	}

	first := []string{"demo-control-plane", "demo-md-0"}
	templates, refs := names(fixture.SampleManifests(t))
	check.Equal(t, "nothing has changed", templates, first)
	check.Equal(t, "references", refs, first)

	templates, refs = names(fixture.SampleManifests(t, "memory: 16GB", "memory: 32GB"))
	check.Equal(t, "more memory: the references are those of the templates", templates, refs)
	check.Equal(t, "the control plane's stays", templates[0], "demo-control-plane")
	check.Equal(t, "the workers' is of the next generation", generation.MatchString(templates[1]), true)
}

// TestTheManifestsOfAClusterFileAreChecked has the rules of this release without a management cluster, and an API server
// in a dry run with one. The API server gets the templates under their next names.
func TestTheManifestsOfAClusterFileAreChecked(t *testing.T) {
	text := strings.ReplaceAll(fixture.SampleManifests(t, "memory: 16GB", "memory: 32GB"), "ENGINE_URL", fixture.EngineURL)

	for name, test := range map[string]struct{ from, to, line, problem string }{
		"by this release": {"", "", "Validated with the CRDs of this release", ""},
		"a rule of it": {"memory: 32GB", "memory: 32GB\n        dataDisks: [{name: a, size: 1GB}, {name: a, size: 2GB}]", "",
			"the manifests of the cluster file: OLVMMachineTemplate default/demo-md-0: "},
	} {
		m, err := loadClusterFile(must(manifest.Read([]byte(strings.Replace(text, test.from, test.to, 1)))))
		check.Error(t, err, "")
		check.Error(t, m.CheckServed(t.Context(), nil), test.problem)
		check.Contains(t, name, m.CheckedBy, test.line)
	}

	m, err := loadClusterFile(must(manifest.Read([]byte(text))))
	check.Error(t, err, "")

	asked := &recording{Client: fixture.NewManagement(t)}
	check.Error(t, m.AddManagementCluster(t.Context(), asked, "", true), "")
	check.Contains(t, "who has checked them", m.CheckedBy, "in a dry run")
	check.Contains(t, "the objects", asked.applied, `"name":"demo-control-plane"`)
	check.Equal(t, "a template that changes keeps its name", strings.Contains(asked.applied,
		`"kind":"OLVMMachineTemplate","metadata":{"name":"demo-md-0","namespace"`), false)
	check.Equal(t, "it has the next one", regexp.MustCompile(
		`"kind":"OLVMMachineTemplate","metadata":{"name":"demo-md-0-[0-9a-f]{8}"`).MatchString(asked.applied), true)
}

// recording is a management cluster that accepts dry runs, and records their objects.
type recording struct {
	client.Client
	applied string
}

func (r *recording) Apply(_ context.Context, object runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
	content, err := json.Marshal(object)
	r.applied += string(content)

	return err
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}

	return value
}
