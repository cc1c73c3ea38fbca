// Package api answers requests of the REST API like an oVirt engine, and simulates their effects: starting VMs, copying
// disks, failing hosts. Each kind of object has its own file. The interface Guest hides the inside of the VMs.
package api
