// Package version says which build this is.
package version

import (
	"fmt"
	"runtime"
)

// Version is set by the linker.
var Version = "v0.1.0-dev"

// Platform is the operating system and the architecture that the program is built for.
func Platform() string { return runtime.GOOS + "/" + runtime.GOARCH }

// Line is what a program prints of its version.
func Line(program string) string {
	return fmt.Sprintf("%s %s (%s, %s)", program, Version, runtime.Version(), Platform())
}
