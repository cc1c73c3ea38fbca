package planreport

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/plaintext"
)

const (
	// maxMarkdown is the maximum number of bytes written by WriteMarkdown. A GitHub comment holds 65,536 characters.
	maxMarkdown = 60_000
	// maxTable is the maximum number of bytes of lists. The rest is for plans.
	maxTable = maxMarkdown / 2
	// maxLast is the number of bytes reserved for the lines about omissions.
	maxLast = 1000
)

// WriteMarkdown writes the report as a comment on a pull request: a table, and collapsed plans. It writes one plan for
// all machines whose plans differ only in names and addresses. If there is too little space for a part, it omits the
// part, and counts it. link is the URL of the full report, or "".
func (r Report) WriteMarkdown(out io.Writer, link string) error {
	c := &comment{}
	c.appendPart(maxMarkdown, fmt.Sprintf("### %s\n\n", r.Summary))

	left := 0

	for _, line := range r.prefaceLines() {
		if !c.appendPart(maxTable/4, escapeCell(line)+".\n\n") {
			left++
		}
	}

	c.recordOmitted(left, "note", "notes")

	if r.Summary.Destroy > 0 {
		c.appendPart(maxTable, fmt.Sprintf("> [!CAUTION]\n> **%s destroyed.** %s.\n\n",
			english.Plural(int(r.Summary.Destroy), "machine is", "machines are"),
			english.PluralWord(int(r.Summary.Destroy), "Its VM and disks are deleted",
				"Their VMs and disks are deleted")))
	}

	c.writePruned(r.Pruned)
	c.writeOwners(r.Owners)

	for _, capacity := range r.Capacity {
		c.appendPart(maxTable, escapeCell(capacity.String())+"\n\n")
	}

	c.writeTable(r.Machines)
	c.writePlans(r.Machines)
	c.writeOmissions(link)
	_, err := io.WriteString(out, c.text.String())

	return err
}

// comment is a text of limited length. It records the parts left out.
type comment struct {
	text strings.Builder
	left []string
}

// appendPart appends a part if the text then has at most most bytes. It reports whether it has appended the part.
func (c *comment) appendPart(most int, part string) bool {
	if c.text.Len()+len(part) > most {
		return false
	}

	c.text.WriteString(part)

	return true
}

// recordOmitted records the number of omitted parts.
func (c *comment) recordOmitted(count int, singular, plural string) {
	if count > 0 {
		c.left = append(c.left, english.Plural(count, singular, plural))
	}
}

// writePruned lists the objects to delete.
func (c *comment) writePruned(objects []Pruned) {
	left := 0

	for _, object := range objects {
		if !c.appendPart(maxTable/4, "- **deleted**: "+escapeCell(object.String())+"\n") {
			left++
		}
	}

	c.recordOmitted(left, "deleted object", "deleted objects")

	if len(objects) > 0 {
		c.text.WriteString("\n")
	}
}

func (c *comment) writeOwners(owners []OwnerChange) {
	left := 0

	for _, owner := range owners {
		line := "- " + escapeCell(owner.String()) + "\n"
		for _, difference := range owner.Differences {
			line += "  - " + escapeCell(difference) + "\n"
		}

		if !c.appendPart(maxTable/2, line) {
			left++
		}
	}

	c.recordOmitted(left, "owner of machines", "owners of machines")

	if len(owners) > 0 {
		c.text.WriteString("\n")
	}
}

// writeTable writes one row for all machines with the same fate: first refused machines, then changed ones.
func (c *comment) writeTable(machines []*Result) {
	rank := func(m *Result) int {
		switch {
		case m.Refused != "":
			return 0
		case m.Destroyed != "", m.MayGo != "", m.Gone:
			return 1
		case m.IsChanged():
			return 2
		}

		return 3
	}
	sorted := groupSame(machines)
	slices.SortStableFunc(sorted, func(a, b same) int { return cmp.Compare(rank(a[0]), rank(b[0])) })
	c.text.WriteString("| machines | owner | cluster | addresses | change |\n|---|---|---|---|---|\n")

	left := 0

	for _, group := range sorted {
		first, names := group[0], group.joinNames()
		if len(group) > 1 {
			names = humanize.Comma(int64(len(group))) + ": " + names
		}

		row := fmt.Sprintf("| %s | %s | %s | %s | %s |\n", escapeCell(names), escapeCell(first.From),
			escapeCell(first.Cluster), escapeCell(group.joinAddresses()), first.markdownSummary())
		if !c.appendPart(maxTable, row) {
			left++
		}
	}

	c.recordOmitted(left, "table row", "table rows")
}

