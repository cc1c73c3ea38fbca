package preview

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzManifests checks that manifests are either rejected or lead to valid machine names.
func FuzzManifests(f *testing.F) {
	for _, pattern := range []string{"../../../config/samples/*.yaml", "../../../config/templates/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no seeds in %s: %v", pattern, err)
		}

		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}

			f.Add(string(content))
		}
	}

	for _, seed := range []string{
		"", "a: b", "---\n---\n", "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\nmetadata: {name: " +
			"a}\nspec: {replicas: -1}\n", "kind: List\nitems: [1]\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {value: '%%%'}\n",
		"apiVersion: infrastructure.cluster.x-k8s.io/v1\nkind: OLVMMachine\nmetadata: {name: 3}\nspec: []\n",
	} {
		f.Add(seed)
	}

	sample, err := os.ReadFile("../../../config/samples/demo.yaml")
	if err != nil {
		f.Fatal(err)
	}

	f.Add(strings.ReplaceAll(string(sample), "replicas: 1", "replicas: 2000000000"))
	f.Fuzz(func(t *testing.T, text string) {
		m, err := load([]string{"-"}, strings.NewReader(text))
		if err != nil {
			return
		}

		machines, err := m.Machines()
		if err != nil {
			return
		}

		if len(machines) > maxReplicas*strings.Count(text, "replicas")+strings.Count(text, "kind") {
			t.Errorf("%d machines from %d bytes", len(machines), len(text))
		}

		for _, machine := range machines {
			if machine.Name == "" {
				t.Errorf("a machine without a name from %q", text)
			}
		}
	})
}
