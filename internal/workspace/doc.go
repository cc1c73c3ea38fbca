// Package workspace keeps one Terraform root per object: its state, its runs, and what is to be done next.
//
// A controller opens the workspace of its object once in a pass. Observe records a run that has ended and reads the
// state; Apply or Destroy decides, and queues a run where one is needed. A run is a job of its own: the pass returns,
// and the end of the job wakes the object.
//
// A Subject is what workspaces differ in: which configuration is rendered and what it adopts, which changes its guard
// refuses, whether the run is still wanted, and what an interrupted run may have left in the engine.
//
// How Terraform is driven is in internal/terraform, and how a state is stored in internal/tfstate.
package workspace
