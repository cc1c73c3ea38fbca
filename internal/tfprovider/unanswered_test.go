package tfprovider

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAnEmptyMarkMatchesNoDisk has no client, so a request would fail.
func TestAnEmptyMarkMatchesNoDisk(t *testing.T) {
	found, err := (&base{}).findDisksByMark(t.Context(), "")
	check.Error(t, err, "")
	check.Length(t, "the disks", found, 0)
}
