// Package fakeoci is an Oracle Cloud Infrastructure in memory: the part called by Cluster API Provider OCI and olvmctl,
// in the types of Oracle's SDK. It decodes bodies strictly into these types. References must exist, and referenced
// objects cannot be deleted. Retry tokens make a request once, and lists have pages. Requests must name the configured
// user's key; the signature itself is not verified. Launched instances boot the guests of the engine simulator, which
// become nodes.
//
// It is built from the SDK and its documentation. Nothing in it was recorded from a running cloud.
package fakeoci
