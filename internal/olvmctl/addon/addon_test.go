package addon

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestAListOfAddOnsThatIsWrong(t *testing.T) {
	for name, test := range map[string]struct{ list, want string }{
		"no name": {"- chart: a\n", "entry 1: name: required"},
		"nothing": {"- name: a\n", "a: set either manifests or chart"},
		"both":    {"- {name: a, chart: b, manifests: [c.yaml]}\n", "a: set either manifests or chart"},
		"not of a chart": {"- {name: a, manifests: [c.yaml], values: {b: c}}\n", "a: repository, version, namespace " +
			"and values require chart"},
		"unknown key":  {"- {name: a, chrat: b}\n", `unknown field "chrat"`},
		"no file":      {"- {name: a, manifests: [none.yaml]}\n", "none.yaml: no such file"},
		"no manifests": {"- {name: a, manifests: [empty.yaml]}\n", "no manifests found"},
		"no kind":      {"- {name: a, manifests: [secret.yaml]}\n", "secret.yaml: document 1: kind: required"},
		"no chart":     {"- {name: a, chart: ./none}\n", `"./none" not found`},
		"http":         {"- {name: a, manifests: ['http://example.com/a.yaml']}\n", "unsupported URL scheme; use https"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()

			path := filepath.Join(dir, "add-ons.yaml")
			for file, content := range map[string]string{
				path:                              test.list,
				filepath.Join(dir, "empty.yaml"):  "# nothing\n",
				filepath.Join(dir, "secret.yaml"): "apiVersion: v1\nstringData: {password: hunter2}\n",
			} {
				if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}

			_, err := Sources{CNI: clusterfile.NoNetworkPlugin, List: path}.Load(t.Context(), nil)
			check.Error(t, err, test.want)
			check.Lacks(t, "err.Error()", err.Error(), "hunter2")
		})
	}
}

func TestAListOfAddOns(t *testing.T) {
	dir := t.TempDir()

	path := filepath.Join(dir, "add-ons.yaml")
	for file, content := range map[string]string{
		"add-ons.yaml": "- name: cni\n  manifests: [cni.yaml, more]\n- {name: said, " +
			"chart: said, values: {a: 1}}\n",
		"cni.yaml":                "apiVersion: v1\nkind: Namespace\nmetadata: {name: cni}\n",
		"more/a.yml":              "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
		"more/b.yaml":             "# nothing\n",
		"more/kustomization.yaml": "resources: [a.yml]\n",
		"said/Chart.yaml":         "apiVersion: v2\nname: said\nversion: 1.0.0\n",
	} {
		file = filepath.Join(dir, filepath.FromSlash(file))
		err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}

	list, err := Sources{CNI: clusterfile.NoNetworkPlugin, List: path}.Load(t.Context(), nil)
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}

	if cni := list[0]; cni.Name != "cni" || cni.chart != nil || len(cni.objects) != 2 {
		t.Errorf("manifests: %+v", cni)
	}

	said := list[1]
	if said.chart == nil {
		t.Fatal("said.chart is nil")
	}

	check.Equal(t, "said.chart.Namespace", said.chart.Namespace, "default")
	check.Equal(t, "said.chart.content.Metadata.Version", said.chart.content.Metadata.Version, "1.0.0")
	check.Length(t, "said.objects", said.objects, 0)
}

