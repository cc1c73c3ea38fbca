// Package userdataserver delivers user data to its VMs.
//
// User data is stored in clear in the engine's database and in Terraform's state, and the engine shows it with the VM.
// With a pointer, these places contain only a token: the VM fetches the data itself, over TLS, once. Until then, the
// data is in a Secret of the machine. After the delivery, it is removed.
package userdataserver
