// Package version contains the version of this build.
package version

import (
	"fmt"
	"runtime"
)

// Version is the version of this build. The linker sets it.
var Version = "v0.1.0-dev"

// LeaseName is the name of the Lease for the election of a manager. It is the same in all versions, so that two
// versions never work at the same time. Other programs find a running manager by this Lease.
const LeaseName = "controller-leader-election-capolvm"

// Platform returns the operating system and the architecture for which the program was built.
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// FormatLine returns the line that a program prints for its version.
func FormatLine(program string) string {
	return fmt.Sprintf("%s %s (%s, %s)", program, Version, runtime.Version(), Platform())
}
