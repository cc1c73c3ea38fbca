package planreport

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/plaintext"
)

const (
	// maxNamed is the maximum number of names shown for a group of machines. maxLost is the maximum for destroyed
	// machines.
	maxNamed = 10
	maxLost  = 100
)

// same is a group of machines with the same fate, except for their names and addresses. The group has at least one
// machine.
type same []*Result

// groupSame groups machines with the same fate, in their order.
func groupSame(machines []*Result) []same {
	var out []same
	at := map[string]int{}

	for _, m := range machines {
		key := m.groupKey()
		if i, known := at[key]; known {
			out[i] = append(out[i], m)
			continue
		}

		at[key] = len(out)
		out = append(out, same{m})
	}

	return out
}

// groupKey returns all output about a machine except its own names and addresses.
func (r *Result) groupKey() string {
	pairs := []string{}

	for _, own := range []string{r.Name, r.Replaces, r.VM} {
		if own != "" {
			pairs = append(pairs, own, "OWN")
		}
	}

	impersonal := strings.NewReplacer(pairs...).Replace(r.describeFate() + "\n" + r.outsideChanges())

	return fmt.Sprintf("%s\n%s\n%s %v %v %v\n%s\n%s", r.Namespace, r.Cluster, r.verdict(), r.Replaces != "", r.VM != "",
		r.Plan == nil, impersonal, r.anonymousText())
}

// namedCount returns the number of machines to show by name. It shows all destroyed machines, up to maxLost.
func (g same) namedCount() int {
	if g[0].Destroyed != "" || g[0].MayGo != "" || g[0].Gone {
		return min(len(g), maxLost)
	}

	return min(len(g), maxNamed)
}

// joinTexts joins the texts of the named machines, and adds the number of the others.
func (g same) joinTexts(separator string, own func(*Result) string) string {
	var out []string

	for _, m := range g[:g.namedCount()] {
		if text := own(m); text != "" {
			out = append(out, text)
		}
	}

	text := strings.Join(out, separator)
	if more := len(g) - g.namedCount(); more > 0 && text != "" {
		text += fmt.Sprintf(" and %s more", humanize.Comma(int64(more)))
	}

	return text
}

// joinNames returns the names of the machines, each with the machine it replaces.
func (g same) joinNames() string {
	return g.joinTexts(", ", func(m *Result) string {
		name := m.Namespace + "/" + m.Name
		if m.VM != "" {
			name += " on VM " + m.VM + " of the inventory"
		}

		if m.Replaces != "" {
			name += " in place of " + m.Replaces
		}

		return name
	})
}

// joinAddresses returns the addresses of the machines. It shows a common text once.
func (g same) joinAddresses() string {
	shared := strings.Join(g[0].Addresses, ", ")
	if !slices.ContainsFunc(g, func(m *Result) bool { return strings.Join(m.Addresses, ", ") != shared }) {
		return shared
	}

	return g.joinTexts("; ", func(m *Result) string { return strings.Join(m.Addresses, ", ") })
}

// groupTitle returns the names of the machines as a title.
func (g same) groupTitle() string {
	first := g[0]

	cluster := "cluster " + first.Cluster
	if first.Cluster == "" {
		cluster = "no cluster"
	}

	title := fmt.Sprintf("%s of %s (%s", g.joinNames(), first.From, cluster)
	if addresses := g.joinAddresses(); addresses != "" {
		title += ", addresses: " + addresses
	}

	title += ")"
	if len(g) > 1 {
		title = humanize.Comma(int64(len(g))) + " machines: " + title
	}

	return plaintext.OneLine(title)
}

// writeTo writes the machines, with the plan of the first one.
func (g same) writeTo(p *paper) {
	title, first := g.groupTitle(), g[0]

	switch {
	case first.Destroyed != "":
		p.addAlarm(title + ": DESTROYED: " + plaintext.OneLine(first.Destroyed+first.LostDisks()))
		return
	case first.MayGo != "":
		p.addAlarm(title + ": may be destroyed: " + plaintext.OneLine(first.MayGo+first.LostDisks()))
	case first.Refused == "" && !first.IsChanged() && !first.Gone && first.Plan != nil:
		p.addLine(title + ": nothing would change\n" + first.outsideChanges())
		return
	}

	body := strings.TrimRight(first.Text, "\n")
	if first.Refused != "" {
		body = "REFUSED: " + plaintext.OneLine(first.Refused)
	}

	if len(g) > 1 && len(first.Changes) > 0 {
		body = "The plan of " + plaintext.OneLine(first.Name) +
			"; the plans of the others differ only in names and addresses:\n\n" + body
	}

	p.addLine(
		fmt.Sprintf("%s\n%s\n%s\n%s", title, strings.Repeat("-", min(len(title), 120)), body, first.outsideChanges()),
	)
}

var (
	// quotedID matches a UUID in the text of a plan. byteSize matches an attribute with a size in bytes.
	quotedID = regexp.MustCompile(`"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"`)
	byteSize = regexp.MustCompile(`(?m)^[ +~-]*\b(?:memory|maximum_memory|guaranteed_memory|size) += .*$`)
	number   = regexp.MustCompile(`\b[0-9]{7,}\b`)
)

// MakeReadable replaces UUIDs in the text of a plan by names, and adds readable sizes. Plans for programs keep the
// original values.
func MakeReadable(text string, nameOf func(id string) string) string {
	text = quotedID.ReplaceAllStringFunc(text, func(quoted string) string {
		if name := nameOf(strings.Trim(quoted, `"`)); name != "" {
			return strconv.Quote(name)
		}

		return quoted
	})

	return byteSize.ReplaceAllStringFunc(text, func(line string) string {
		return number.ReplaceAllStringFunc(line, func(bytes string) string {
			count, err := strconv.ParseUint(bytes, 10, 64)
			if err != nil {
				return bytes
			}

			return exactSize(count)
		})
	})
}

// exactSize returns a number of bytes in the largest unit that gives a whole number.
func exactSize(bytes uint64) string {
	for _, unit := range []struct {
		name string
		size uint64
	}{
		{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6},
	} {
		if bytes > 0 && bytes%unit.size == 0 {
			return fmt.Sprintf("%d %s", bytes/unit.size, unit.name)
		}
	}

	return humanize.Comma(int64(bytes)) + " B" //nolint:gosec // no disk is larger
}
