// Package wire has what goes over the wire: documents in XML and JSON, the published model of the API that says what
// they may hold, references between objects, and refusals. It knows no objects and no engine.
//
// None of it is shared with internal/engine on purpose: an element that the client spells wrongly must fail against the
// simulator.
package wire
