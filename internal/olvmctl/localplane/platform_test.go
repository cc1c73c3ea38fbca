package localplane

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestAPlaneNeedsLinux(t *testing.T) {
	check.Error(t, CheckPlatform("linux"), "")

	for _, system := range []string{"darwin", "windows", "freebsd"} {
		err := CheckPlatform(system)
		check.Error(t, err, "requires Linux, but this is "+system)
		check.Error(t, err, "--bootstrap vm")
	}
}
