package terraform

import (
	"fmt"
	"strings"
)

// Diagnostic is an error that the executor reported.
type Diagnostic struct {
	Summary, Detail string
	// Address of the resource; empty where it is not about one.
	Address string
}

// DiagnosticError says that a run failed, in the executor's words. Secrets are redacted.
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

// GuardError says that a plan would do what a live machine must not suffer. Nothing was applied.
type GuardError struct {
	// Address of the resource, and what the plan would do to it: delete, replace or create.
	Address, Action string
	// Attributes that force a replacement, where that is the reason.
	Attributes []string
}

func (e *GuardError) Error() string {
	text := fmt.Sprintf("the plan would %s %s", e.Action, e.Address)
	if len(e.Attributes) > 0 {
		text += " because of " + strings.Join(e.Attributes, ", ")
	}
	return text + "; nothing was applied"
}
