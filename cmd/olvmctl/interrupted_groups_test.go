package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// writeGroup has equal writes of a command: those of a step, with the same verb, to the same kind of object, in the
// same management cluster.
type writeGroup struct{ step, verb, kind, server string }

func (g writeGroup) String() string {
	return strings.Join([]string{g.step, g.verb, g.kind, g.server}, " ")
}

// readStep returns the step in the output of a command. The lines of steps are not indented.
func readStep(output string) string {
	content, _ := os.ReadFile(output)
	step := "at the beginning"

	for line := range strings.SplitSeq(string(content), "\n") {
		if name, _, found := strings.Cut(line, ":"); found && !strings.HasPrefix(line, " ") {
			step = name
		}
	}

	return step
}

// ownKinds are the kinds that olvmctl treats differently from others.
var ownKinds = []string{"clusters", "configmaps", "leases", "namespaces", "secrets"}

// kindOfPath returns the kind in the path of a request: one of ownKinds, or "other objects".
func kindOfPath(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if at := slices.Index(parts, "namespaces"); at >= 0 && len(parts) > at+2 {
		parts = parts[at+2:]
	}

	for _, part := range parts {
		if slices.Contains(ownKinds, part) {
			return part
		}
	}

	return "other objects"
}

func nameOfEnd(end int) string { return []string{"first cluster", "second cluster"}[end] }

// matrixCase is one interruption of one command, and what follows.
type matrixCase struct {
	*writeGate

	then string
}

func (c matrixCase) name() string {
	return fmt.Sprintf("%s %s then %s", c.group, c.writeGate.name(), c.then)
}

// casesOf returns the cases for the writes of a command. The first and the last write of each group are interrupted
// before and after it, by both signals, and then again or delete runs in turn. A single write has both. In addition, an
// impatient user interrupts the last one. Groups of another command are left out.
func casesOf(writes, others []writeGroup) (groups []writeGroup, out []matrixCase) {
	count := map[writeGroup]int{}

	for _, write := range writes {
		if count[write] == 0 && !slices.Contains(others, write) {
			groups = append(groups, write)
		}

		count[write]++
	}

	continuations := []string{"again", "delete"}

	for number, group := range groups {
		for s, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT} {
			for a, after := range []bool{false, true} {
				for l, at := range []int{1, count[group]} {
					then := continuations[(s+a+l)%2]
					if count[group] == 1 {
						then = continuations[l]
					}

					out = append(out, matrixCase{&writeGate{group: group, at: at, signal: signal, after: after}, then})
				}
			}
		}

		impatient := &writeGate{group: group, at: count[group], signal: syscall.SIGINT, again: true, after: number%4 < 2}
		out = append(out, matrixCase{impatient, continuations[number%2]})
	}

	return groups, out
}

// matrix counts the cases.
type matrix struct {
	mu   sync.Mutex
	rows map[matrixRow]*matrixCounts
	// groups are those of each command.
	groups map[string][]writeGroup
}

type matrixRow struct{ command, step, signal, then string }

type matrixCounts struct {
	groups      map[writeGroup]bool
	cases, left int
}

func (m *matrix) add(command string, one matrixCase, failed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	row := matrixRow{command, one.group.step, one.signal.String(), one.then}
	if m.rows[row] == nil {
		m.rows[row] = &matrixCounts{groups: map[writeGroup]bool{}}
	}

	m.rows[row].groups[one.group] = true
	m.rows[row].cases++
	if failed {
		m.rows[row].left++
	}
}

// String returns the table.
func (m *matrix) String() string {
	var out strings.Builder

	all := 0
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "command\tstep\tsignal\tcontinued by\tgroups\tcases\tleft over")

	rows := slices.SortedFunc(maps.Keys(m.rows), func(a, b matrixRow) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	for _, row := range rows {
		counts := m.rows[row]
		all += counts.cases
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%d\n", row.command, row.step, row.signal, row.then,
			len(counts.groups), counts.cases, counts.left)
	}

	_ = table.Flush()
	fmt.Fprintf(&out, "cases: %d", all)

	return out.String()
}

// TestACommandThatIsInterruptedGoesOn ends each command before and after its writes. It then runs the command again, or
// delete. Afterwards, there is one cluster with one manager, or no cluster, and there are no leftovers. The fast tier
// has a sample. The full tier has the first and the last write of each group of equal writes.
func TestACommandThatIsInterruptedGoesOn(t *testing.T) {
	if testing.Short() {
		for _, name := range slices.Sorted(maps.Keys(interruptions)) {
			t.Run(name, interruptions[name].interruptSample)
		}

		return
	}

	done := &matrix{rows: map[matrixRow]*matrixCounts{}, groups: map[string][]writeGroup{}}
	t.Cleanup(func() { t.Logf("ended before and after writes:\n%s", done) })

	for _, name := range slices.Sorted(maps.Keys(interruptions)) {
		t.Run(name, func(t *testing.T) { interruptions[name].interruptAll(t, name, done) })
	}
}

// interruptSample plays the cases of the fast tier.
func (i interruption) interruptSample(t *testing.T) {
	if len(i.sample) == 0 {
		testenv.SkipInShort(t, "internal/olvmctl/lifecycle interrupts moves in the fast tier")
	}

	for _, at := range i.sample {
		g, then := interruptionsAt(at)[at%6], "again"
		if at%2 == 0 {
			then = "delete"
		}

		t.Run(g.name()+" then "+then, func(t *testing.T) { i.interrupt(t, g, then) })
	}
}

// interruptAll plays all cases of a command.
func (i interruption) interruptAll(t *testing.T, command string, done *matrix) {
	t.Helper()

	whole := &writeGate{}
	t.Run("to its end", func(t *testing.T) { // removes its clusters before the next case
		s := newStand(t)
		i.prepare(s)
		code, said := s.olvmctl(whole, i.command(s)...)
		check.Equal(t, "exit code, after "+said, code, 0)
		s.expect(i.end)
	})

	groups, cases := casesOf(whole.seen, done.groups[i.beginsLike])
	done.groups[command] = groups
	t.Logf("%d writes in %d groups, %d cases", len(whole.seen), len(groups), len(cases))

	for _, one := range cases {
		t.Run(one.name(), func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() { done.add(command, one, t.Failed()) })
			i.interrupt(t, one.writeGate, one.then)
		})
	}
}
