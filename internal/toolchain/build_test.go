package toolchain

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestToolsOfThePlaneAreBuiltInFewSteps verifies that the tools of a demo need as few calls of go build as their names
// and linker flags allow.
func TestToolsOfThePlaneAreBuiltInFewSteps(t *testing.T) {
	groups := buildGroups(modules["plane"], map[string]string{"k8s.io/kubernetes": "v1.36.3"})

	var got []string
	for _, group := range groups {
		got = append(got, strings.Join(group.toolNames(), " "))
	}

	check.Equal(t, "groups", got, []string{
		"etcd capi-core capi-bootstrap-kubeadm",
		"kube-apiserver kube-controller-manager kubectl",
		"capi-controlplane-kubeadm", // go build would give it the name of the previous tool
	})
	check.Contains(t, "the flags of kube-apiserver", groups[1].ldflags, ".gitVersion=v1.36.3 ")
	check.Contains(t, "the flags of kube-apiserver", groups[1].ldflags, ".gitMinor=36")
	check.Equal(t, "the flags of etcd", groups[0].ldflags, "-s -w")
	check.Contains(t, "the flags of Terraform", terraformTool().buildLDFlags("v1.10.5"), " -X ")

	for name, pkg := range map[string]string{
		"server": "go.etcd.io/etcd/server/v3", "kubeadm": "sigs.k8s.io/cluster-api/bootstrap/kubeadm", "a": ".",
	} {
		check.Equal(t, "the executable of "+pkg, tool{name: "a", pkg: pkg}.executableName(), name)
	}
}

// TestEmbedded compares the files embedded in programs with those of the checkout, because both share the tools in the
// cache.
func TestEmbedded(t *testing.T) {
	checkout, err := New()
	check.Error(t, err, "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())

	embedded, err := NewEmbedded()
	check.Error(t, err, "")

	for _, module := range []string{"plane", "oci", "tofu"} {
		want, err := checkout.Dir(module)
		check.Error(t, err, "")

		got, err := embedded.Dir(module)
		check.Error(t, err, "")
		check.Equal(t, "folder of "+module, got, want)
	}
}

// TestToolsOfTestsAreBuiltOfTheVersionsOfTheProject compares the versions of modules that several builds need. If a
// version differs, everything that depends on the module is compiled again. For golang.org/x/net, this is nearly
// everything.
func TestToolsOfTestsAreBuiltOfTheVersionsOfTheProject(t *testing.T) {
	tools, err := New()
	if err != nil {
		t.Fatal(err)
	}

	project, err := parseRequirements(filepath.Join(tools.Root(), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}

	for _, module := range []string{"plane", "clusterctl"} {
		versions, err := tools.readVersions(module)
		if err != nil {
			t.Fatal(err)
		}

		for path, version := range versions {
			if ours := project[path]; ours != "" && ours != version {
				t.Errorf("%s is %s in go.mod, and %s in hack/tools/%s/go.mod: go get the higher one in both", path, ours,
					version, module)
			}
		}
	}
}
