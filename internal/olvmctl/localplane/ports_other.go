//go:build !linux

package localplane

// reserve does nothing: other systems have no abstract sockets.
func reserve(string) error { return nil }

func release(string) {}
