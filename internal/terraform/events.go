package terraform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

const (
	// maxLine limits one line of output in bytes. The writer drops longer lines completely.
	maxLine = 1 << 20
	// maxDiagnostics limits the number of errors kept per run.
	maxDiagnostics = 8
	// maxDiagnostic limits the text of one error in bytes.
	maxDiagnostic = 2048
	// maxStderr limits the standard error in bytes. It leaves room for a stack trace.
	maxStderr = 1 << 20
)

// Change is a planned change to one resource.
type Change struct {
	Address string `json:"address"`
	Type    string `json:"type"`
	// Action is create, update, delete, replace, read, move, import or noop.
	Action string `json:"action"`
}

// String describes the change for users, such as "create ovirt_vm.this".
func (c Change) String() string { return c.Action + " " + c.Address }

// event is a line of the executor's JSON output.
type event struct {
	Type       string `json:"type"`
	Diagnostic struct {
		Severity string `json:"severity"`
		Summary  string `json:"summary"`
		Detail   string `json:"detail"`
		Address  string `json:"address"`
	} `json:"diagnostic"`
	Change struct {
		Resource resourceJSON `json:"resource"`
		Action   string       `json:"action"`
	} `json:"change"`
	Hook struct {
		Resource resourceJSON `json:"resource"`
		IDValue  string       `json:"id_value"`
	} `json:"hook"`
	Changes struct {
		Add       int    `json:"add"`
		Change    int    `json:"change"`
		Remove    int    `json:"remove"`
		Import    int    `json:"import"`
		Operation string `json:"operation"`
	} `json:"changes"`
}

// eventWriter parses the executor's JSON output as it arrives. It needs only limited memory for any amount of output.
type eventWriter struct {
	redact  func(string) string
	onApply func(address, id string)
	// check returns an error to refuse a planned change, and with it the plan. A nil check accepts all changes.
	check func(resource resourceJSON, change Change) error
	// onPlanned is called when the plan is complete, with nil or the reason for its refusal. It may be nil. It is not
	// called for a plan applied from a file, because the executor does not report such a plan again.
	onPlanned func(refused error)

	mu          sync.Mutex
	line        []byte
	overlong    bool
	diagnostics []Diagnostic
	planned     []Change
	refused     error // the first error of check
	applied     int
	summary     struct{ add, change, remove, imported int }
}

func (w *eventWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	total := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		part := p
		if end >= 0 {
			part, p = p[:end], p[end+1:]
		} else {
			p = nil
		}

		if len(w.line)+len(part) > maxLine {
			w.overlong, w.line = true, w.line[:0]
		}

		if !w.overlong {
			w.line = append(w.line, part...)
		}

		if end >= 0 {
			if !w.overlong {
				w.handleEvent(w.line)
			}

			w.line, w.overlong = w.line[:0], false
		}
	}

	return total, nil
}

func (w *eventWriter) handleEvent(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		return
	}

	switch e.Type {
	case "diagnostic":
		if e.Diagnostic.Severity == "error" && len(w.diagnostics) < maxDiagnostics {
			w.diagnostics = append(w.diagnostics, Diagnostic{
				Summary: w.cleanText(e.Diagnostic.Summary),
				Detail:  w.cleanText(e.Diagnostic.Detail),
				Address: e.Diagnostic.Address,
			})
		}
	case "planned_change":
		w.recordPlanned(e.Change.Resource, Change{
			Address: e.Change.Resource.Addr,
			Type:    e.Change.Resource.Type,
			Action:  e.Change.Action,
		})
	case "apply_complete":
		w.applied++
		if w.onApply != nil {
			w.onApply(e.Hook.Resource.Addr, e.Hook.IDValue)
		}
	case "change_summary":
		w.summary.add = e.Changes.Add
		w.summary.change = e.Changes.Change
		w.summary.remove = e.Changes.Remove
		w.summary.imported = e.Changes.Import
		if e.Changes.Operation == "plan" && w.onPlanned != nil {
			w.onPlanned(w.refused)
		}
	}
}

// recordPlanned records a planned change.
func (w *eventWriter) recordPlanned(resource resourceJSON, change Change) {
	w.planned = append(w.planned, change)
	if w.check == nil || w.refused != nil {
		return
	}

	if w.refused = w.check(resource, change); w.refused != nil && w.onPlanned != nil {
		w.onPlanned(w.refused)
	}
}

func (w *eventWriter) cleanText(text string) string {
	text = w.redact(text)
	if len(text) > maxDiagnostic {
		text = strings.ToValidUTF8(text[:maxDiagnostic], "") + " ..."
	}

	return text
}

// errTalkative interrupts a run that writes too much output.
var errTalkative = fmt.Errorf("it wrote more than %d KiB to its standard error", maxStderr>>10)

// limitedWriter accepts a limited number of bytes, and then calls full.
type limitedWriter struct {
	left int
	full func()
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		w.full()
		return 0, errTalkative
	}

	return len(p), nil
}
