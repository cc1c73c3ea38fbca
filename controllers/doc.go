// Package controllers reconciles OLVMClusters, OLVMMachines and
// OLVMMachineTemplates, and looks after the Nodes of workload clusters.
//
// Reconcile holds order only. Phases gather facts into a scope; decide, a pure
// function, says what to do next; the status files alone turn facts into
// conditions. Terraform runs are jobs of internal/terraform: a reconcile
// submits or observes one and returns, and the job's end wakes the object.
//
// How a VM is rendered, run, or asked about is in the packages below.
package controllers
