// Package resolve is the one path from API objects to render.Machine: names
// become the engine's UUIDs, defaults are filled in, sizes are read. The
// controllers and olvmctl both take it, so that preview and apply cannot
// diverge.
//
// It asks the engine and nothing else; objects are handed in.
package resolve
