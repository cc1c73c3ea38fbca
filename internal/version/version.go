// Package version says which build this is.
package version

// Version is set by the linker.
var Version = "v0.1.0-dev"
