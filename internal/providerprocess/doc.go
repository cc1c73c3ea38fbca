// Package providerprocess serves the Terraform provider from a child process of the manager.
//
// A provider works on a configuration and a state. Both contain text from tenants, engines and guests. The child holds
// nothing worth stealing: neither a Kubernetes token nor a password. It can read no files except the resolver's
// configuration and CA bundles. It can open TCP connections only to port 53 and to the ports of its engines. Landlock
// denies all other access that it can deny. For each run, the manager lends the child the session of one engine, and
// takes this session back at the end.
//
// One child serves all runs, because starting a child for each run would cost more than the run itself. A child cannot
// get another port later. A run with another port gets a new child, and the old child ends with its last run.
package providerprocess
