// Package engine is a client of the oVirt engine's REST API (version 4). It has one authenticated session per set of
// credentials, look-ups by name, and the calls needed for machines.
//
// A Client is safe for concurrent use. Every request has a timeout. One call starts an operation, and another call
// waits for its end. Errors are typed: Fault (the engine refused), AuthError, TLSError, UnreachableError and NameError.
// A CancelledError means that the caller canceled the request.
//
// The package makes no decisions about machines; see controllers and internal/tfprovider.
package engine
