// Package terraform drives the executor, Terraform or OpenTofu: finding it,
// working directories, runs, the plan guard, and typed diagnostics. It is the
// only importer of terraform-exec.
//
// Executor does one run and waits for it. Runner queues runs as jobs with
// bounded concurrency, so that no reconcile worker waits for Terraform.
//
// Where state comes from and goes to is the caller's affair: see
// internal/tfstate.
package terraform
