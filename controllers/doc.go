// Package controllers holds the controllers of the manager, each in a package of its own:
//
//   - machine gives each OLVMMachine one VM, through Terraform.
//   - cluster checks endpoint and engine of each OLVMCluster, and makes the affinity groups of its machines.
//   - machinetemplate reports the capacity of OLVMMachineTemplates, so that an autoscaler can scale from zero.
//   - node gives Nodes of workload clusters their provider IDs, and approves serving certificates of kubelets.
//   - access keeps the Secrets and ConfigMaps that OLVMClusters name until no OLVMCluster needs them.
//
// Reconcile holds order only. Phases gather facts into a scope, and the status file alone turns facts into conditions.
// Terraform runs belong to internal/workspace, and what is known of engines to internal/enginepool.
//
// The tests here run all controllers together, against a real kube-apiserver and the engine simulator.
package controllers
