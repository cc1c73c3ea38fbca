// Package terraform drives the executor, which is Terraform or OpenTofu. It finds the executor, prepares working
// directories, runs and guards plans, and returns typed diagnostics. No other package imports terraform-exec.
//
// Executor performs one run and waits for its end. Runner queues runs as jobs with bounded concurrency, so that no
// reconcile worker waits for Terraform.
//
// The caller loads and saves the state; see internal/tfstate.
package terraform
