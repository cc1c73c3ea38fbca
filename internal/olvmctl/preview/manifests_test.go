package preview

import (
	"strings"
	"testing"
)

func TestManifestsWithoutMachines(t *testing.T) {
	for name, test := range map[string]struct {
		paths         []string
		content, want string
	}{
		"nothing on standard input is a mistake": {[]string{"-"}, "", "no objects found in -; specify manifests"},
		"an empty file is as well":               {[]string{"/dev/null"}, "", "no objects found in /dev/null"},
		"comments are no objects":                {[]string{"-"}, "# nothing\n---\n", "no objects found in -"},
		"an empty list has no objects": {[]string{"-", "/dev/null"},
			"apiVersion: v1\nkind: List\nitems: []\n", "no objects found in -, /dev/null"},
		"objects of other kinds ask for no machines": {[]string{"/dev/null", "-"}, "apiVersion: v1\nkind: " +
			"Namespace\nmetadata: {name: a}\n", ""},
		"those in a list are objects, too": {[]string{"-"}, "apiVersion: v1\nkind: List\nitems: " +
			"[{apiVersion: v1, kind: Namespace, metadata: {name: a}}]\n", ""},
		"no paths are what a plan of a live cluster has": {nil, "", ""},
		"a Secret alone is not what machines are made of": {[]string{"-"}, "apiVersion: v1\nkind: " +
			"Secret\nmetadata: {name: a}\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := load(test.paths, strings.NewReader(test.content))
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, want %q", err, test.want)
				}

				return
			}

			if err != nil {
				t.Fatal(err)
			}

			if machines, err := m.Machines(); err != nil || len(machines) != 0 {
				t.Errorf("%+v, %v", machines, err)
			}
		})
	}
}
