// Package api answers requests of the REST API like an oVirt engine, and simulates their effects: starting VMs, copying
// disks, failing hosts. Each kind of object has its file. The inside of VMs is behind the interface Guest.
package api
