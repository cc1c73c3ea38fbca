// Package tfchange holds a table of the attributes of the Terraform provider's resources. For each attribute, the table
// has the effect of a change on the object in the engine: it takes effect at once, it waits for the next start of the
// VM, or it needs another object.
//
// The schema of the provider takes its plan modifiers from the table, so an attribute replaces an object only if the
// table says so. The documentation shows the table. The guard of the manager uses it to explain the losses of a plan.
// The package imports nothing, so all others can import it.
package tfchange
