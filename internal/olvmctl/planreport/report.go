// Package planreport models the output of a plan, and writes it as text, Markdown and JSON. It makes no requests.
// Untrusted manifests cannot forge a line of the output.
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

// Report describes the changes caused by manifests.
type Report struct {
	Summary Summary `json:"summary"`
	// ComparedWith describes what the manifests were compared with. Deletions reports whether the plan has looked for
	// deletions.
	ComparedWith string `json:"comparedWith,omitempty"`
	Deletions    string `json:"deletions,omitempty"`
	// CheckedBy names the source of the rules used to check the manifests.
	CheckedBy string `json:"checkedBy,omitempty"`
	// Notes are lines about work that the controllers do later, or not at all.
	Notes []string `json:"notes,omitempty"`
	// Pruned are the objects to delete, because the manifests do not contain them.
	Pruned   []Pruned      `json:"pruned,omitempty"`
	Machines []*Result     `json:"machines"`
	Owners   []OwnerChange `json:"owners"`
	// Capacity compares the needs of new VMs with the capacities of engines.
	Capacity []Capacity `json:"capacity"`
	// Changed is the total number of machines to create, update, replace or destroy.
	Changed int64 `json:"changed"`
	// Refused is the number of machines that cannot be created as requested.
	Refused int `json:"refused"`

	// Color prints destroyed machines in red.
	Color bool `json:"-"`
}

// Findings are the results of a plan.
type Findings struct {
	Machines []*Result
	Owners   []OwnerChange
	Capacity []Capacity
	Pruned   []Pruned
	// Deletions, CheckedBy and Notes become the fields of the same names in Report.
	Deletions, CheckedBy string
	Notes                []string
	// Connected is true if a management cluster was read. Offline is true if no engine was asked.
	Connected, Offline bool
}

// New counts the changes, and returns the report.
func New(found Findings) Report {
	out := Report{
		Machines:     append([]*Result{}, found.Machines...), // JSON has a list even if it is empty
		Owners:       append([]OwnerChange{}, found.Owners...),
		Capacity:     append([]Capacity{}, found.Capacity...),
		Pruned:       found.Pruned,
		ComparedWith: found.comparedWith(),
		Deletions:    found.Deletions,
		CheckedBy:    found.CheckedBy,
		Notes:        found.Notes,
	}
	out.Summary = countMachines(found.Machines, found.Owners)
	out.Summary.Objects = int64(len(found.Pruned))
	out.Changed, out.Refused = out.Summary.CountChanges(), int(out.Summary.Refused)

	if found.Offline && !found.Connected {
		out.Summary.Unknown = int64(len(found.Machines)) - out.Summary.Refused - out.Summary.Destroy
	}

	return out
}

// comparedWith describes what the manifests were compared with.
func (f *Findings) comparedWith() string {
	switch {
	case f.Connected && f.Offline:
		return "Compared with the management cluster, but not with an engine (--offline)"
	case f.Connected:
		return "Compared with the management cluster and the engine"
	case f.Offline:
		return "Not compared with a management cluster or an engine (--offline); the changes are unknown"
	}

	return "Compared only with the VMs in the engine; to see rollouts, specify a management cluster (--kubeconfig)"
}

// HasChanges reports whether anything would change.
func (r Report) HasChanges() bool { return r.Changed > 0 || len(r.Pruned) > 0 }

// WithoutIdlePlans returns the report for programs, without the plans of unchanged machines.
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

// RefusalError returns an error with the reason of the first refused machine of each owner. The machines of an owner
// mostly have the same reason. It returns nil if no machine is refused.
func (r Report) RefusalError() error {
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

// addLine adds a line. It replaces characters that could control the terminal, because lines contain text from
// manifests.
func (p *paper) addLine(text string) { p.text.WriteString(plaintext.Printable(text) + "\n") }

// addAlarm adds a line in red.
func (p *paper) addAlarm(text string) {
	if p.color {
		p.text.WriteString("\x1b[31m" + plaintext.Printable(text) + "\x1b[0m\n")
		return
	}

	p.addLine(text)
}

// prefaceLines returns the lines printed before the machines.
func (r Report) prefaceLines() []string {
	lines := append([]string{r.ComparedWith, r.Deletions, r.CheckedBy}, r.Notes...)

	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// WriteText writes the report for a terminal.
func (r Report) WriteText(out io.Writer) error {
	p := &paper{color: r.Color}

	for _, line := range r.prefaceLines() {
		p.addLine(plaintext.OneLine(line) + ".")
	}

	if r.ComparedWith != "" {
		p.addLine("")
	}

	for _, group := range groupSame(r.Machines) {
		group.writeTo(p)
	}

	for _, pruned := range r.Pruned {
		p.addAlarm(plaintext.OneLine(pruned.String()) + " would be deleted: it is not in the manifests")
	}

	for _, owner := range r.Owners {
		if owner.Deleted > 0 {
			p.addAlarm(plaintext.OneLine(owner.String()))
		} else {
			p.addLine(plaintext.OneLine(owner.String()))
		}

		for _, difference := range owner.Differences {
			p.addLine("    " + plaintext.OneLine(difference))
		}
	}

	for _, capacity := range r.Capacity {
		p.addLine(plaintext.OneLine(capacity.String()))
	}

	p.addLine(r.Summary.String())
	_, err := io.WriteString(out, p.text.String())

	return err
}

// outsideChanges returns a line about changes made directly in the engine, or "".
func (r *Result) outsideChanges() string {
	if len(r.Outside) == 0 {
		return ""
	}

	var words []string
	for _, drift := range r.Outside {
		words = append(words, drift.String())
	}

	return "Changed in the engine since the last apply: " + strings.Join(words, "; ") + "\n"
}

// describeFate returns what happens to the machine.
func (r *Result) describeFate() string {
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
		return "new, replaces another machine" // the row also names the replaced machine
	case len(r.Changes) == 0 && r.Plan == nil:
		return r.Text // the plan is offline
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
