package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gotest.tools/gotestsum/testjson"
)

// cpuLine is the beginning of the line with a test binary's CPU time in seconds.
const cpuLine = "cpu seconds: "

// report collects the events of tests. It prints a line for each package and the output of each failed test.
type report struct {
	out       io.Writer
	execution *testjson.Execution
	// start is the time at which the run started.
	start time.Time
	// wall and cpu are the times of each package in seconds. Only measured packages have a CPU time.
	wall, cpu map[string]float64
}

func newReport(out io.Writer) *report {
	return &report{out: out, start: time.Now(), wall: map[string]float64{}, cpu: map[string]float64{}}
}

// Event adds an event to the report and prints the resulting lines.
func (r *report) Event(event testjson.TestEvent, execution *testjson.Execution) error {
	if event.Action == testjson.ActionBuild {
		fmt.Fprint(r.out, event.Output)
		return nil
	}

	pkg := execution.Package(event.Package)

	if seconds, ok := strings.CutPrefix(event.Output, cpuLine); ok {
		if value, err := strconv.ParseFloat(strings.TrimSpace(seconds), 64); err == nil {
			r.cpu[event.Package] = value
		}
	}

	if event.Action == testjson.ActionFail && event.Test != "" {
		return pkg.WriteOutputTo(r, pkg.LastFailedByName(event.Test).ID)
	}

	if !event.PackageEvent() || !event.Action.IsTerminal() {
		return nil
	}

	r.wall[event.Package] = event.Elapsed

	if event.Action == testjson.ActionFail {
		if err := pkg.WriteOutputTo(r, 0); err != nil {
			return err
		}
	}

	if word := packageVerdict(event, pkg); word != "" {
		fmt.Fprintf(r.out, "%-4s  %s  %.1fs\n", word, testjson.RelativePackagePath(event.Package), event.Elapsed)
	}

	return nil
}

// packageVerdict returns the word for a finished package, or "" if it has no tests.
func packageVerdict(event testjson.TestEvent, pkg *testjson.Package) string {
	switch {
	case event.Action == testjson.ActionFail:
		return "FAIL"
	case pkg.Total == 0:
		return ""
	case onlyParents(pkg):
		return "skip"
	}

	return "ok"
}

// onlyParents reports whether all passed tests of a package are parents of skipped subtests.
func onlyParents(pkg *testjson.Package) bool {
	parents := map[string]bool{}

	for _, test := range pkg.Skipped {
		for name := test.Test; name.IsSubTest(); name = testjson.TestName(name.Parent()) {
			parents[name.Parent()] = true
		}
	}

	return !slices.ContainsFunc(pkg.Passed, func(test testjson.TestCase) bool { return !parents[test.Test.Name()] })
}

// Err prints the standard error of go test, except the lines about downloads of modules.
func (r *report) Err(text string) error {
	if !strings.HasPrefix(text, "go: downloading ") {
		fmt.Fprintln(os.Stderr, text)
	}

	return nil
}

// WriteString prints the output of tests.
func (r *report) WriteString(text string) (int, error) { return io.WriteString(r.out, text) }

// hasPassed reports whether tests ran and no test failed.
func (r *report) hasPassed() bool {
	return r.execution.Total() > 0 && len(r.execution.Failed()) == 0 && len(r.execution.Errors()) == 0
}

// printSummary prints the totals, the failed tests, and the reasons of skipped tests.
func (r *report) printSummary(out io.Writer, cost bool) {
	failed, skipped := r.execution.Failed(), r.execution.Skipped()

	if cost {
		r.printCosts(out)
		r.printSlowest(out)
	}

	if len(skipped) > 0 {
		fmt.Fprintln(out, "\nSkipped:")
		printSkips(out, r.skipReasons())
	}

	if len(failed) > 0 {
		fmt.Fprintln(out, "\nFailed:")
	}

	for _, test := range failed {
		fmt.Fprintf(out, "  %s %s\n", testjson.RelativePackagePath(test.Package), test.Test)
	}

	fmt.Fprintf(out, "\n%d packages in %s\n", len(r.wall), time.Since(r.start).Round(time.Second))
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", r.execution.Total()-len(failed)-len(skipped), len(failed),
		len(skipped))
}

// skipReasons returns the skipped tests by the reason of the skip. Each test has its package and name.
func (r *report) skipReasons() map[string][]string {
	out := map[string][]string{}

	for _, test := range r.execution.Skipped() {
		why := skipReason(r.execution.OutputLines(test))
		out[why] = append(out[why], testjson.RelativePackagePath(test.Package)+" "+test.Test.Name())
	}

	return out
}

// framing matches the lines with which go test announces a test.
var framing = regexp.MustCompile(`^\s*(===|---) `)

// position matches the source position before the message of t.Skip.
var position = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// skipReason returns the last line that a test itself printed, without the source position.
func skipReason(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); line != "" && !framing.MatchString(line) {
			return position.ReplaceAllString(line, "")
		}
	}

	return "no reason is given"
}

// fewTests is the maximum number of skipped tests that are named for a reason. If there are more, they are counted by
// package.
const fewTests = 3

// printSkips prints a line for each reason, with its tests.
func printSkips(out io.Writer, reasons map[string][]string) {
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		tests := reasons[why]
		if len(tests) <= fewTests {
			fmt.Fprintf(out, "  %s: %s\n", why, strings.Join(tests, ", "))
			continue
		}

		packages := map[string]int{}

		for _, test := range tests {
			name, _, _ := strings.Cut(test, " ")
			packages[name]++
		}

		var counts []string

		for _, name := range slices.Sorted(maps.Keys(packages)) {
			counts = append(counts, fmt.Sprintf("%d of %s", packages[name], name))
		}

		fmt.Fprintf(out, "  %s: %s\n", why, strings.Join(counts, ", "))
	}
}

// printCosts prints a Markdown table of the packages, the most expensive first.
func (r *report) printCosts(out io.Writer) {
	names := r.execution.Packages()
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(r.cpu[b], r.cpu[a]) })
	fmt.Fprint(out, "\n| package | tests | wall time (s) | CPU time (s) |\n|---|---|---|---|\n")

	for _, name := range names {
		pkg := r.execution.Package(name)
		if pkg.Total == 0 {
			continue
		}

		fmt.Fprintf(out, "| `%s` | %d | %.1f | %.1f |\n", testjson.RelativePackagePath(name), topLevel(pkg),
			r.wall[name], r.cpu[name])
	}
}

// slowTests is the number of slowest tests in the report.
const slowTests = 10

// printSlowest prints a Markdown table of the slowest tests, without subtests.
func (r *report) printSlowest(out io.Writer) {
	var tests []testjson.TestCase

	for _, name := range r.execution.Packages() {
		for _, test := range r.execution.Package(name).TestCases() {
			if !test.Test.IsSubTest() {
				tests = append(tests, test)
			}
		}
	}

	slices.SortStableFunc(tests, func(a, b testjson.TestCase) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	fmt.Fprint(out, "\n| test | package | wall time (s) |\n|---|---|---|\n")

	for _, test := range tests[:min(slowTests, len(tests))] {
		fmt.Fprintf(out, "| `%s` | `%s` | %.1f |\n", test.Test, testjson.RelativePackagePath(test.Package),
			test.Elapsed.Seconds())
	}
}

// topLevel returns the number of a package's tests without subtests.
func topLevel(pkg *testjson.Package) int {
	count := 0

	for _, test := range pkg.TestCases() {
		if !test.Test.IsSubTest() {
			count++
		}
	}

	return count
}
