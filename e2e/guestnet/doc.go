// Package guestnet runs the services configured by the user data of nodes with the real programs of their images:
// keepalived, haproxy and nginx. Each node has its own network, mount and process namespaces. Stand-ins for API servers
// answer /readyz and list the nodes.
package guestnet
