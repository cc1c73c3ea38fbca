// Package support plans the support services of a cluster: their VMs, the user data for the guests' first boot, and the
// configuration fetched by the guests from the manager afterwards. It uses no engine, and reads only the objects of a
// cluster from the API server.
package support
