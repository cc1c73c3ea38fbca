// Package version says which build this is.
package version

import (
	"fmt"
	"runtime"
)

// Version is set by the linker.
var Version = "v0.1.0-dev"

// LeaseName is the name of the Lease for which managers are candidates, in all versions: two of them never work at the
// same time, and whoever looks for one that is alive finds it by that.
const LeaseName = "controller-leader-election-capolvm"

// Platform is the operating system and the architecture that the program is built for.
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// FormatLine is what a program prints of its version.
func FormatLine(program string) string {
	return fmt.Sprintf("%s %s (%s, %s)", program, Version, runtime.Version(), Platform())
}
