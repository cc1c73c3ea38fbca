package preview

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}

	return value
}
