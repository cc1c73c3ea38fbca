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
	// maxMarkdown limits the bytes written by WriteMarkdown: a comment of GitHub holds 65,536 characters.
	maxMarkdown = 60_000
	// maxTable limits the bytes of lists, to leave room for plans.
	maxTable = maxMarkdown / 2
	// maxLast is the room for the lines about omissions.
	maxLast = 1000
)

// WriteMarkdown writes the report for a comment on a pull request: a table, and collapsed plans. It writes plans only
// once if they differ only in names and addresses. It omits and counts the parts without room. link is the URL of the
// full report, or empty.
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

// comment is a text of limited length, with the names of omitted parts.
type comment struct {
	text strings.Builder
	left []string
}

// appendPart appends a part if the text stays within most bytes, and reports whether it did.
func (c *comment) appendPart(most int, part string) bool {
	if c.text.Len()+len(part) > most {
		return false
	}

	c.text.WriteString(part)

	return true
}

// recordOmitted records a number of omitted parts.
func (c *comment) recordOmitted(count int, singular, plural string) {
	if count > 0 {
		c.left = append(c.left, english.Plural(count, singular, plural))
	}
}

// writePruned names the objects to delete.
func (c *comment) writePruned(objects []Pruned) {
	left := 0

	for _, object := range objects {
		if !c.appendPart(maxTable/4, "- **deleted**: "+escapeCell(object.String())+"\n") {
			left++
		}
	}

	c.recordOmitted(left, "object that is deleted", "objects that are deleted")

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

	c.recordOmitted(left, "line on an owner of machines", "lines on owners of machines")

	if len(owners) > 0 {
		c.text.WriteString("\n")
	}
}

// writeTable writes one row for machines with the same fate: refused machines first, then changing ones.
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
	c.text.WriteString("| machines | of | cluster | addresses | what |\n|---|---|---|---|---|\n")

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

	c.recordOmitted(left, "row of the table", "rows of the table")
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
			note = "The same but for names and addresses: " +
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

// writeOmissions lists the omissions.
func (c *comment) writeOmissions(link string) {
	if len(c.left) == 0 {
		return
	}

	where := "`-o text` and `-o json` have all of it"
	if link != "" {
		where = fmt.Sprintf("[all of it](%s)", link)
	}

	left := english.WordSeries(c.left, "and")
	fmt.Fprintf(&c.text, "\nLeft out, for a comment has no room for it: %s; %s.\n", left, where)
}

// anonymousText returns the owner and the plan, without the machine's name and addresses. It collapses spaces, because
// aligned columns depend on the names.
func (r *Result) anonymousText() string {
	pairs := []string{r.Name, "NAME"}
	for _, address := range r.Addresses {
		pairs = append(pairs, `"`+address+`"`, "ADDRESS")
	}

	return r.From + "\n" + strings.Join(strings.Fields(strings.NewReplacer(pairs...).Replace(r.Text)), " ")
}

// markdownSummary returns the summary for a table cell.
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

// escapeCell keeps a text inside its cell, and shows Markdown and HTML literally. Names, versions and errors may be a
// stranger's, who could forge the rest of the comment, or mention people. Entities mean the same in Markdown and in
// HTML. GitHub and GitLab look for mentions and references in the rendered text. A zero-width space after their first
// character prevents them.
func escapeCell(text string) string { return entities.Replace(plaintext.OneLine(text)) }

// entities replaces special characters.
var entities = func() *strings.Replacer {
	pairs := []string{"://", "&#58;//", "www.", "www&#46;"}
	for _, c := range "&<>|`*_[]~!#@\\$" {
		pairs = append(pairs, string(c), fmt.Sprintf("&#%d;", c))
	}

	for _, c := range "@#!~$%^" { // of people, issues, merge requests, labels, snippets, milestones
		pairs = append([]string{string(c), fmt.Sprintf("&#%d;&#8203;", c)}, pairs...)
	}

	return strings.NewReplacer(pairs...)
}()
