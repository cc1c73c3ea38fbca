// Package engine is a client of the oVirt engine's REST API (version 4): one
// authenticated session per set of credentials, look-ups by name, and the
// calls that machines need.
//
// A Client is safe for concurrent use. Every request has a timeout. Starting
// an operation and waiting for its end are two calls. Errors are typed: Fault
// (the engine refused), AuthError, TLSError, UnreachableError, NameError; CancelledError is
// the caller's own.
//
// What to do with a machine is not decided here: see controllers and
// internal/tfprovider.
package engine
