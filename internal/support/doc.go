// Package support plans the support services of a cluster. It decides on their VMs, on the user data for the first
// boot, and on the configuration fetched from the manager afterwards. It uses no engine, and reads only the objects of
// a cluster from the API server.
package support
