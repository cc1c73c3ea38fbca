// Package control has what tests and people see and do besides the engine's API, in Go, over HTTP and on a page:
// requests that came in, faults, the state of all objects, and hosts and VMs that fail.
package control
