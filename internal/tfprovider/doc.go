// Package tfprovider is our implementation of the oVirt Terraform provider, based on internal/engine. It has the
// resource names, attributes and state of the released ovirt/ovirt 2.2.
//
// In several situations, the released provider loses machines and this one does not. It escapes text, and looks for the
// object after a lost answer to a create. Starting a running VM succeeds. Every wait ends, and can be interrupted. A
// change of memory reaches the engine.
//
// Serve runs one endpoint in this process, for one Terraform run. cmd/terraform-provider-ovirt serves the same provider
// as a plugin.
package tfprovider
