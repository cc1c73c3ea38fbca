package terraform

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Diagnostic is an error reported by the executor.
type Diagnostic struct {
	Summary, Detail string
	// Address is the address of the resource, or "" if the error is not about a resource.
	Address string
}

// DiagnosticError reports a failed run with the executor's diagnostics. Secrets are redacted.
type DiagnosticError struct {
	// Phase is plan or apply.
	Phase       string
	Diagnostics []Diagnostic
}

func (e *DiagnosticError) Error() string {
	var parts []string

	for _, d := range e.Diagnostics {
		text := d.Summary
		if d.Detail != "" {
			text += ": " + d.Detail
		}

		if d.Address != "" {
			text = d.Address + ": " + text
		}

		parts = append(parts, strings.Join(strings.Fields(text), " "))
	}

	return fmt.Sprintf("terraform %s failed: %s", e.Phase, strings.Join(parts, "; "))
}

// GuardError reports that the guard refused a plan as too dangerous for a live machine. Nothing was applied.
type GuardError struct {
	// Address is the resource. Action is the planned action: delete, replace or create.
	Address, Action string
	// Attributes are the attributes that force a replacement, if any.
	Attributes []string
}

func (e *GuardError) Error() string {
	text := fmt.Sprintf("the plan would %s %s", e.Action, e.Address)
	if len(e.Attributes) > 0 {
		text += " because of " + strings.Join(e.Attributes, ", ")
	}

	return text + "; nothing was applied"
}

// TimeoutError reports a run interrupted after its time limit.
type TimeoutError struct {
	// Limit is the time limit of the run.
	Limit time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("it took longer than %s; the next run goes on where it ended", e.Limit)
}

// DiskFullError reports that the disk of the working directories is full. The run has not begun.
type DiskFullError struct {
	// Dir is the directory on the full disk.
	Dir string
	Err error
}

func (e *DiskFullError) Error() string {
	return fmt.Sprintf(
		"the disk of the working directory %s is full (%v): make room, or give the manager's "+
			"--work-dir a larger volume",
		e.Dir,
		e.Err,
	)
}

func (e *DiskFullError) Unwrap() error { return e.Err }

// KilledError reports that something killed the executor.
type KilledError struct {
	// Phase is plan or apply.
	Phase  string
	Signal os.Signal
}

func (e *KilledError) Error() string {
	return fmt.Sprintf(
		"terraform %s was killed (%v): most often because memory ran out; raise the manager's memory limit, or "+
			"lower --terraform-concurrency",
		e.Phase,
		e.Signal,
	)
}

// StateVersionError reports that a newer executor has written the state. The run has not begun.
type StateVersionError struct {
	// Written is the version of the newer executor.
	Written  string
	Executor Executable
}

func (e *StateVersionError) Error() string {
	return fmt.Sprintf(
		"the state was written by version %s and this manager runs %s %s, which may not know all that is in it: run "+
			"that version or a later one",
		e.Written, e.Executor.Product, e.Executor.Version,
	)
}
