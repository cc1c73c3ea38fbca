// Package fakeoci is an Oracle Cloud Infrastructure in memory: as much of it as Cluster API Provider OCI and olvmctl
// call, in the types of Oracle's SDK. Bodies are decoded strictly into these types, references must exist, what is
// referred to cannot be deleted, retry tokens make a request once, lists have pages, and a request that is not signed
// by the configured user is refused; the signature itself is not verified. Launched instances boot the guests of the
// engine simulator, which become nodes.
//
// It is made from the SDK and its documentation. Nothing of it was recorded at a running cloud.
package fakeoci
