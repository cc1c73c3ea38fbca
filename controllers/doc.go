// Package controllers holds the controllers of the manager, each in its own package:
//
//   - machine creates one VM for each OLVMMachine, with Terraform.
//   - cluster checks the endpoint and the engine of each OLVMCluster, and creates its machines' affinity groups.
//   - machinetemplate reports the capacity of OLVMMachineTemplates, for autoscalers to scale from zero.
//   - node sets the provider IDs of Nodes in workload clusters, and approves serving certificates of kubelets.
//   - access keeps the Secrets and ConfigMaps named by OLVMClusters until no OLVMCluster needs them.
//
// Reconcile only orders the phases. Phases gather facts into a scope, and the status file alone turns facts into
// conditions. Terraform runs belong to internal/workspace, and facts about engines to internal/enginepool.
//
// The tests in this package run all controllers together, against a real kube-apiserver and the engine simulator.
package controllers
