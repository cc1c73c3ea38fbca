// Package conformance tests the engine simulator with foreign software. If such software fails, either the simulator is
// wrong, or this list contains the gap with its reason.
//
//   - go-ovirt-client v3.2.0: its own test suite, and tests of ours with every call of the released ovirt/ovirt
//     provider 2.2.0. That provider is this client plus schemas; it is not available as a module itself, so no Go test
//     comes closer.
//   - The JSON calls of Oracle's CLI for images. Its code is not available as a module: the tests contain the calls.
//   - libgovirt, by its Python bindings, if they are installed.
//
// This is a separate module because these clients must never be in the go.mod of the product. The simulator runs as a
// process built from the surrounding module. To use a running simulator, set OVIRTSIM_CONNECTION to its connection
// file.
package conformance
