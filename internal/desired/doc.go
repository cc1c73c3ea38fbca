// Package desired is the only path from API objects to the rendered configuration. It resolves names to the engine's
// UUIDs, fills in defaults and reads sizes. The controllers and olvmctl both use it, so preview and apply cannot
// diverge.
//
// Build is the path. It asks only the engine; the caller supplies the objects. internal/placement decides where to make
// a VM, and internal/addressing chooses its addresses.
package desired
