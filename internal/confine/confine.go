// Package confine starts processes that can access only the files, folders and
// TCP ports that they are given. On Linux it uses Landlock, which needs no
// privileges.
package confine

// Rules list what a process and its children may access. The kernel denies everything else that it can; see
// docs/operate/security.md for the rest. Paths that do not exist are ignored.
type Rules struct {
	// Run are programs, and folders with libraries.
	Run []string
	// Read are files, and folders with all that is below them. What this process cannot open is ignored.
	Read []string
	// Work are folders in which the process may create, change and delete files and folders. It may not execute files
	// there, or make symbolic links: another process could follow them to paths that this one cannot open.
	Work []string
	// Sockets are folders like Work in which the process may also create Unix sockets.
	Sockets []string
	// Connect are the TCP ports to which the process may connect.
	Connect []uint16
	// Signals reports that the process may send signals to others.
	Signals bool
}

// PortsVersion is the first version of Landlock that restricts TCP ports (Linux 6.7). Earlier ones restrict files
// alone.
const PortsVersion = 4

// Libraries are the folders of shared libraries. They contain no secrets.
var Libraries = []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"}
