// Package guestnet runs the services that the user data of nodes configures. It uses the real programs in the nodes'
// images: keepalived, haproxy and nginx. Each node has its own namespaces for network, mounts and processes.
// Replacements for API servers answer /readyz and list the nodes.
package guestnet
