// Package planreport is what a plan says: one model, and its text, Markdown and
// JSON. It asks nobody, and nothing of a stranger can forge a line of it.
package planreport

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/plaintext"
)

// Report is what manifests would change.
type Report struct {
	Summary Summary `json:"summary"`
	// ComparedWith says what the manifests were compared with, and Deletions whether deletions were looked at.
	ComparedWith string `json:"comparedWith,omitempty"`
	Deletions    string `json:"deletions,omitempty"`
	// CheckedBy says who has checked the manifests.
	CheckedBy string `json:"checkedBy,omitempty"`
	// Notes say what the controllers do later, or not at all.
	Notes []string `json:"notes,omitempty"`
	// Pruned are the objects that would be deleted, because they are not in the manifests.
	Pruned   []Pruned      `json:"pruned,omitempty"`
	Machines []*Result     `json:"machines"`
	Owners   []OwnerChange `json:"owners"`
	// Capacity is what new VMs ask for against what engines have.
	Capacity []Capacity `json:"capacity"`
	// Changed is how many machines would be created, updated, replaced or destroyed, together.
	Changed int64 `json:"changed"`
	// Refused is how many cannot be made as they are asked for.
	Refused int `json:"refused"`

	// Color has what is destroyed written in red.
	Color bool `json:"-"`
}

// Findings are what a plan has found.
type Findings struct {
	Machines []*Result
	Owners   []OwnerChange
	Capacity []Capacity
	Pruned   []Pruned
	// Deletions, CheckedBy and Notes are those of the report.
	Deletions, CheckedBy string
	Notes                []string
	// Connected reports that a management cluster was read, and Offline that no engine was asked.
	Connected, Offline bool
}

// New counts what would change.
func New(found Findings) Report {
	out := Report{
		Machines:     append([]*Result{}, found.Machines...), // a list in JSON, also where it is empty
		Owners:       append([]OwnerChange{}, found.Owners...),
		Capacity:     append([]Capacity{}, found.Capacity...),
		Pruned:       found.Pruned,
		ComparedWith: found.comparedWith(),
		Deletions:    found.Deletions,
		CheckedBy:    found.CheckedBy,
		Notes:        found.Notes,
	}
	out.Summary = summarize(found.Machines, found.Owners)
	out.Summary.Objects = int64(len(found.Pruned))
	out.Changed, out.Refused = out.Summary.Changes(), int(out.Summary.Refused)

	if found.Offline && !found.Connected {
		out.Summary.Unknown = int64(len(found.Machines)) - out.Summary.Refused - out.Summary.Destroy
	}

	return out
}

// comparedWith says what the manifests were compared with.
func (f *Findings) comparedWith() string {
	switch {
	case f.Connected && f.Offline:
		return "Compared with the management cluster; no engine was asked (--offline)"
	case f.Connected:
		return "Compared with the management cluster and the engine"
	case f.Offline:
		return "Compared with nothing (--offline); what would change is not known"
	}

	return "Compared with the VMs of the engine alone; no rollout is seen without a management cluster (--kubeconfig)"
}

// HasChanges reports whether something would change.
func (r Report) HasChanges() bool { return r.Changed > 0 || len(r.Pruned) > 0 }

// WithoutIdlePlans returns the report for programs: the plans of machines that nothing becomes of are left out.
func (r Report) WithoutIdlePlans() Report {
	machines := r.Machines
	r.Machines = make([]*Result, 0, len(machines))

	for _, machine := range machines {
		copied := *machine
		if len(copied.Changes) == 0 && len(copied.Outside) == 0 {
			copied.Plan = nil
		}

		r.Machines = append(r.Machines, &copied)
	}

	return r
}

// Refusals is an error with the reason of the first refused machine of each owner: the machines of one owner are mostly
// refused for the same. It is nil where none is refused.
func (r Report) Refusals() error {
	if r.Refused == 0 {
		return nil
	}

	text := english.Plural(r.Refused, "machine is", "machines are") + " refused"
	seen := map[string]bool{}

	for _, m := range r.Machines {
		if m.Refused == "" || seen[m.From] {
			continue
		}

		seen[m.From] = true
		text += "\n" + m.Refused
	}

	return errors.New(text)
}

// paper is a text for a terminal.
type paper struct {
	text  strings.Builder
	color bool
}

// line adds a line, and what manifests have in it can do nothing to the terminal.
func (p *paper) line(text string) { p.text.WriteString(plaintext.Printable(text) + "\n") }

// alarm adds a line that nobody should read over.
func (p *paper) alarm(text string) {
	if p.color {
		p.text.WriteString("\x1b[31m" + plaintext.Printable(text) + "\x1b[0m\n")
		return
	}

	p.line(text)
}

// preface are the lines before the machines.
func (r Report) preface() []string {
	lines := append([]string{r.ComparedWith, r.Deletions, r.CheckedBy}, r.Notes...)

	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// WriteText writes the report for a terminal.
func (r Report) WriteText(out io.Writer) error {
	p := &paper{color: r.Color}

	for _, line := range r.preface() {
		p.line(plaintext.OneLine(line) + ".")
	}

	if r.ComparedWith != "" {
		p.line("")
	}

	for _, group := range groupSame(r.Machines) {
		group.write(p)
	}

	for _, pruned := range r.Pruned {
		p.alarm(plaintext.OneLine(pruned.String()) + " would be deleted: it is not in the manifests")
	}

	for _, owner := range r.Owners {
		if owner.Deleted > 0 {
			p.alarm(plaintext.OneLine(owner.String()))
		} else {
			p.line(plaintext.OneLine(owner.String()))
		}

		for _, difference := range owner.Differences {
			p.line("    " + plaintext.OneLine(difference))
		}
	}

	for _, capacity := range r.Capacity {
		p.line(plaintext.OneLine(capacity.String()))
	}

	p.line(r.Summary.String())
	_, err := io.WriteString(out, p.text.String())

	return err
}

// outside is a line about what was changed in the engine; empty where nothing was.
func (r *Result) outside() string {
	if len(r.Outside) == 0 {
		return ""
	}

	var words []string
	for _, drift := range r.Outside {
		words = append(words, drift.String())
	}

	return "Changed in the engine since it was applied: " + strings.Join(words, "; ") + "\n"
}

// summary is what would become of the machine, in words.
func (r *Result) summary() string {
	switch {
	case r.Refused != "":
		return "refused: " + r.Refused
	case r.Destroyed != "":
		return "destroyed: " + r.Destroyed + r.LostDisks()
	case r.MayGo != "":
		return "may be destroyed: " + r.MayGo + r.LostDisks()
	case r.Gone:
		return Gone
	case r.Replaced != "":
		return "replaced: " + r.Replaced
	case r.Replaces != "":
		return "new, in place of another" // its name is beside that of the machine
	case len(r.Changes) == 0 && r.Plan == nil:
		return r.Text // offline
	case len(r.Changes) == 0:
		return "no change"
	}

	counts := map[string]int{}
	var order []string

	for _, change := range r.Changes {
		if counts[change.Action]++; counts[change.Action] == 1 {
			order = append(order, change.Action)
		}
	}

	var words []string
	for _, action := range order {
		words = append(words, fmt.Sprintf("%s %d", action, counts[action]))
	}

	return strings.Join(words, ", ")
}
