// Package desired is the only way from API objects to the rendered configuration. It resolves names to the engine's
// UUIDs, fills in defaults and parses sizes. Both the controllers and olvmctl use it, so a preview shows what an apply
// does.
//
// Build is the entry point. It sends requests only to the engine, and the caller supplies the objects.
// internal/placement decides where to create a VM, and internal/addressing chooses its addresses.
package desired