func TestApplicationsOfAClusterFile(t *testing.T) {
	dir := t.TempDir()
	said := &chartv2.Chart{Metadata: &chartv2.Metadata{APIVersion: "v2", Name: "said", Version: "1.2.3"}}
	if _, err := chartutil.Save(said, dir); err != nil {
		t.Fatal(err)
	}

	index := "apiVersion: v1\nentries:\n  said:\n  - {apiVersion: v2, name: said, version: 1.2.3, " +
		"urls: [said-1.2.3.tgz]}\n"
	if err := os.WriteFile(filepath.Join(dir, "index.yaml"), []byte(index), 0o600); err != nil {
		t.Fatal(err)
	}

	for _, variable := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		t.Setenv(variable, t.TempDir())
	}

	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	wanted := clusterfile.Chart{
		Name:       "said",
		Repository: server.URL,
		Release:    "mine",
		Namespace:  "apps",
		Values:     map[string]any{"a": 1.0},
	}
	list, err := Sources{CNI: clusterfile.NoNetworkPlugin}.Load(t.Context(), []clusterfile.Chart{wanted})
	check.Error(t, err, "")
	check.Length(t, "list", list, 1)
	check.Equal(t, "list[0].Name", list[0].Name, "mine")
	if t.Failed() {
		t.FailNow()
	}

	c := list[0].chart
	check.Equal(t, "c.Name", c.Name, "mine")
	check.Equal(t, "c.Namespace", c.Namespace, "apps")
	check.Equal(t, "c.content.Metadata.Version", c.content.Metadata.Version, "1.2.3")
	check.Equal(t, "sameValues(c.Values, wanted.Values)", sameValues(c.Values, wanted.Values), true)

	wanted.Version = "9.9.9"
	_, err = Sources{CNI: clusterfile.NoNetworkPlugin}.Load(t.Context(), []clusterfile.Chart{wanted})
	check.Error(t, err, "applications: said: ")
	check.Contains(t, "err.Error()", err.Error(), "9.9.9")
}

// TestErrorsOfAddOnsHaveNoPasswords has repositories with a user in the URL and without a chart.
func TestErrorsOfAddOnsHaveNoPasswords(t *testing.T) {
	for _, variable := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"} {
		t.Setenv(variable, t.TempDir())
	}

	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)

	host := strings.TrimPrefix(server.URL, "http://")
	for name, test := range map[string]struct {
		entry clusterfile.Chart
		from  []string
		want  string
	}{
		"a repository without an index is named without its user": {clusterfile.Chart{
			Repository: "http://token1:hunter2@" + host + "/charts",
		}, nil, "http://" + host + "/charts"},
		"a token alone is a secret, too": {clusterfile.Chart{
			Repository: "http://hunter2@" + host,
		}, nil, "http://" + host},
		"an at sign in a password ends nothing": {clusterfile.Chart{
			Repository: "http://token1:a@hunter2@" + host,
		}, nil, "http://" + host},
		"a repository that cannot be reached is named without it": {clusterfile.Chart{
			Repository: "http://token1:hunter2@127.0.0.1:1",
		}, nil, "127.0.0.1:1"},
		"a URL that is none is not repeated": {clusterfile.Chart{
			Repository: "http://token1:hunter2 @" + host,
		}, nil, "said: repository: invalid URL"},
		"a registry takes no user": {clusterfile.Chart{
			Repository: "oci://token1:hunter2@" + host,
		}, nil, "said: repository: an oci URL cannot contain a user"},
		"a chart in a registry is looked for below the catalog": {clusterfile.Chart{
			Repository: "oci://127.0.0.1:1/charts/",
			Version:    "1.2.3",
		}, nil, "127.0.0.1:1/v2/charts/said/"},
		"manifests that cannot be had are named without their users": {clusterfile.Chart{},
			[]string{"https://token1:hunter2@127.0.0.1:1/a.yaml"}, "--add-on https://127.0.0.1:1/a.yaml: "},
	} {
		t.Run(name, func(t *testing.T) {
			test.entry.Name, test.entry.Release, test.entry.Namespace = "said", "said", "default"
			_, err := Sources{CNI: clusterfile.NoNetworkPlugin, Manifests: test.from}.Load(t.Context(), []clusterfile.Chart{test.entry})
			check.Error(t, err, test.want)
			check.Lacks(t, "err.Error()", err.Error(), "hunter2")
			check.Lacks(t, "err.Error()", err.Error(), "token1")
		})
	}
}
