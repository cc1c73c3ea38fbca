package manifest

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestErrorsOfManifestsSayNothingOfTheirContent has invalid documents with a password, each with a different mistake.
func TestErrorsOfManifestsSayNothingOfTheirContent(t *testing.T) {
	const good = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n"
	for name, test := range map[string]struct{ content, want string }{
		"a Secret without a kind is said to lack it": {good +
			"apiVersion: v1\nstringData: {password: hunter2}\n", "document 2: kind: required"},
		"a Secret without an apiVersion is said to lack it": {good + "kind: Secret\nstringData: {password: hunter2}\n",
			"document 2: apiVersion: required"},
		"a kind that is no text is as none": {"apiVersion: v1\nkind: [hunter2]\n",
			"document 1: kind: required; must be a string"},
		"JSON without a kind is as YAML": {`{"apiVersion": "v1", "stringData": {"password": "hunter2"}}`,
			"document 1: kind: required"},
		"a list is not an object": {"- hunter2\n", "document 1: not an object"},
		"a text is not an object": {good + "hunter2\n", "document 2: not an object"},
		"YAML that breaks off has the line": {"apiVersion: v1\nkind: " +
			"Secret\nstringData: {password: hunter2\n", "document 1: yaml: line 3: did not find expected ',' or '}'"},
		"YAML with a key of a key has the line": {"kind: Secret\npassword: hunter2: 3\n",
			"document 1: yaml: line 2: mapping values are not allowed in this context"},
		"a template of Helm is not quoted": {"kind: Secret\n? {hunter2: hunter2}\n: x\n",
			"document 1: invalid YAML or JSON"},
		"a value that is not of its type is not quoted": {"kind: Secret\npassword: !!int hunter2\n",
			"document 1: invalid YAML or JSON"},
		"an anchor that is not there is not quoted": {"kind: Secret\npassword: *hunter2\n",
			"document 1: invalid YAML or JSON"},
		"text behind a separator is not quoted": {good + "kind: Secret\n--- hunter2\n",
			"unexpected text after ---"},
		"JSON that breaks off has the byte": {`{"kind": "Secret", "password": "hunter2" ?`,
			"document 1: invalid JSON at byte 42"},
		"a number that is too large is not quoted": {`{"apiVersion": "v1", "kind": "Secret", "hunter2": 1e999}`,
			"document 1: contains a number that is too large"},
		"an apiVersion with too many slashes is not repeated": {"apiVersion: hunter2/b/c\nkind: Secret\n",
			"an apiVersion with more than one slash"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read([]byte(test.content))
			check.Error(t, err, test.want)
			check.Lacks(t, "err.Error()", err.Error(), "hunter2")
		})
	}
}

func TestReadingManifests(t *testing.T) {
	for name, test := range map[string]struct {
		content string
		want    int
	}{
		"nothing has no objects":          {"", 0},
		"comments have no objects":        {"# nothing\n---\n---\n# more\n", 0},
		"documents of YAML have one each": {"apiVersion: v1\nkind: A\n--- # next\napiVersion: v1\nkind: B\n", 2},
		"JSON needs nothing between objects": {`{"apiVersion": "v1", "kind": "A"} {"apiVersion": "v1", "kind": "B"}`,
			2},
		"a list is one object": {"apiVersion: v1\nkind: List\nitems: []\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			if objects, err := Read([]byte(test.content)); err != nil || len(objects) != test.want {
				t.Errorf("%d objects, want %d: %v", len(objects), test.want, err)
			}
		})
	}
}
