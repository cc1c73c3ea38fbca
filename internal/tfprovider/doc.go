// Package tfprovider is our implementation of the oVirt Terraform provider:
// the same resource names, attributes and state shape as the released
// ovirt/ovirt 2.2, over internal/engine.
//
// Where the released provider loses machines, this one does not: text is
// escaped, a lost answer to a create is looked up, starting a VM that runs is
// no error, every wait has an end and can be interrupted, and a change of
// memory is sent to the engine.
//
// Serve runs one endpoint in this process, to which one Terraform run is
// attached. cmd/terraform-provider-ovirt is the same provider as a plugin.
package tfprovider
