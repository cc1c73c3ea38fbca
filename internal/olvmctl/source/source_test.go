package source

import (
	"os"
	"path/filepath"

	"strings"
	"testing"
	"unicode/utf16"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// write creates a folder with files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()

	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		check.Error(t, os.MkdirAll(filepath.Dir(file), 0o755), "")
		check.Error(t, os.WriteFile(file, []byte(content), 0o600), "")
	}

	return dir
}

const deployment = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\n" +
	"metadata: {name: md, namespace: ns}\nspec: {replicas: 1, template: {spec: {version: '${VERSION}'}}}\n"

// read returns the replicas of the MachineDeployments in a folder, and the notes.
func read(t *testing.T, dir string, options Options) (replicas []int64, notes string, err error) {
	t.Helper()

	options.Note = func(note string) { notes += note + "\n" }

	objects, err := Read([]string{dir}, strings.NewReader(""), options)
	for _, object := range objects {
		spec, _ := object.Object["spec"].(map[string]any)

		switch count := spec["replicas"].(type) {
		case int64:
			replicas = append(replicas, count)
		case float64:
			replicas = append(replicas, int64(count))
		case int:
			replicas = append(replicas, int64(count))
		}
	}

	return replicas, notes, err
}

func TestAFolderIsReadAsAGitOpsToolAppliesIt(t *testing.T) {
	const patch = "patches:\n- patch: |-\n    - {op: replace, path: /spec/replicas, value: 7}\n  target: {kind: MachineDeployment}\n"

	for name, test := range map[string]struct {
		files map[string]string
		at    string
		want  []int64
		note  string
	}{
		"a kustomization is built": {
			map[string]string{"md.yaml": deployment, "kustomization.yaml": "resources: [md.yaml]\n" + patch}, ".",
			[]int64{7}, "built ",
		},
		"a kustomization.yml, too": {
			map[string]string{"md.yaml": deployment, "kustomization.yml": "resources: [md.yaml]\n" + patch}, ".",
			[]int64{7}, "kustomization.yml",
		},
		"so is a Kustomization": {
			map[string]string{"md.yaml": deployment, "Kustomization": "resources: [md.yaml]\n" + patch}, ".",
			[]int64{7}, "built ",
		},
		"an overlay is built upon its base": {
			map[string]string{"base/md.yaml": deployment, "base/kustomization.yaml": "resources: [md.yaml]\n",
				"overlays/prod/kustomization.yaml": "resources: [../../base]\n" + patch}, "overlays/prod",
			[]int64{7}, "built ",
		},
		"of a base and its overlay only the overlay is built": {
			map[string]string{"base/md.yaml": deployment, "base/kustomization.yaml": "resources: [md.yaml]\n",
				"overlays/prod/kustomization.yaml": "resources: [../../base]\n" + patch}, ".",
			[]int64{7}, filepath.Join("overlays", "prod"),
		},
		"a component is part of others": {
			map[string]string{"md.yaml": deployment, "big/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\n" +
				"kind: Component\n" + patch, "prod/kustomization.yaml": "resources: [../base]\ncomponents: [../big]\n",
				"base/md.yaml": deployment, "base/kustomization.yaml": "resources: [md.yaml]\n"}, ".",
			[]int64{7, 1}, "built ",
		},
		"a file that a kustomization does not name is not read": {
			map[string]string{"md.yaml": deployment, "other.yaml": deployment, "sub/patch.yaml": deployment,
				"kustomization.yaml": "resources: [md.yaml]\n"}, ".",
			[]int64{1}, "built ",
		},
		"other YAML is passed over": {
			map[string]string{"md.yaml": deployment, "values.yaml": "replicas: 3\n", "list.yaml": "- a\n",
				"package.json": `{"name": "x"}`}, ".",
			[]int64{1}, "values.yaml, which contains no Kubernetes object",
		},
		"a hidden folder is not read": {
			map[string]string{"md.yaml": deployment, ".github/a.yaml": deployment, ".github/kustomization.yaml": "x: 1\n"}, ".",
			[]int64{1}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			replicas, notes, err := read(t, filepath.Join(write(t, test.files), test.at), Options{})
			check.Error(t, err, "")
			check.Equal(t, "replicas", replicas, test.want)
			check.Contains(t, "the notes", notes, test.note)
		})
	}
}

func TestAFileThatHidesAnObjectIsNotPassedOver(t *testing.T) {
	dir := write(t, map[string]string{"a.yaml": "replicas: 3\n---\n" + deployment})
	_, _, err := read(t, dir, Options{})
	check.Error(t, err, "a.yaml: document 1: apiVersion: required")

	dir = write(t, map[string]string{"a.yaml": "{{ range .Values.machines }}\n"})
	_, _, err = read(t, dir, Options{})
	check.Error(t, err, "a.yaml: document 1: ")
}

