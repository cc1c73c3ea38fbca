// Package desired is the one path from API objects to what is rendered: names become the engine's UUIDs, defaults are
// filled in, sizes are read. The controllers and olvmctl both take it, so that preview and apply cannot diverge.
//
// Build is that path. It asks the engine and nothing else; objects are handed in. Where a VM is made is in
// internal/placement, and which addresses it gets in internal/addressing.
package desired
