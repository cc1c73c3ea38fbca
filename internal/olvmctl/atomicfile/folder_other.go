//go:build !unix

package atomicfile

// syncFolder does nothing: folders cannot be opened for that.
func syncFolder(string) error { return nil }
