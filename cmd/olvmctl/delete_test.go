package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestRemovingAKubeconfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig.prod")
	writeConfig(t, path, "https://prod:6443")

	for _, test := range []struct{ server, says string }{
		{"", "left " + path + ": its server is https://prod:6443; remove it if"},
		{"https://other:6443", "that of the cluster was https://other:6443"},
		{"https://prod:6443", "removed " + path},
	} {
		var progress bytes.Buffer
		o := &remove{steps: steps{progress: &progress}}
		if err := o.removeKubeconfig(path, test.server); err != nil || !strings.Contains(progress.String(), test.says) {
			t.Errorf("%q: %v, %s", test.server, err, progress.String())
		}

		if there := fileExists(path); there == strings.HasPrefix(test.says, "removed") {
			t.Errorf("%q: it is there: %t", test.server, there)
		}
	}
}
