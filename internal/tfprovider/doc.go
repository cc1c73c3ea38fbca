// Package tfprovider is this project's implementation of the oVirt Terraform provider, based on internal/engine. It has
// the resource names, attributes and state format of the released ovirt/ovirt 2.2.
//
// In several situations, the released provider loses machines and this one does not. This provider escapes text, and
// looks for the object if the answer to a create is lost. It does not fail if it starts a VM that already runs. Every
// wait has an end, and can be interrupted. A change of memory reaches the engine.
//
// Serve runs one endpoint in this process, for one Terraform run. cmd/terraform-provider-ovirt serves the same provider
// as a plugin.
package tfprovider