// writePlans writes one plan for all machines with the same changes.
func (c *comment) writePlans(machines []*Result) {
	left := 0

	for _, group := range groupSame(machines) {
		if len(group[0].Changes) == 0 {
			continue
		}

		first, fence := group[0], "```"
		for strings.Contains(first.Text, fence) {
			fence += "`"
		}

		title, note := escapeCell(first.Namespace+"/"+first.Name), ""
		if others := group[1:]; len(others) > 0 {
			title += fmt.Sprintf(" and %d more", len(others))
			note = "Same plan, except for names and addresses: " +
				escapeCell(others.joinTexts(", ", func(m *Result) string { return m.Name })) + "\n\n"
		}

		part := fmt.Sprintf("\n<details><summary>%s</summary>\n\n%s%s\n%s\n%s\n\n</details>\n", title, note, fence,
			strings.TrimRight(plaintext.Printable(first.Text), "\n"), fence)
		if !c.appendPart(maxMarkdown-maxLast, part) {
			left++
		}
	}

	c.recordOmitted(left, "plan", "plans")
}

// writeOmissions writes lines about the omitted parts.
func (c *comment) writeOmissions(link string) {
	if len(c.left) == 0 {
		return
	}

	where := "see the full plan with `-o text` or `-o json`"
	if link != "" {
		where = fmt.Sprintf("see the [full plan](%s)", link)
	}

	left := english.WordSeries(c.left, "and")
	fmt.Fprintf(&c.text, "\nOmitted to fit in a comment: %s; %s.\n", left, where)
}

// anonymousText returns the owner and the plan of a machine, without the machine's name and addresses. It collapses
// spaces, because the width of aligned columns depends on the names.
func (r *Result) anonymousText() string {
	pairs := []string{r.Name, "NAME"}
	for _, address := range r.Addresses {
		pairs = append(pairs, `"`+address+`"`, "ADDRESS")
	}

	return r.From + "\n" + strings.Join(strings.Fields(strings.NewReplacer(pairs...).Replace(r.Text)), " ")
}

// markdownSummary returns the summary of a machine for a table cell.
func (r *Result) markdownSummary() string {
	what, why := "", r.describeFate()

	switch r.verdict() {
	case isRefused:
		what, why = "**refused**: ", r.Refused
	case toDestroy:
		what, why = "**destroyed**: ", r.Destroyed+r.LostDisks()
	}

	if what == "" && r.MayGo != "" {
		what, why = "**may be destroyed**: ", r.MayGo+r.LostDisks()
	}

	if len(r.Outside) > 0 {
		why += ". " + strings.TrimSpace(r.outsideChanges())
	}

	return what + escapeCell(why)
}

// escapeCell returns a text that stays inside its table cell, and shows Markdown and HTML literally. Names, versions
// and errors may come from a stranger. They must not forge other parts of the comment, or mention users. Entities have
// the same meaning in Markdown and in HTML. GitHub and GitLab look for mentions and references in the rendered text. A
// zero-width space after their first character prevents this.
func escapeCell(text string) string { return entities.Replace(plaintext.OneLine(text)) }

// entities escapes special characters.
var entities = func() *strings.Replacer {
	pairs := []string{"://", "&#58;//", "www.", "www&#46;"}
	for _, c := range "&<>|`*_[]~!#@\\$" {
		pairs = append(pairs, string(c), fmt.Sprintf("&#%d;", c))
	}

	for _, c := range "@#!~$%^" { // marks of users, issues, merge requests, labels, snippets, milestones
		pairs = append([]string{string(c), fmt.Sprintf("&#%d;&#8203;", c)}, pairs...)
	}

	return strings.NewReplacer(pairs...)
}()
