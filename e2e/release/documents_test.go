package release

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// document is a document with calls of kubectl and clusterctl to run, and its prerequisites.
type document struct {
	path string
	// from and to are headings around the tested part.
	from, to string
	setUp    string
}

// TestCommandsOfTheDocuments runs the documented calls of kubectl and clusterctl, unmodified, in an initially empty
// management cluster. olvmctl's own tests run the calls of olvmctl. e2e runs the part of migration.md with the old
// provider.
func TestCommandsOfTheDocuments(t *testing.T) {
	t.Parallel()
	m := newManagement(t)
	m.others()
	m.release("v0.1.0")

	for plural, kind := range map[string]string{"podmonitors": "PodMonitor", "prometheusrules": "PrometheusRule"} {
		m.crd("monitoring.coreos.com", plural, kind)
	}

	dir := filepath.Join(m.dir, "checkout")
	root := m.tools.Root()
	if err := os.CopyFS(filepath.Join(dir, "config"), os.DirFS(filepath.Join(root, "config"))); err != nil {
		t.Fatal(err)
	}

	sample, err := os.ReadFile(filepath.Join(root, "config", "samples", "demo.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	for name, content := range map[string]string{
		"FILE":           "secret",
		"CA.pem":         "a CA",
		"manifests.yaml": strings.ReplaceAll(string(sample), "ENGINE_URL", "https://engine.example.com/ovirt-engine"),
	} {
		m.write(filepath.Join("checkout", name), content)
	}

	texts := testenv.ReadDocuments(t)
	const initialise = "clusterctl init --infrastructure olvm\n"
	run, initialised := 0, false

	list := []document{
		{path: "docs/operate/install.md"},
		{path: "config/templates/README.md"},
		{path: "config/samples/README.md"},
		{
			path:  "docs/user/migration.md",
			from:  "## A new cluster beside the old one",
			to:    "## Taking over VMs",
			setUp: "kubectl delete -f manifests.yaml --ignore-not-found",
		},
		{
			path:  "docs/operate/identity.md",
			setUp: "kubectl create namespace vault && kubectl -n vault create secret generic engine-credentials",
		},
		{path: "docs/user/autoscaling.md"},
		{path: "docs/user/support-services.md"},
		{path: "docs/operate/metrics.md"},
		{
			path:  "docs/operate/pull-requests.md",
			setUp: "kubectl create namespace prod --dry-run=client -o yaml | kubectl apply -f -",
		},
		{path: "docs/user/olvmctl.md"},
	}
	elsewhere := []string{
		"docs/user/terraform-in-a-controller.md", // TestARunningClusterIsTakenOverAndGivenBack
		"docs/operate/emergencies.md",            // TestDrillOfARestore, and the drills of e2e/reliability
		"docs/user/rke2-and-kamaji.md",           // nobody: the page says that no test installs these providers
	}

	for path, text := range texts {
		if slices.Contains(elsewhere, path) {
			continue
		}

		for _, block := range testenv.CommandBlocks(text) {
			if isOurs(block) && !slices.ContainsFunc(list, func(d document) bool { return d.path == path }) {
				t.Errorf("nobody runs what %s says: %s", path, block)
			}
		}
	}

	for _, d := range list {
		text := texts[d.path]
		if d.from != "" {
			_, text, _ = strings.Cut(text, d.from)
			text, _, _ = strings.Cut(text, d.to)
		}

		script := ""

		for _, block := range testenv.CommandBlocks(text) {
			if isOurs(block) {
				script += block + "\n"
				run++
			}
		}

		if script == "" {
			t.Errorf("%s has no commands", d.path)
		}

		if initialised && strings.Contains(script, initialise) { // it runs once, and fails a second time
			script = strings.ReplaceAll(script, initialise, "true\n")
		}

		initialised = initialised || strings.Contains(script, initialise)

		// The output of olvmctl already exists.
		script = strings.NewReplacer(" >manifests.yaml", "", "NAMESPACE", "docs", "SERVICEACCOUNT", "autoscaler",
			"CLUSTER", "prod", "NAME-", "new-").
			Replace(script)
		if out, err := m.shell(dir, d.setUp+"\n"+script); err != nil {
			t.Errorf("%s: %v\n%s", d.path, err, out)
		}
	}

	if run < 10 {
		t.Errorf("%d blocks were run", run)
	}

	for _, call := range []string{
		"kubectl get secret prod-ovirt-credentials demo-ovirt-credentials", "kubectl -n docs get " +
			"secret new-ovirt-credentials", "kubectl get configmap prod-ovirt-ca demo-ovirt-ca",
		"kubectl get olvmcluster demo",
		"test -s prod.yaml", "kubectl -n capolvm-system get podmonitor",
		"kubectl get clusterrolebinding cluster-autoscaler-olvm",
		`test "$(kubectl -n vault get secret engine-credentials -o jsonpath='{.metadata.annotations.infrastructure\.cluster\.x-k8s\.io/olvm-allowed-namespaces}')" = team-a,team-b`,
	} {
		if out, err := m.shell(dir, call); err != nil {
			t.Errorf("%s: %v\n%s", call, err, out)
		}
	}
}

// TestTheChecksumsAreVerifiedAsTheDocumentSays runs the call of install.md in the folder of a release, and again after
// a change of a file. TestSignaturesAreVerifiedAsTheDocumentSays runs cosign.
func TestTheChecksumsAreVerifiedAsTheDocumentSays(t *testing.T) {
	t.Parallel()

	_, text, _ := strings.Cut(testenv.ReadDocuments(t)["docs/operate/install.md"], "## Verifying")
	call := regexp.MustCompile(`(?m)^ +(sha256sum .*)$`).FindStringSubmatch(text)
	check.Length(t, "calls of sha256sum", call, 2)

	dir := t.TempDir()
	check.Error(t, os.CopyFS(dir, os.DirFS(makeRelease(t, "v0.1.0"))), "")

	verify := func() ([]byte, error) {
		command := exec.CommandContext(t.Context(), "bash", "-c", call[1])
		command.Dir = dir

		return command.CombinedOutput()
	}

	out, err := verify()
	check.Error(t, err, "")

	entries, err := os.ReadDir(dir)
	check.Error(t, err, "")
	check.Equal(t, "files that are verified", strings.Count(string(out), ": OK"), len(entries)-1)

	check.Error(t, os.WriteFile(filepath.Join(dir, "metadata.yaml"), []byte("changed"), 0o600), "")

	out, err = verify()
	check.Error(t, err, "exit status 1")
	check.Contains(t, "sha256sum", string(out), "metadata.yaml: FAILED")
}

// isOurs reports whether a block of commands has calls run here.
func isOurs(block string) bool {
	return slices.ContainsFunc(strings.Split(block, "\n"), func(line string) bool {
		line, _, _ = strings.Cut(line, " # ")
		return strings.Contains(line, "kubectl ") || strings.Contains(line, "clusterctl ")
	})
}

// shell runs commands, each of which must succeed. Calls of olvmctl accept any input.
func (m *management) shell(dir, script string) (string, error) {
	m.t.Helper()
	kubectl, err := m.tools.Path("plane", "kubectl")
	if err != nil {
		m.t.Fatal(err)
	}

	clusterctl, err := m.tools.Path("clusterctl", "clusterctl")
	if err != nil {
		m.t.Fatal(err)
	}

	stubs := fmt.Sprintf(
		"set -eo pipefail\nolvmctl() { if [ \"${*: -1}\" = - ]; then cat >/dev/null; fi; }\nmake() { :; "+
			"}\nkubectl() { %q \"$@\"; }\nclusterctl() { %q \"$@\" --config %q; }\n",
		kubectl, clusterctl, m.config,
	)
	command := exec.CommandContext(m.t.Context(), "bash", "-c", stubs+script)
	command.Dir = dir
	command.Env = m.environment()
	out, err := command.CombinedOutput()

	return string(out), err
}

// crd creates a CRD accepting any object.
func (m *management) crd(group, plural, kind string) {
	m.t.Helper()
	everything := true
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Plural:   plural,
				Singular: strings.ToLower(kind),
				Kind:     kind,
				ListKind: kind + "List",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name:    "v1",
				Served:  true,
				Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &everything,
				}},
			}},
		},
	}
	if err := m.client.Create(m.t.Context(), crd); err != nil {
		m.t.Fatal(err)
	}
}
