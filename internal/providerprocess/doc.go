// Package providerprocess serves Terraform's provider from a child of the manager.
//
// A provider acts on a configuration and a state, and both contain text of tenants, engines and guests. The child has
// nothing worth stealing: no Kubernetes token and no password. It can read no files except the resolver's configuration
// and CA bundles. It can open no TCP connections except to port 53 and to the ports of its engines. Landlock denies
// everything else it can. For each run, the manager lends the child the session of one engine, and takes it back at the
// end.
//
// One child serves all runs, because starting one for each would cost more than the run. A child cannot get another
// port: a run with another port gets a new child, and the old one ends with its last run.
package providerprocess
