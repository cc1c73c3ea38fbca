//go:build !linux

package machine

// Main has nothing to do: Check says that there are no machines here.
func Main() {}
