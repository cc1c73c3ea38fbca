// Package userdataserver delivers user data to VMs.
//
// Without this package, the engine's database and Terraform's state contain the user data as clear text, and the engine
// shows it with the VM. With a pointer, these places contain only a token. The VM itself fetches the data once, over
// TLS. Until then, the data is in a Secret of the machine. The server removes it after the delivery.
package userdataserver
