// Package terraform drives the executor, Terraform or OpenTofu. It finds the executor, prepares working directories,
// runs and guards plans, and returns typed diagnostics. No other package imports terraform-exec.
//
// Executor does one run and waits for it. Runner queues runs as jobs with bounded concurrency, so no reconcile worker
// waits for Terraform.
//
// The caller loads and saves the state; see internal/tfstate.
package terraform
