package preview

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// Report is what manifests would change.
type Report struct {
	Machines []*Result     `json:"machines"`
	Owners   []OwnerChange `json:"owners"`
	// Capacity is what new VMs ask for against what engines have.
	Capacity []Capacity `json:"capacity"`
	// Changed is how many machines would be made, changed, replaced or deleted.
	Changed int64 `json:"changed"`
	// Refused is how many cannot be made as they are asked for.
	Refused int `json:"refused"`

	offline bool
}

// NewReport counts the changes. offline reports that no engine was asked.
func NewReport(machines []*Result, owners []OwnerChange, capacity []Capacity, offline bool) Report {
	out := Report{
		Machines: append([]*Result{}, machines...), // a list in JSON, also where it is empty
		Owners:   append([]OwnerChange{}, owners...),
		Capacity: append([]Capacity{}, capacity...),
		offline:  offline,
	}
	for _, machine := range machines {
		switch {
		case machine.Refused != "":
			out.Refused++
		case machine.Changed():
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
	refused := ""
	if r.Refused > 0 {
		refused = fmt.Sprintf(", %s refused", humanize.Comma(int64(r.Refused)))
	}

	if r.offline && r.Changed == 0 {
		return machines + refused + "; what would change is not known offline"
	}

	return fmt.Sprintf("%s, %s would change%s", machines, humanize.Comma(r.Changed), refused)
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

// WriteText writes the report for a terminal.
func (r Report) WriteText(out io.Writer) error {
	var text strings.Builder

	shown := map[string]string{} // the first machine of each plan

	for _, m := range r.Machines {
		cluster := "cluster " + m.Cluster
		if m.Cluster == "" {
			cluster = "of no cluster"
		}

		title := oneLine(fmt.Sprintf("%s/%s of %s (%s, addresses: %s)", m.Namespace, m.Name, m.From, cluster,
			strings.Join(m.Addresses, ", ")))
		if m.VM != "" {
			title += ", on VM " + m.VM + " of the inventory"
		}

		if m.Replaces != "" {
			title += ", in place of " + m.Replaces
		}

		if m.Refused == "" && !m.Changed() && m.Plan != nil {
			fmt.Fprintf(&text, "%s: nothing would change\n%s\n", title, m.outside())
			continue
		}

		plan := m.impersonal()
		if first := shown[plan]; first != "" && len(m.Changes) > 0 && m.Replaces == "" {
			fmt.Fprintf(&text, "%s: as %s, but for its own name and addresses\n%s\n", title, first, m.outside())
			continue
		}

		shown[plan] = m.Namespace + "/" + m.Name
		body := strings.TrimRight(m.Text, "\n")
		if m.Refused != "" {
			body = "REFUSED: " + oneLine(m.Refused)
		}

		fmt.Fprintf(&text, "%s\n%s\n%s\n%s\n", title, strings.Repeat("-", len(title)), body, m.outside())
	}

	for _, owner := range r.Owners {
		fmt.Fprintln(&text, oneLine(owner.String()))
	}

	for _, capacity := range r.Capacity {
		fmt.Fprintln(&text, oneLine(capacity.String()))
	}

	fmt.Fprintln(&text, r.total())
	_, err := io.WriteString(out, Printable(text.String()))

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
