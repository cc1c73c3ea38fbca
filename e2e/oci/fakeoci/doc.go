// Package fakeoci is an Oracle Cloud Infrastructure in memory. It serves the calls of Cluster API Provider OCI and
// olvmctl, and uses the types of Oracle's SDK. It decodes bodies strictly into these types. References must exist, and
// an object cannot be deleted while others refer to it. A request with a known retry token has no second effect. Lists
// have pages. Requests must name the key of the configured user, but the signature is not verified. Launched instances
// boot the guests of the engine simulator, and these become nodes.
//
// The package follows the SDK and its documentation. No part of it was recorded from a running cloud.
package fakeoci
