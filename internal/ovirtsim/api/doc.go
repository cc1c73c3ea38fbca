// Package api answers the requests of the REST API as an oVirt engine does, and lets happen what they set going: VMs
// that start, disks that are copied, hosts that fail. A file has a kind of object. What runs in VMs is behind the
// interface Guest.
package api
