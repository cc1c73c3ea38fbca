// Package support decides what the support services of a cluster are: which VMs
// they have, what their guests are told at the first boot, and the
// configuration that the guests fetch from the manager afterwards. It asks no
// engine, and of the API server no more than the objects of a cluster.
package support
