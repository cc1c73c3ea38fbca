//go:build !unix

package atomicfile

// syncFolder does nothing, because this system cannot open folders for this purpose.
func syncFolder(string) error { return nil }
