// Package dashboard is the page of a management cluster: its clusters, their machines and VMs, what happened to them,
// and what waits for what. It watches objects with the rights of a kubeconfig, and changes nothing. With the
// credentials of the clusters it asks their engines, too. How a page is served belongs to localpage, and what a cluster
// consists of to clustertree.
package dashboard