func TestAFolderForKMustHaveAKustomization(t *testing.T) {
	_, err := Read(nil, nil, Options{Kustomizations: []string{write(t, map[string]string{"md.yaml": deployment})}})
	check.Error(t, err, "no kustomization.yaml found")
}

func TestAFileThatIsNotUTF8IsNamedWithItsEncoding(t *testing.T) {
	encode := func(text string, mark, swap bool) string {
		var out []byte
		if mark {
			text = "\ufeff" + text
		}

		for _, unit := range utf16.Encode([]rune(text)) {
			if swap {
				unit = unit>>8 | unit<<8
			}

			out = append(out, byte(unit), byte(unit>>8))
		}

		return string(out)
	}

	for name, test := range map[string]struct{ content, want string }{
		"PowerShell":                {encode(deployment, true, false), "md.yaml: encoded in UTF-16 (little endian)"},
		"UTF-16 in the other order": {encode(deployment, true, true), "md.yaml: encoded in UTF-16 (big endian)"},
		"UTF-16 without a mark":     {encode(deployment, false, false), "md.yaml: encoded in UTF-16; save it as UTF-8"},
		"Windows-1252":              {deployment + "# Gr\xf6\xdfe\n", "md.yaml: not encoded in UTF-8, but maybe in Windows-1252"},
		"git-crypt":                 {"\x00GITCRYPT\x00abc", "md.yaml: encrypted by git-crypt"},
		"an archive":                {"PK\x03\x04\x00\x00", "md.yaml: not a text file"},
		"tabs":                      {"kind: A\nmetadata:\n\tname: a\n", "indent with spaces, not tabs"},
		"UTF-8 with a mark":         {"\ufeff" + deployment, ""},
		"line ends of Windows":      {strings.ReplaceAll(deployment, "\n", "\r\n"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, map[string]string{"md.yaml": test.content})

			for _, path := range []string{dir, filepath.Join(dir, "md.yaml")} {
				replicas, _, err := read(t, path, Options{})
				check.Error(t, err, test.want)

				if test.want == "" {
					check.Equal(t, "replicas", replicas, []int64{1})
				}
			}
		})
	}
}

func TestVariablesOfFlux(t *testing.T) {
	for name, test := range map[string]struct {
		version   string
		variables map[string]string
		want      string
		note      string
		problem   string
	}{
		"on request":             {"v1.${MINOR}.0", map[string]string{"MINOR": "36"}, "v1.36.0", "", ""},
		"an escaped one stays":   {"a-$${KUBERNETES_VERSION}", map[string]string{}, "a-${KUBERNETES_VERSION}", "", ""},
		"a default":              {"v1.${MINOR:=35}.0", map[string]string{}, "v1.35.0", "", ""},
		"one without a value":    {"${MINOR}", map[string]string{}, "", "", "variable MINOR is not set"},
		"one of several lines":   {"${MINOR}", map[string]string{"MINOR": "v1\n      failureDomain: b"}, "", "", "invalid YAML after"},
		"one that ends its line": {"${MINOR}", map[string]string{"MINOR": "v1.36.0\n"}, "v1.36.0", "", ""},
		"not requested":          {"${MINOR}", nil, "${MINOR}", "${MINOR}; if Flux sets them, use --flux", ""},
		"escaped, not requested": {"$${KUBERNETES_VERSION}", nil, "$${KUBERNETES_VERSION}", "$${KUBERNETES_VERSION}", ""},
		"that of the provider":   {"${KUBERNETES_VERSION}", nil, "${KUBERNETES_VERSION}", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var notes []string

			content := strings.Replace(deployment, "${VERSION}", test.version, 1)
			objects, err := Read([]string{"-"}, strings.NewReader(content), Options{Variables: test.variables,
				Note: func(note string) { notes = append(notes, note) }})
			check.Error(t, err, test.problem)

			if test.problem != "" {
				return
			}

			check.Equal(t, "the replicas", objects[0].Object["spec"].(map[string]any)["replicas"], any(int64(1)))

			spec := objects[0].Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
			check.Equal(t, "the version", spec["version"], any(test.want))
			check.Equal(t, "notes", len(notes) > 0, test.note != "")
			check.Contains(t, "the notes", strings.Join(notes, ""), test.note)
		})
	}

	object := strings.Replace(deployment, "namespace: ns", "labels: {kustomize.toolkit.fluxcd.io/substitute: disabled}", 1)
	objects, err := Read([]string{"-"}, strings.NewReader(object), Options{Variables: map[string]string{}})
	check.Error(t, err, "")
	check.Length(t, "an object that Flux leaves as it is", objects, 1)
}

