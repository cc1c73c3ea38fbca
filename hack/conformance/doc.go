// Package conformance holds tests that let software which we did not write use the engine simulator: if it cannot, the
// simulator is wrong, or what it cannot is listed here with the reason.
//
//   - go-ovirt-client v3.2.0: its own test suite, and tests of ours that make every call of the released ovirt/ovirt
//     provider 2.2.0. That provider is this client plus schemas; it is not available as a module itself, so this is as
//     close to it as a Go test comes.
//
// - The JSON calls of Oracle's CLI for images. Its code is not available as a module: the calls are written down here.
//   - libgovirt, by its Python bindings, where they are installed.
//
// This is a module of its own because these clients must never be in the go.mod of the product. The simulator runs as a
// process that is built from the module around; OVIRTSIM_CONNECTION names the connection file of one that runs already.
package conformance
