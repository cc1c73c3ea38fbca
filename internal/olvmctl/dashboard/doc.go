// Package dashboard serves a page about a management cluster: its clusters, their machines and VMs, their history, and
// the reasons for waiting. It watches objects with the rights of a kubeconfig, and changes nothing. With the
// credentials of the clusters, it also asks their engines. Package localpage serves the page, and package clustertree
// finds the parts of a cluster.
package dashboard
