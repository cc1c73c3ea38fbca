// Package confine starts processes with access to only the given files, folders and TCP ports. On Linux it uses
// Landlock, which needs no privileges.
package confine

// Rules list everything a process and its children may access. The kernel denies everything else it can; see
// docs/operate/security.md for the rest. Missing paths are ignored.
type Rules struct {
	// Run are programs, and folders with libraries.
	Run []string
	// Read are files, and folders with everything below them. Unreadable paths are ignored.
	Read []string
	// Work are folders to create, change and delete files and folders in. The process may not execute files there, or
	// make symbolic links: another process could follow them to paths this one cannot open.
	Work []string
	// Sockets are folders like Work. The process may also create Unix sockets there.
	Sockets []string
	// Connect are the TCP ports the process may connect to.
	Connect []uint16
	// Signals lets the process send signals to others.
	Signals bool
}

// PortsVersion is the first version of Landlock to restrict TCP ports (Linux 6.7). Earlier ones restrict only files.
const PortsVersion = 4

// Libraries are the folders of shared libraries. They contain no secrets.
var Libraries = []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"}
