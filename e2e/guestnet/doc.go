// Package guestnet runs what the user data of nodes sets up with the real
// programs of their images: keepalived, haproxy and nginx, each node in
// network, mount and process namespaces of its own. API servers are stand-ins
// that answer /readyz and list the nodes.
package guestnet
