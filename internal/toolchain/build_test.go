package toolchain

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestToolsOfThePlaneAreBuiltInFewSteps has the tools that a demo needs in as few calls of go build as their names and
// linker flags allow.
func TestToolsOfThePlaneAreBuiltInFewSteps(t *testing.T) {
	groups := buildGroups(modules["plane"], map[string]string{"k8s.io/kubernetes": "v1.36.3"})

	var got []string
	for _, group := range groups {
		got = append(got, strings.Join(group.names(), " "))
	}

	check.Equal(t, "groups", got, []string{
		"etcd capi-core capi-bootstrap-kubeadm",
		"kube-apiserver kube-controller-manager kubectl",
		"capi-controlplane-kubeadm", // it would have the name of the one before
	})
	check.Contains(t, "the flags of kube-apiserver", groups[1].ldflags, ".gitVersion=v1.36.3 ")
	check.Contains(t, "the flags of kube-apiserver", groups[1].ldflags, ".gitMinor=36")
	check.Equal(t, "the flags of etcd", groups[0].ldflags, "-s -w")

	for name, pkg := range map[string]string{
		"server": "go.etcd.io/etcd/server/v3", "kubeadm": "sigs.k8s.io/cluster-api/bootstrap/kubeadm", "a": ".",
	} {
		check.Equal(t, "the executable of "+pkg, tool{name: "a", pkg: pkg}.executable(), name)
	}
}

// TestABuildSaysHowFarItIs reads what go build -v prints: a package every ten seconds, and an error.
func TestABuildSaysHowFarItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		tools := &Toolchain{Progress: func(format string, args ...any) {
			said = append(said, fmt.Sprintf(format, args...))
		}}
		out, in := io.Pipe()
		go func() {
			for _, line := range []string{"internal/goarch", "k8s.io/api/core/v1", "# k8s.io/client-go/rest",
				"rest.go:1:2: undefined: x", "golang.org/x/net/http2"} {
				time.Sleep(10 * time.Second)
				_, _ = io.WriteString(in, line+"\n")
			}

			_ = in.Close()
		}()

		problems := tools.follow(out, func() int { return 10 }, time.Now())
		check.Equal(t, "what is not progress", problems, "# k8s.io/client-go/rest\nrest.go:1:2: undefined: x\n")
		check.Equal(t, "progress", said, []string{
			"  2 of at most 10 packages, at most 1m15s left",
			"  3 of at most 10 packages, at most 2m0s left",
		})
	})
}

// TestToolsOfTestsAreBuiltOfTheVersionsOfTheProject compares the modules that several builds need. If one differs,
// everything that depends on it is compiled again, and most of it depends on golang.org/x/net.
func TestToolsOfTestsAreBuiltOfTheVersionsOfTheProject(t *testing.T) {
	tools, err := New()
	if err != nil {
		t.Fatal(err)
	}

	project, err := requirements(filepath.Join(tools.Root(), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}

	for _, module := range []string{"plane", "clusterctl"} {
		versions, err := tools.versions(module)
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
