// Package conformance tests the engine simulator with foreign software. If such software fails, either the simulator is
// wrong, or this list contains the gap with its reason.
//
//   - go-ovirt-client v3.2.0: its own test suite, and our tests with every call of the released ovirt/ovirt provider
//     2.2.0. That provider consists of this client and schemas. It is not available as a Go module, so no Go test can
//     run it.
//   - The JSON calls of Oracle's CLI for images. Its code is not available as a module: the tests contain the calls.
//   - libgovirt, through its Python bindings, if they are installed.
//
// This is a separate module because these clients must never be in the go.mod of the product. The simulator runs as a
// process built from the surrounding module. To use a running simulator, set OVIRTSIM_CONNECTION to its connection
// file.
package conformance
