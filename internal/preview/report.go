package preview

import (
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// Report is what manifests would change.
type Report struct {
	Machines []*Result     `json:"machines"`
	Owners   []OwnerChange `json:"owners"`
	// Changed is how many machines would be made, changed, replaced or deleted.
	Changed int64 `json:"changed"`

	offline bool
}

// NewReport counts the changes. offline reports that no engine was asked.
func NewReport(machines []*Result, owners []OwnerChange, offline bool) Report {
	out := Report{
		Machines: append([]*Result{}, machines...), // a list in JSON, also where it is empty
		Owners:   append([]OwnerChange{}, owners...),
		offline:  offline,
	}
	for _, machine := range machines {
		if machine.Changed() {
			out.Changed++
		}
	}

	for _, owner := range owners {
		out.Changed += owner.Deleted
	}

	return out
}

// total is the last line of a report.
func (r Report) total() string {
	machines := english.Plural(len(r.Machines), "machine", "")
	if r.offline && r.Changed == 0 {
		return machines + "; what would change is not known offline"
	}

	return fmt.Sprintf("%s, %d would change", machines, r.Changed)
}

// WriteText writes the report for a terminal.
func (r Report) WriteText(out io.Writer) error {
	var text strings.Builder

	for _, m := range r.Machines {
		title := fmt.Sprintf("%s/%s of %s (cluster %s, addresses: %s)", m.Namespace, m.Name, m.From, m.Cluster,
			strings.Join(m.Addresses, ", "))
		if m.Replaces != "" {
			title += ", in place of " + m.Replaces
		}

		fmt.Fprintf(&text, "%s\n%s\n%s\n", title, strings.Repeat("-", len(title)), strings.TrimRight(m.Text, "\n")+"\n")
	}

	for _, owner := range r.Owners {
		fmt.Fprintln(&text, owner)
	}

	fmt.Fprintln(&text, r.total())
	_, err := io.WriteString(out, text.String())

	return err
}

// WriteMarkdown writes the report for a comment on a pull request: a table, and the plans folded away.
func (r Report) WriteMarkdown(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "### Plan: %s\n\n", r.total())

	for _, owner := range r.Owners {
		fmt.Fprintf(&text, "- %s\n", escapeCell(owner.String()))
	}

	if len(r.Owners) > 0 {
		text.WriteString("\n")
	}

	text.WriteString("| machine | of | cluster | addresses | what |\n|---|---|---|---|---|\n")

	for _, m := range r.Machines {
		fmt.Fprintf(&text, "| %s/%s | %s | %s | %s | %s |\n", m.Namespace, m.Name, m.From, m.Cluster,
			escapeCell(strings.Join(m.Addresses, ", ")), escapeCell(m.summary()))
	}

	for _, m := range r.Machines {
		if len(m.Changes) == 0 {
			continue
		}

		fence := "```"
		for strings.Contains(m.Text, fence) {
			fence += "`"
		}

		fmt.Fprintf(&text, "\n<details><summary>%s/%s</summary>\n\n%s\n%s\n%s\n\n</details>\n", m.Namespace, m.Name,
			fence, strings.TrimRight(m.Text, "\n"), fence)
	}

	_, err := io.WriteString(out, text.String())

	return err
}

// summary is what would become of the machine, in words.
func (r *Result) summary() string {
	switch {
	case r.Replaced != "":
		return "replaced: " + r.Replaced
	case r.Replaces != "":
		return "new, in place of " + r.Replaces
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

// escapeCell keeps a text inside of its cell.
func escapeCell(text string) string {
	return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;").Replace(text)
}
