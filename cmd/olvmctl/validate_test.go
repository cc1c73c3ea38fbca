package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestProblemsAsJSON has completely unreadable files, because programs expect problems for these files, too.
func TestProblemsAsJSON(t *testing.T) {
	t.Setenv("OCNE_DEFAULTS", "")

	for name, test := range map[string]struct {
		content, want string
		line          int
	}{
		"what is not YAML is a problem with its line": {"name: a\nprovider: olvm: b\n", "invalid YAML: " +
			"mapping values are not allowed", 2},
		"a list is a problem":                   {"- name: a\n", "not a YAML mapping", 1},
		"a second document is a problem":        {"name: a\n---\nname: b\n", "contains more than one YAML document", 3},
		"a file that is not there is a problem": {"", "no such file", 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cluster.yaml")
			if test.content != "" {
				if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
					t.Fatal(err)
				}
			}

			var out bytes.Buffer
			command := newCommand(streams{out: &out, err: &out})
			command.SetArgs([]string{"validate", "-f", path, "--defaults", "", "-o", "json"})
			err := command.ExecuteContext(t.Context())
			var said struct {
				Valid    bool
				Problems []clusterfile.Problem
			}
			decoding := json.Unmarshal(out.Bytes(), &said)
			if decoding != nil {
				t.Errorf("decoding is there: %v", decoding)
			}

			check.Equal(t, "errors.Is(err, errInvalid)", errors.Is(err, errInvalid), true)
			check.Equal(t, "said.Valid", said.Valid, false)
			check.Length(t, "said.Problems", said.Problems, 1)
			if t.Failed() {
				t.FailNow()
			}

			p := said.Problems[0]
			check.Equal(t, "p.File", p.File, path)
			check.Equal(t, "p.Line", p.Line, test.line)
			check.Equal(t, "p.Path", p.Path, "file")
			check.Contains(t, "p.Message", p.Message, test.want)
		})
	}
}