// TestALinkReachesNoFileOfTheUser has links in a folder, and links in place of named files. With such links, writers of
// a repository could make olvmctl read other files: a Secret, a token of git, or a file without an end.
func TestALinkReachesNoFileOfTheUser(t *testing.T) {
	for name, test := range map[string]struct{ link, to, read, want string }{
		"a file of the user":          {"repository/clusters/a.yaml", "OUTSIDE/secret.yaml", "clusters", "it is a link to a file outside "},
		"a folder of the user":        {"repository/linked", "OUTSIDE", "linked/", "it is a link to a file outside "},
		"in the place of a file":      {"repository/a.yaml", "OUTSIDE/secret.yaml", "a.yaml", "it is a link to a file outside "},
		"a device":                    {"repository/clusters/a.yaml", "/dev/zero", "clusters", "it is a link to a file outside "},
		"git's token":                 {"repository/clusters/a.yaml", "../.git/config", "clusters", "it is an internal file of git"},
		"a file of the repository":    {"repository/clusters/a.yaml", "../base/md.yaml", "clusters", ""},
		"a folder of the repository":  {"repository/linked", "base", "linked/", ""},
		"outside, of no repository":   {"free/a.yaml", "OUTSIDE/secret.yaml", "../free", "it is a link to a file outside "},
		"in a folder, of none":        {"free/a.yaml", "..data/md.yaml", "../free", ""},
		"named, and of no repository": {"free/a.yaml", "OUTSIDE/secret.yaml", "../free/a.yaml", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := write(t, map[string]string{"repository/.git/config": "[http]\n", "repository/base/md.yaml": deployment,
				"repository/clusters/md.yaml": deployment, "free/..data/md.yaml": deployment,
				"outside/secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: canary}\n"})
			to := strings.ReplaceAll(test.to, "OUTSIDE", filepath.Join(root, "outside"))
			check.Error(t, os.Symlink(to, filepath.Join(root, test.link)), "")

			_, _, err := read(t, root+"/repository/"+test.read, Options{})
			check.Error(t, err, test.want)
		})
	}
}

// TestWhatToolsReadDifferentlyIsRefused has manifests that another tool would apply differently.
func TestWhatToolsReadDifferentlyIsRefused(t *testing.T) {
	const md = "{apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, metadata: {name: md}, spec: {replicas: 1}}"

	nested := md
	for range 20 {
		nested = "{apiVersion: v1, kind: List, items: [" + nested + "]}"
	}

	for name, test := range map[string]struct{ text, want string }{
		"a key twice": {strings.Replace(deployment, "{replicas: 1,", "{replicas: 1, replicas: 9,", 1),
			`a.yaml: line 4: duplicate key "replicas"`},
		"a key of a mapping twice": {"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nspec:\n  a: 1\n---\nkind: X\napiVersion: v1\nkind: Y\n",
			`line 9: duplicate key "kind"`},
		"a key of JSON twice":           {`{"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "name": "b"}}`, `duplicate key "name"`},
		"an object that looks like one": {strings.Replace(md, "spec:", "items: [], spec:", 1), "MachineDeployment has items, which are supported only in a List"},
		"an item without a kind":        {"{apiVersion: v1, kind: List, items: [{apiVersion: v1, metadata: {name: a}}]}", "items[0].kind: required"},
		"an item that is no object":     {"{apiVersion: v1, kind: List, items: [a]}", ""},
		"Lists in Lists in Lists":       {nested, "Lists are nested more than 10 levels deep"},
		"a List in a List":              {"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: [" + md + "]}]}", "-"},
		"aliases of aliases": {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n" +
			"apiVersion: v1\nkind: X\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n", "excessive aliasing"},
		"an alias of itself": {"apiVersion: v1\nkind: X\na: &a [*a]\n", "invalid YAML or JSON"},
		"very deep":          {"apiVersion: v1\nkind: X\na: " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), "invalid YAML or JSON"},
		"a very large file":  {deployment + "# " + strings.Repeat("x", 65<<20), "larger than 64 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			replicas, _, err := read(t, write(t, map[string]string{"a.yaml": test.text}), Options{})

			switch test.want {
			case "-":
				check.Error(t, err, "")
				check.Equal(t, "replicas", replicas, []int64{1})
			case "":
				check.Equal(t, "it is refused", err != nil, true)
			default:
				check.Error(t, err, test.want)
			}
		})
	}
}
