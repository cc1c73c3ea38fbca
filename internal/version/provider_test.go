package version_test

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

func TestTheProviderHasAVersionThatTheReleasedOneHasNot(t *testing.T) {
	for ours, want := range map[string]string{
		"v0.1.0": "2.101.0", "v0.1.0-dev": "2.101.0", "v0.12.3": "2.112.3", "v1.2.3": "2.1102.3", "nonsense": "2.101.0",
	} {
		check.Equal(t, ours, version.FormatProvider(ours), want)
	}
}
