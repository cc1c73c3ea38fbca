package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestFolderName(t *testing.T) {
	const uid = "11111111-1111-4111-8111-111111111111"
	seen := map[string]bool{}

	for _, name := range []string{"a", strings.Repeat("a", 200), strings.Repeat("a", 201), strings.Repeat("a", 252) +
		"b", strings.Repeat("a", 253)} {
		folder := folderName("olvmcluster."+name, uid)
		err := os.MkdirAll(filepath.Join(t.TempDir(), folder), 0o700)
		check.Error(t, err, "")
		check.Equal(t, "seen[folder]", seen[folder], false)
		check.Equal(t, "strings.HasSuffix(folder, uid)", strings.HasSuffix(folder, uid), true)

		seen[folder] = true
	}
}
