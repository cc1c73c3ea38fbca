// Package wire defines the requests and responses of the simulator. It encodes XML and JSON, builds references between
// objects, and defines error responses. It validates documents against the API's published model. It depends neither on
// the store nor on the engine's behavior.
//
// It deliberately shares no code with internal/engine. If the client misspells an element, the simulator therefore
// rejects it.
package wire
