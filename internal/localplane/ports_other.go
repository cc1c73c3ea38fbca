//go:build !linux

package localplane

// reserve does nothing: other systems have no abstract sockets.
func reserve(int) error { return nil }
