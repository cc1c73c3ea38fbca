// Package ovirtsim simulates an oVirt engine, as vcsim does for vSphere: its REST API over TLS with OAuth, its
// inventory, and the state machines of its VMs. It validates requests strictly. So a client working against it has a
// fair chance with a real engine.
//
// It has several packages, and each imports only those before it:
//
//   - wire: documents, and the model of the API
//   - store: objects
//   - inventory: the initial contents of an engine
//   - api: the engine's responses, and their effects
//   - control: faults, requests, the page
//
// The package itself combines them.
//
// The inside of a VM is behind the Guest interface. internal/ovirtsim/guest turns a started VM into a Kubernetes node.
// It gets all its data from the engine.
//
// The package is for tests, the demo and cmd/ovirtsim; the manager never imports it.
package ovirtsim
