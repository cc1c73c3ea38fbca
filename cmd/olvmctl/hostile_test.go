package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// rename renames the MachineDeployment in the sample.
func (s *site) rename(name string) string {
	s.t.Helper()
	const before = "kind: MachineDeployment\nmetadata:\n  name: demo-md-0"
	check.Contains(s.t, "the sample", s.manifests, before)

	return strings.Replace(s.manifests, before, "kind: MachineDeployment\nmetadata:\n  name: "+name, 1)
}

func TestANameThatIsAPathReachesNoFolderOfTheUser(t *testing.T) {
	s := newSite(t)
	dir := t.TempDir()
	precious := filepath.Join(dir, "repo-0", "main.tf")
	check.Error(t, os.MkdirAll(filepath.Dir(precious), 0o755), "")
	check.Error(t, os.WriteFile(precious, []byte("# precious\n"), 0o600), "")

	upwards, err := filepath.Rel(os.TempDir(), dir)
	check.Error(t, err, "")

	for name, test := range map[string]struct {
		name string
		args []string
	}{
		"plan":   {"x/../../" + upwards + "/repo", []string{"plan"}},
		"render": {"../../repo", []string{"render", "--out", filepath.Join(dir, "out")}},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, problems := s.run(s.rename(test.name), append(test.args, "-f", "-", "--ca-file", s.caFile)...)
			check.Equal(t, "exit code", code, 1)
			check.Contains(t, "problems", problems, "metadata.name")

			content, err := os.ReadFile(precious)
			check.Error(t, err, "")
			check.Equal(t, "the file of the user", string(content), "# precious\n")
		})
	}
}
