package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFolderName(t *testing.T) {
	const uid = "11111111-1111-4111-8111-111111111111"
	seen := map[string]bool{}

	for _, name := range []string{"a", strings.Repeat("a", 200), strings.Repeat("a", 201), strings.Repeat("a", 252) +
		"b", strings.Repeat("a", 253)} {
		folder := folderName("olvmcluster."+name, uid)
		err := os.MkdirAll(filepath.Join(t.TempDir(), folder), 0o700)
		if err != nil || seen[folder] || !strings.HasSuffix(folder, uid) {
			t.Errorf("a name of %d characters is %s, %v", len(name), folder, err)
		}

		seen[folder] = true
	}
}
