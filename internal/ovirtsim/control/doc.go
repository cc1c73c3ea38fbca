// Package control lets tests and users observe and influence the engine beyond its API, in Go, over HTTP and on a page.
// It covers received requests, faults, the state of all objects, and failures of hosts and VMs.
package control
