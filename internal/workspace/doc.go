// Package workspace keeps one Terraform root per object: its state, its runs, and the decision on its next action.
//
// A controller opens its object's workspace once per pass. Observe records a finished run and reads the state. Apply or
// Destroy decides, and queues a run if needed. A run is a separate job: the pass returns, and the end of the job wakes
// the object.
//
// A Subject supplies the differences between workspaces. It renders the configuration with its adoptions and its guard,
// tells outdated runs, and removes the orphans of interrupted runs from the engine.
//
// internal/terraform drives Terraform, and internal/tfstate stores the states.
package workspace
