package security

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

// namespaced renders config/namespaced for a namespace, as the first lines of this folder's file describe.
func namespaced(t *testing.T, namespace string) []*unstructured.Unstructured {
	t.Helper()
	kubectl, err := suite.Tools.Path("plane", "kubectl")
	if err != nil {
		t.Fatal(err)
	}

	config := filepath.Join(t.TempDir(), "config")
	if err := os.CopyFS(config, os.DirFS(filepath.Join(suite.Tools.Root(), "config"))); err != nil {
		t.Fatal(err)
	}

	settings := filepath.Join(config, "namespaced", "settings.yaml")
	content, err := os.ReadFile(settings)
	if err != nil {
		t.Fatal(err)
	}

	changed := bytes.Replace(content, []byte("namespace: clusters"), []byte("namespace: "+namespace), 1)
	if err := os.WriteFile(settings, changed, 0o600); err != nil || bytes.Equal(changed, content) {
		t.Fatalf("the settings are %s, %v", changed, err)
	}

	rendered, err := exec.CommandContext(t.Context(), kubectl, "kustomize",
		filepath.Join(config, "namespaced")).Output()
	if err != nil {
		t.Fatal(err)
	}

	objects, err := manifest.Read(rendered)
	if err != nil {
		t.Fatal(err)
	}

	return objects
}

// TestANamespacedManagerReadsNoOtherSecrets (row M7 of docs/operate/security.md) runs a manager with the Roles of
// config/namespaced. The manager creates and deletes a machine, but must not read Secrets in other namespaces.
func TestANamespacedManagerReadsNoOtherSecrets(t *testing.T) {
	s := testsite.New(t, suite.API.Client, testsite.Options{})
	objects := namespaced(t, s.Namespace)
	const user = "namespaced-manager"
	program, err := suite.Program.AsUser(t.Context(), suite.API, user, objects)
	if err != nil {
		t.Fatal(err)
	}

	bound := map[string]bool{} // roles for users have no binding

	for _, object := range objects {
		if object.GetKind() == "ClusterRoleBinding" {
			name, _, _ := unstructured.NestedString(object.Object, "roleRef", "name")
			bound[name] = true
		}
	}

	for _, object := range objects {
		rules, _, _ := unstructured.NestedSlice(object.Object, "rules")
		isBound := object.GetKind() == "ClusterRole" && bound[object.GetName()]
		if isBound && strings.Contains(fmt.Sprint(rules), "secrets") {
			t.Errorf("ClusterRole %s has rights to secrets: %v", object.GetName(), rules)
		}

		if object.GetKind() == "Deployment" {
			containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
			args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
			if !slices.Contains(args, "--namespace="+s.Namespace) || !slices.Contains(args, "--leader-elect") {
				t.Errorf("the manager has the arguments %q", args)
			}
		}
	}

	for namespace, want := range map[string]bool{
		s.Namespace:      true,
		"kube-system":    false,
		"":               false,
		"capolvm-system": false,
	} {
		for _, verb := range []string{"get", "list", "watch"} {
			review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: user,
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: namespace,
					Verb:      verb,
					Resource:  "secrets",
				},
			}}
			if err := suite.API.Client.Create(t.Context(), review); err != nil {
				t.Fatal(err)
			}

			if review.Status.Allowed != want {
				t.Errorf("%s secrets in %q is allowed: %t", verb, namespace, review.Status.Allowed)
			}
		}
	}

	m := program.NewManager(
		t, nil, "--namespace="+s.Namespace, "--leader-elect", "--leader-elect-namespace=capolvm-system",
	)
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	machine := s.CreateMachine("one", nil)
	s.ExpectProvisioned(machine)
	s.Delete(machine)
	s.ExpectGone(machine)
	s.ExpectEmptyEngine()
	log, err := os.ReadFile(m.Process.LogFile)
	if err != nil || !strings.Contains(string(log), "own namespace only") {
		t.Errorf("the log says nothing of the namespace, %v", err)
	}

	if at := strings.Index(string(log), "forbidden"); at >= 0 {
		t.Errorf("the manager asks for what it may not have: %s", log[max(0, at-300):at+100])
	}
}
