// Package wire defines the data that goes over the network. It contains documents in XML and JSON, the published model
// of the API with the allowed content of documents, references between objects, and refusals. It knows neither objects
// nor the engine.
//
// It shares no code with internal/engine on purpose, so that an element misspelled by the client fails with the
// simulator.
package wire
