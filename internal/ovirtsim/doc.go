// Package ovirtsim simulates an oVirt engine, as vcsim does for vSphere: its
// REST API over TLS with OAuth, its inventory, and the state machines of its
// VMs. It is strict about what it is sent, so that a client that works against
// it has a fair chance with a real engine.
//
// It has rooms, and each imports only those before it: wire (documents, and the
// model of the API), store (objects), inventory (what an engine begins with),
// api (what it answers, and what happens then), control (faults, requests, the
// page). The package itself puts them together.
//
// What happens inside a VM is behind the Guest interface; internal/ovirtsim/guest
// turns a started VM into a Kubernetes node. It learns everything from the engine.
//
// The package is for tests, the demo and cmd/ovirtsim; the manager never
// imports it.
package ovirtsim
