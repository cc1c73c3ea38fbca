package main

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/gotestsum/testjson"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

const module = "github.com/capolvm/cluster-api-provider-olvm/"

// stream returns output of go test -json. Each line is a package, an action, a test and its output.
func stream(lines ...[4]string) string {
	var out strings.Builder

	for _, l := range lines {
		fmt.Fprintf(&out, "{\"Package\":%q,\"Action\":%q,\"Test\":%q,\"Output\":%q}\n", module+l[0], l[1], l[2], l[3])
	}

	return out.String()
}

// reported returns the output of a report for a stream of events, and whether all tests passed.
func reported(t *testing.T, events string, cost bool) (string, bool) {
	t.Helper()

	var out strings.Builder

	r := newReport(&out)
	execution, err := testjson.ScanTestOutput(testjson.ScanConfig{
		Stdout: strings.NewReader(events), Handler: r, IgnoreNonJSONOutputLines: true,
	})
	check.Error(t, err, "")
	r.execution = execution
	r.printSummary(&out, cost)

	return out.String(), r.hasPassed()
}

func TestASummaryNamesWhatFailedAndWhySomethingWasSkipped(t *testing.T) {
	events := stream(
		[4]string{"a", "run", "TestGood"}, [4]string{"a", "pass", "TestGood"}, [4]string{"a", "pass"},
		[4]string{"b", "run", "TestBad"}, [4]string{"b", "output", "TestBad", "    b_test.go:3: it is broken\n"},
		[4]string{"b", "fail", "TestBad"}, [4]string{"b", "fail"},
		[4]string{"c", "run", "TestParent"}, [4]string{"c", "run", "TestParent/child"},
		[4]string{"c", "output", "TestParent/child", "=== RUN   TestParent/child\n"},
		[4]string{"c", "output", "TestParent/child", "    c_test.go:3: needs root\n"},
		[4]string{"c", "output", "TestParent/child", "    --- SKIP: TestParent/child (0.00s)\n"},
		[4]string{"c", "skip", "TestParent/child"}, [4]string{"c", "pass", "TestParent"}, [4]string{"c", "pass"},
		[4]string{"d", "skip"},
	)

	out, passed := reported(t, events, false)
	check.Equal(t, "whether all passed", passed, false)

	for _, want := range []string{
		"ok    a ", "FAIL  b ", "b_test.go:3: it is broken\n", "skip  c ", "\n  needs root: c TestParent/child\n",
		"\nFailed:\n  b TestBad\n", "\n2 passed, 1 failed, 1 skipped\n",
	} {
		check.Contains(t, "the summary", out, want)
	}

	check.Lacks(t, "the summary", out, "  d ") // this package has no tests
}

func TestManySkippedTestsOfOneReasonAreCounted(t *testing.T) {
	var lines [][4]string

	for i := range fewTests + 1 {
		name := fmt.Sprintf("Test%d", i)
		lines = append(lines, [4]string{"a", "run", name}, [4]string{"a", "output", name, "    a_test.go:3: no root\n"},
			[4]string{"a", "skip", name})
	}

	out, passed := reported(t, stream(append(lines, [4]string{"a", "pass"})...), false)
	check.Contains(t, "the summary", out, "\n  no root: 4 of a\n")
	check.Equal(t, "whether all passed", passed, true)
}

func TestNothingPassesIfNothingRan(t *testing.T) {
	_, passed := reported(t, stream([4]string{"a", "skip"}), false)
	check.Equal(t, "whether all passed", passed, false)
}

func TestAPackageThatDoesNotBuildFails(t *testing.T) {
	events := `{"ImportPath":"a","Action":"build-output","Output":"a.go:1:1: syntax error\n"}` + "\n"
	out, passed := reported(t, events+stream([4]string{"a", "output", "", "FAIL a [build failed]\n"}, [4]string{"a", "fail"}), false)
	check.Equal(t, "whether all passed", passed, false)
	check.Contains(t, "the summary", out, "syntax error")
	check.Contains(t, "the summary", out, "FAIL  a ")
}

func TestCostsAreInATable(t *testing.T) {
	out, _ := reported(t, stream(
		[4]string{"a", "run", "TestGood"}, [4]string{"a", "pass", "TestGood"},
		[4]string{"a", "output", "", cpuLine + "1.5\n"}, [4]string{"a", "pass"},
		[4]string{"b", "run", "TestGood"}, [4]string{"b", "pass", "TestGood"},
		[4]string{"b", "output", "", cpuLine + "12.0\n"}, [4]string{"b", "pass"},
	), true)
	check.Contains(t, "the table", out, "| `b` | 1 | 0.0 | 12.0 |\n| `a` | 1 | 0.0 | 1.5 |\n")
}

func TestPatternsOfPackagesEndTheArguments(t *testing.T) {
	flags, patterns := splitArguments([]string{"-run", "./x", "-short", "./a", "./b/..."})
	_ = append(flags, "-v") // must not change the patterns
	check.Equal(t, "flags", flags, []string{"-run", "./x", "-short"})
	check.Equal(t, "patterns", patterns, []string{"./a", "./b/..."})
}

func TestPackagesThatAreTestedAloneAreApart(t *testing.T) {
	packages, first, err := dividePackages(t.Context(), ".", []string{"."}, []string{"./hack/test"}, nil)
	check.Error(t, err, "")
	check.Equal(t, "the rest", packages, nil)
	check.Equal(t, "what is tested alone", first, []string{module + "hack/test"})

	packages, first, err = dividePackages(t.Context(), ".", []string{"./..."}, nil, nil)
	check.Error(t, err, "")
	check.Equal(t, "the patterns", packages, []string{"./..."})
	check.Equal(t, "what is tested alone", first, nil)
}
