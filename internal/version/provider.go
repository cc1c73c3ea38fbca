package version

import (
	"fmt"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// firstOfProvider is added to our minor versions in those of the Terraform provider: the released ovirt/ovirt has the
// numbers below.
const firstOfProvider = 100

// majorOfProvider is what one major version of ours is in minor versions of the provider.
const majorOfProvider = 1000

// FormatProvider is the version of the Terraform provider in a build of ours: 2.101.0 in v0.1.0, and 2.1102.3 in
// v1.2.3. It has the address of the released provider, so it has its major version too, for constraints such as ~> 2.1,
// and minor versions that the released one does not reach: one number never means two programs, which lock files would
// refuse.
func FormatProvider(ours string) string {
	parsed, err := utilversion.ParseGeneric(ours)
	if err != nil {
		parsed = utilversion.MustParseGeneric("v0.1.0")
	}

	return fmt.Sprintf("2.%d.%d", firstOfProvider+majorOfProvider*parsed.Major()+parsed.Minor(), parsed.Patch())
}
