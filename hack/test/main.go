// Command test runs go test in modules of the checkout. It ends with a summary of run, failed and skipped tests, with
// the reasons for skips. It reports a package in which all tests were skipped as skipped instead of ok. It links a test
// binary again only if a package in the binary has changed.
//
// It tests the modules concurrently, so that others use the processors while one waits.
//
//	go run ./hack/test [-modules DIR,DIR] [-alone PACKAGE,PACKAGE] [-first PACKAGE,PACKAGE] [-cost] -- \
//	  [arguments of go test]
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

func main() {
	modules := flag.String("modules", ".", "the folders of the modules to test, separated by commas")
	alone := flag.String("alone", "", "packages that are tested before all others, one at a time, separated by commas")
	early := flag.String("first", "",
		"packages that are begun before the others, because they take longest, separated by commas")
	cost := flag.Bool("cost", false,
		"print the tests, wall time and CPU time of each package, and the slowest tests, as Markdown tables")
	measured := flag.Bool("measure", false, "run the arguments as a command, and print the CPU time that it took")
	linked := flag.String("link", "", "run the arguments as a tool of Go, and keep in this folder what it links")
	flag.Parse()

	switch {
	case *measured:
		os.Exit(runMeasured(flag.Args()))
	case *linked != "":
		os.Exit(linkOnce(*linked, flag.Args()))
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := testAndReport(ctx, splitCommas(*modules), splitCommas(*alone), splitCommas(*early), *cost, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "test:", err)
	}

	if err != nil || !ok {
		os.Exit(1)
	}
}

// splitCommas splits the value of a flag at commas.
func splitCommas(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

// testAndReport tests the modules, prints the summary, and reports whether all tests passed.
func testAndReport(ctx context.Context, modules, alone, early []string, cost bool, args []string) (bool, error) {
	self, err := os.Executable()
	if err != nil {
		return false, fmt.Errorf("failed to find this program: %w", err)
	}

	kept := filepath.Join(toolchain.CacheDir(), "linked")
	if err := prepareLinks(kept, time.Now()); err != nil {
		return false, fmt.Errorf("failed to prepare %s: %w", kept, err)
	}

	flags, patterns := splitArguments(args)

	flags = append(flags, "-toolexec="+quoteCommand(self, "-link", kept))
	if cost {
		flags = append(flags, "-exec="+quoteCommand(self, "-measure"))
	}

	var apart, together []call

	for _, module := range modules {
		packages, single, err := dividePackages(ctx, module, patterns, alone, early)
		if err != nil {
			return false, err
		}

		if len(single) > 0 {
			apart = append(apart, call{module, slices.Concat(flags, []string{"-p=1"}, single)})
		}

		if len(packages) > 0 {
			together = append(together, call{module, slices.Concat(flags, packages)})
		}
	}

	report := newReport(os.Stdout)
	passed := true

	for _, one := range apart {
		passed = testModules(ctx, []call{one}, report) == nil && passed
	}

	passed = testModules(ctx, together, report) == nil && passed

	report.printSummary(os.Stdout, cost)

	return passed && report.hasPassed(), ctx.Err()
}

// splitArguments separates go test's flags from the patterns of packages at the end of the arguments.
func splitArguments(args []string) (flags, patterns []string) {
	at := len(args)
	for at > 0 && strings.HasPrefix(args[at-1], "./") {
		at--
	}

	return slices.Clip(args[:at]), args[at:]
}

// dividePackages lists those packages of a module that match the patterns. The early packages come first. The packages
// to test alone are separate.
func dividePackages(
	ctx context.Context, module string, patterns, alone, early []string,
) (packages, single []string, err error) {
	if len(alone) == 0 && len(early) == 0 {
		return patterns, nil, nil
	}

	command := exec.CommandContext(ctx, "go", slices.Concat([]string{"-C", module, "list"}, patterns)...)
	command.Stderr = os.Stderr

	output, err := command.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("failed to list the packages of %s: %w", module, err)
	}

	packages, single = orderPackages(strings.Fields(string(output)), alone, early)

	return packages, single, nil
}

// orderPackages separates the packages to test alone. It puts the early packages first, in their given order.
func orderPackages(all, alone, early []string) (packages, single []string) {
	place := func(path string, names []string) int {
		return slices.IndexFunc(names, func(name string) bool {
			return strings.HasSuffix(path, strings.TrimPrefix(name, "."))
		})
	}

	for _, path := range all {
		if place(path, alone) >= 0 {
			single = append(single, path)
		} else {
			packages = append(packages, path)
		}
	}

	slices.SortStableFunc(packages, func(a, b string) int {
		// A package that is not in the list has the place -1, which becomes the largest unsigned number.
		return cmp.Compare(uint(place(a, early)), uint(place(b, early)))
	})

	return packages, single
}

// quoteCommand quotes a command for the flags of go test.
func quoteCommand(args ...string) string {
	return "'" + strings.Join(args, "' '") + "'"
}

// runMeasured runs a command, and prints the CPU time of the command and of its child processes. It returns the exit
// code.
func runMeasured(args []string) int {
	command := exec.Command(args[0], args[1:]...) //nolint:noctx // go test ends it
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := command.Run()

	if state := command.ProcessState; state != nil {
		fmt.Printf("%s%.1f\n", cpuLine, (state.UserTime() + state.SystemTime()).Seconds())
		return state.ExitCode()
	}

	fmt.Fprintln(os.Stderr, err)

	return 1
}
