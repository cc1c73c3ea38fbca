//go:build !linux

package localplane

// reserve does nothing, because other systems have no abstract sockets.
func reserve(string) error { return nil }

func release(string) {}
