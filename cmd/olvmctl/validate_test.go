package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
)

// TestProblemsAsJSON has files that cannot be read at all: what reads the JSON wants some then, too.
func TestProblemsAsJSON(t *testing.T) {
	t.Setenv("OCNE_DEFAULTS", "")

	for name, test := range map[string]struct {
		content, want string
		line          int
	}{
		"what is not YAML is a problem with its line": {"name: a\nprovider: olvm: b\n", "it is not valid YAML: " +
			"mapping values are not allowed", 2},
		"a list is a problem":                   {"- name: a\n", "it is not a mapping of keys", 1},
		"a second document is a problem":        {"name: a\n---\nname: b\n", "a second YAML document is there", 3},
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
			if decoding != nil || !errors.Is(err, errInvalid) || said.Valid || len(said.Problems) != 1 {
				t.Fatalf("%v, %v\n%s", err, decoding, out.String())
			}

			p := said.Problems[0]
			if p.File != path || p.Line != test.line || p.Path != "file" || !strings.Contains(p.Message, test.want) {
				t.Errorf("%+v, want %q in line %d", p, test.want, test.line)
			}
		})
	}
}
