// Package wire defines the data on the wire: documents in XML and JSON, the published model of the API with their
// allowed content, references between objects, and refusals. It knows no objects and no engine.
//
// It shares nothing with internal/engine on purpose: an element misspelled by the client must fail against the
// simulator.
package wire
