// Package dashboard is the page of a management cluster: its clusters, their machines and VMs, their history, and waits
// between them. It watches objects with the rights of a kubeconfig, and changes nothing. With the clusters'
// credentials, it also asks their engines. Package localpage serves pages, and clustertree finds the parts of a
// cluster.
package dashboard
