// Package userdataserver delivers user data to VMs.
//
// Without this package, the engine's database and Terraform's state contain the user data as clear text, and the
// engine's API returns it with the VM. With this package, they contain only a pointer: the URL of the server and a
// token. The VM fetches its user data once, over TLS. Until then, a Secret of the machine has the user data. The server
// removes the user data from the Secret after the delivery.
package userdataserver
