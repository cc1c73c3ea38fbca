// Package providerprocess serves Terraform's provider from a child of the
// manager.
//
// A provider does what a configuration and a state say, and both have text of
// tenants, engines and guests in them. The child has nothing worth taking: no
// token of Kubernetes, no password, no files except the resolver's
// configuration and CA bundles, and no TCP connections except to port 53 and to
// the ports of its engines. Landlock denies everything else that it can. For
// each run the manager lends it the session of one engine, and takes that back
// when the run ends.
//
// One child serves all runs, because starting one for each would cost more than
// the run. A port cannot be added to a child: a run that needs another one gets
// a new child, and the old one ends with its last run.
package providerprocess
