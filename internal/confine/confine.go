// Package confine starts processes that can access only the given files, folders and TCP ports. On Linux it uses
// Landlock, which needs no privileges.
package confine

// Rules list everything that a process and its children may access. Landlock denies all other access that
// it covers. docs/operate/security.md describes the rest. Rules may contain missing paths.
type Rules struct {
	// Run are programs, and folders that contain libraries.
	Run []string
	// Read are files, and folders whose whole content is readable. Rules may contain paths that this process cannot
	// read.
	Read []string
	// Work are folders in which the process may create, change and delete files and folders. It may not execute files
	// there. It may not create symbolic links there either, because another process could follow such a link to a path
	// that this process cannot open.
	Work []string
	// Sockets are folders like Work, in which the process may also create Unix sockets.
	Sockets []string
	// Connect are the TCP ports to which the process may connect.
	Connect []uint16
	// Signals allows the process to send signals to other processes.
	Signals bool
}

// PortsVersion is the first version of Landlock that restricts TCP ports (Linux 6.7). Earlier versions restrict only
// files.
const PortsVersion = 4

// Libraries are the folders of shared libraries. They contain no secrets.
var Libraries = []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"}
