// Package ovirtsim simulates an oVirt engine, as vcsim does for vSphere. It simulates the REST API over TLS with OAuth,
// the inventory, and the state machines of VMs. It validates requests strictly. So a client that works with the
// simulator is likely to work with a real engine.
//
// It has several packages. Each package imports only those before it:
//
//   - wire: documents, and the model of the API
//   - store: objects
//   - inventory: the initial contents of an engine
//   - api: the engine's responses, and their effects
//   - control: faults, requests, the page
//
// The package itself combines them.
//
// The interface Guest hides the inside of a VM. internal/ovirtsim/guest turns a started VM into a Kubernetes node. Such
// a node gets all its data from the engine.
//
// The package is for tests, the demo and cmd/ovirtsim; the manager never imports it.
package ovirtsim
