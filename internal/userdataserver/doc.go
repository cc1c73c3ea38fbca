// Package userdataserver hands user data to the VMs that it is for.
//
// User data stands in clear in the engine's database, in Terraform's state and
// where the engine shows VMs. With a pointer only a token stands there: the VM
// fetches the data itself, over TLS, once. Until then it is in a Secret of the
// machine; what has been fetched is removed from it.
package userdataserver
