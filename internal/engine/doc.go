// Package engine is a client of the oVirt engine's REST API (version 4). It has one authenticated session per set of
// credentials, look-ups by name, and the calls needed for machines.
//
// A Client is safe for concurrent use. Every request has a timeout. Starting an operation and waiting for its end are
// two calls. Errors are typed: Fault (the engine refused), AuthError, TLSError, UnreachableError and NameError.
// CancelledError comes from the caller.
//
// The package does not decide on machines; see controllers and internal/tfprovider.
package engine
