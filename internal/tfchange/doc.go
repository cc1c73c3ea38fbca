// Package tfchange says what a change of each attribute of a resource of the
// Terraform provider does to the object in the engine: the engine takes it at
// once, keeps it for the next start of a VM, or needs another object.
//
// It is one table. The schema of the provider takes its plan modifiers from it,
// so that an attribute replaces an object only if the table says so; the
// documentation shows it; and the guard of the manager's plans explains with it
// what a plan would lose. The package imports nothing, so that all can use it.
package tfchange
