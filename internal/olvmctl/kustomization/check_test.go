package kustomization

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestABuildDoesNothingForAStranger has kustomizations that fetch, run or read foreign things. Each is rejected with
// its line.
func TestABuildDoesNothingForAStranger(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(server.Close)

	outside := filepath.Join(t.TempDir(), "secret.yaml")
	check.Error(t, os.WriteFile(outside, []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: canary}\n"), 0o600), "")

	for name, test := range map[string]struct{ kustomization, want string }{
		"a remote base":                 {"resources:\n- URL/base\n", "line 2: "},
		"a base of GitHub":              {"resources:\n- github.com/evil/repo/base\n", "line 2: "},
		"in capitals":                   {"resources:\n- GitHub.com/evil/repo\n", "line 2: "},
		"a folder by the name of one":   {"resources:\n- git@github.com/evil/repo\n", "line 2: "},
		"git's own file":                {"configMapGenerator:\n- name: a\n  files: [a=.git]\n", "line 3: "},
		"git's own file, in capitals":   {"configMapGenerator:\n- name: a\n  files: [a=.GIT/config]\n", "line 3: "},
		"a link to git's own file":      {"configMapGenerator:\n- name: a\n  files: [a=token]\n", "line 3: "},
		"a device":                      {"resources:\n- zero.yaml\n", "line 2: "},
		"a base by ssh":                 {"resources:\n- git@evil.example.com:evil/repo.git\n", "line 2: "},
		"a base by go-getter":           {"resources:\n- git::https://evil.example.com/repo\n", "line 2: "},
		"a base of a file URL":          {"bases:\n- file:///etc\n", "line 2: "},
		"a remote component":            {"components:\n- URL/base\n", "line 2: "},
		"a remote file":                 {"resources:\n- URL/a.yaml\n", "line 2: "},
		"a remote patch":                {"patches:\n- path: URL/a.yaml\n", "line 2: "},
		"a remote JSON patch":           {"patchesJson6902:\n- path: URL/a.yaml\n  target: {kind: Secret, name: a, version: v1}\n", "line 2: "},
		"a remote merge patch":          {"patchesStrategicMerge:\n- URL/a.yaml\n", "line 2: "},
		"a remote replacement":          {"replacements:\n- path: URL/a.yaml\n", "line 2: "},
		"remote CRDs":                   {"crds:\n- URL/a.yaml\n", "line 2: "},
		"a remote schema":               {"openapi:\n  path: URL/a.json\n", "line 2: "},
		"a remote configuration":        {"configurations:\n- URL/a.yaml\n", "line 2: "},
		"a remote file of a map":        {"configMapGenerator:\n- name: a\n  files: [a=URL/a]\n", "line 3: "},
		"a remote file of a Secret":     {"secretGenerator:\n- name: a\n  files: [URL/a]\n", "line 3: "},
		"a remote env":                  {"secretGenerator:\n- name: a\n  envs: [URL/a]\n", "line 3: "},
		"a remote env, as it was":       {"configMapGenerator:\n- name: a\n  env: URL/a\n", "line 3: "},
		"an absolute path":              {"resources:\n- OUTSIDE\n", "line 2: "},
		"an absolute file of a map":     {"configMapGenerator:\n- name: a\n  files: [a=OUTSIDE]\n", "line 3: "},
		"a file outside":                {"resources:\n- RELATIVE\n", "is not in or below"},
		"a file of a map outside":       {"configMapGenerator:\n- name: a\n  files: [a=RELATIVE]\n", "is not in or below"},
		"a link to a file outside":      {"resources:\n- linked.yaml\n", "line 2: "},
		"a chart":                       {"helmCharts:\n- name: a\n  repo: URL\n", "line 1: "},
		"a chart, as it was":            {"helmChartInflationGenerator:\n- chartName: a\n", "line 1: "},
		"the home of charts":            {"helmGlobals:\n  chartHome: /\n", "line 1: "},
		"a plugin":                      {"generators:\n- plugin.yaml\n", "line 1: "},
		"a plugin in the file":          {"transformers:\n- |-\n  apiVersion: x/v1\n  kind: Exec\n  metadata: {name: a}\n", "line 1: "},
		"a validator":                   {"validators:\n- plugin.yaml\n", "line 1: "},
		"a base that is not there":      {"resources:\n- ../../nowhere\n", "line 2: "},
		"a base that builds upon one":   {"resources:\n- inner\n", "inner/kustomization.yaml: line 2: "},
		"a base outside the repository": {"resources:\n- ../outside\n", "line 2: "},
		"a key that there is not":       {"resurces: []\n", "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "repository")
			relative, err := filepath.Rel(dir, outside)
			check.Error(t, err, "")

			text := strings.NewReplacer("URL", server.URL, "OUTSIDE", outside, "RELATIVE", relative).Replace(test.kustomization)
			for file, content := range map[string]string{
				"repository/kustomization.yaml":       text,
				"repository/.git":                     "gitdir: x\n",
				"repository/.GIT/config":              "[http]\n",
				"repository/inner/kustomization.yaml": "resources:\n- " + server.URL + "/x\n",
				"outside/kustomization.yaml":          "resources: []\n",

				"repository/git@github.com/evil/repo/kustomization.yaml": "resources: []\n",
			} {
				path := filepath.Join(root, file)
				check.Error(t, os.MkdirAll(filepath.Dir(path), 0o755), "")
				check.Error(t, os.WriteFile(path, []byte(content), 0o600), "")
			}

			for link, to := range map[string]string{"linked.yaml": outside, "token": ".git", "zero.yaml": "/dev/zero"} {
				check.Error(t, os.Symlink(to, filepath.Join(dir, link)), "")
			}

			_, err = Build(dir)
			if err == nil {
				t.Fatal("it was built")
			}

			check.Error(t, err, test.want)
			check.Contains(t, "the error", err.Error(), "kustomization.yaml")
			check.Equal(t, "requests", asked, 0)
		})
	}
}

// TestAKustomizationThatIsALinkIsNotRead has a link in place of a kustomization. An error would show keys in the target
// of the link.
func TestAKustomizationThatIsALinkIsNotRead(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret.yaml")
	check.Error(t, os.WriteFile(outside, []byte("canary: 1\n"), 0o600), "")

	for _, to := range []string{outside, "/dev/zero"} {
		dir := t.TempDir()
		check.Error(t, os.Symlink(to, filepath.Join(dir, "kustomization.yaml")), "")

		_, err := Build(dir)
		check.Error(t, err, "kustomization.yaml")
		check.Lacks(t, "the error", err.Error(), "canary")
	}
}
