//go:build !unix

package atomicfile

// syncFolder does nothing, because folders cannot be opened for this.
func syncFolder(string) error { return nil }
