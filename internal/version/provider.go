package version

import (
	"fmt"

	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// firstOfProvider is added to our minor version in the version of the Terraform provider. The released ovirt/ovirt uses
// the lower numbers.
const firstOfProvider = 100

// majorOfProvider is the number of the provider's minor versions for one of our major versions.
const majorOfProvider = 1000

// FormatProvider returns the version of the Terraform provider in one of our builds: 2.101.0 in v0.1.0, and 2.1102.3 in
// v1.2.3. Our provider has the address of the released provider. It therefore has the same major version, for
// constraints such as ~> 2.1. It uses minor versions that the released provider does not reach. No version may stand
// for two programs, because lock files would refuse this.
func FormatProvider(ours string) string {
	parsed, err := utilversion.ParseGeneric(ours)
	if err != nil {
		parsed = utilversion.MustParseGeneric("v0.1.0")
	}

	return fmt.Sprintf("2.%d.%d", firstOfProvider+majorOfProvider*parsed.Major()+parsed.Minor(), parsed.Patch())
}
