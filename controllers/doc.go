// Package controllers holds the controllers of the manager, each in its own package:
//
//   - machine creates one VM for each OLVMMachine, with Terraform.
//   - cluster checks the endpoint and the engine of each OLVMCluster, and creates its machines' affinity groups.
//   - supportservices creates the VMs of load balancers, jump hosts and OIDC servers.
//   - inventory assigns the VMs of inventories to machines, and inventoryvm creates and deletes such VMs.
//   - machinetemplate reports the capacity of OLVMMachineTemplates, for autoscalers to scale from zero.
//   - node sets the provider IDs of Nodes in workload clusters, and approves serving certificates of kubelets.
//   - remediation reboots the VMs of unhealthy machines.
//   - access keeps the Secrets and ConfigMaps named by OLVMClusters until no OLVMCluster needs them.
//   - state releases the Terraform states of deleted objects.
//
// All controllers with a status share one frame, pass.Controller. It reads the object, checks the watch label and the
// pause, limits the reconciles per engine, and writes the object. Each controller provides a function to open a pass.
// It returns the checks and the work of this pass.
//
// Phases gather facts into a scope, and the status file alone turns facts into conditions. Terraform runs belong to
// internal/workspace, and facts about engines to internal/enginepool.
//
// The tests in this package run all controllers together, against a real kube-apiserver and the engine simulator.
package controllers
