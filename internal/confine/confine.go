// Package confine starts processes that can use nothing but what they are
// given: files, folders, and TCP ports of others. Linux does it by Landlock,
// without privileges.
package confine

// Rules are what a process may use, and the processes that it starts. It may use nothing else, as far as the kernel can
// deny it: docs/operate/security.md says what that leaves. What does not exist is passed over.
type Rules struct {
	// Run are programs, and folders with libraries.
	Run []string
	// Read are files, and folders with all that is below them.
	Read []string
	// Work are folders in which files and folders are made, changed and deleted. Nothing is run there, and no links are
	// made, which others would follow to where the process may not go.
	Work []string
	// Sockets are folders in which, beside that, Unix sockets are made.
	Sockets []string
	// Connect are the TCP ports to which the process may connect.
	Connect []uint16
	// Signals reports that the process may send signals to others.
	Signals bool
}

// Libraries are where programs that are not static find what they are linked with. There are no secrets.
var Libraries = []string{"/lib", "/lib64", "/usr/lib", "/usr/lib64"}
