// Package workspace keeps one Terraform root per object. It stores its state, performs its runs, and decides about its
// next action.
//
// A controller opens its object's workspace once per pass. Observe records a finished run and reads the state. Apply or
// Destroy decides about the next action, and queues a run if necessary. A run is a separate job: the pass returns, and
// the end of the job wakes the object.
//
// A Subject has everything that differs between workspaces. It renders the configuration with its adoptions and its
// guard. It also recognizes outdated runs, and removes the orphans of interrupted runs from the engine.
//
// internal/terraform drives Terraform, and internal/tfstate stores the states.
package workspace
