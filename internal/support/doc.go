// Package support plans the support services of a cluster. It determines their VMs, the user data for the first boot,
// and the configuration that the VMs fetch from the manager afterwards. It connects to no engine. From the API server,
// it reads only the objects of a cluster.
package support
