// Command test runs go test in modules of the checkout and ends with a summary: what ran, what failed, what was skipped
// and why. A package in which every test was skipped is reported as skipped, not as ok.
//
//	go run ./hack/test [-modules DIR,DIR] [-alone PACKAGE,PACKAGE] [-cost] -- [arguments of go test]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"gotest.tools/gotestsum/testjson"
)

func main() {
	modules := flag.String("modules", ".", "the folders of the modules to test, separated by commas")
	alone := flag.String("alone", "", "packages that are tested first, one at a time, separated by commas")
	cost := flag.Bool("cost", false,
		"print the tests, wall time and CPU time of each package, and the slowest tests, as Markdown tables")
	measured := flag.Bool("measure", false, "run the arguments as a command, and print the CPU time that it took")
	flag.Parse()

	if *measured {
		os.Exit(measure(flag.Args()))
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx, list(*modules), list(*alone), *cost, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "test:", err)
	}

	if err != nil || !ok {
		os.Exit(1)
	}
}

// list is what a flag names, separated by commas.
func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

// run tests each module, prints the summary, and reports whether all tests passed.
func run(ctx context.Context, modules, alone []string, cost bool, args []string) (bool, error) {
	flags, patterns := split(args)
	if cost {
		self, err := os.Executable()
		if err != nil {
			return false, fmt.Errorf("failed to find this program: %w", err)
		}

		flags = append(flags, "-exec="+self+" -measure")
	}

	report := newReport(os.Stdout)
	passed := true

	for _, module := range modules {
		packages, first, err := divide(ctx, module, patterns, alone)
		if err != nil {
			return false, err
		}

		if len(first) > 0 && test(ctx, module, slices.Concat(flags, []string{"-p=1"}, first), report) != nil {
			passed = false
		}

		if len(packages) > 0 && test(ctx, module, slices.Concat(flags, packages), report) != nil {
			passed = false
		}
	}

	report.summarize(os.Stdout, cost)

	return passed && report.passed(), ctx.Err()
}

// split takes the patterns of packages from the end of the arguments of go test.
func split(args []string) (flags, patterns []string) {
	at := len(args)
	for at > 0 && strings.HasPrefix(args[at-1], "./") {
		at--
	}

	return slices.Clip(args[:at]), args[at:]
}

// divide lists the packages of a module that the patterns match. Those that are to be tested alone are apart.
func divide(ctx context.Context, module string, patterns, alone []string) (packages, first []string, err error) {
	if len(alone) == 0 {
		return patterns, nil, nil
	}

	command := exec.CommandContext(ctx, "go", slices.Concat([]string{"-C", module, "list"}, patterns)...)
	command.Stderr = os.Stderr

	output, err := command.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("failed to list the packages of %s: %w", module, err)
	}

	for _, path := range strings.Fields(string(output)) {
		isMeant := func(name string) bool { return strings.HasSuffix(path, strings.TrimPrefix(name, ".")) }
		if slices.ContainsFunc(alone, isMeant) {
			first = append(first, path)
		} else {
			packages = append(packages, path)
		}
	}

	return packages, first, nil
}

// test runs go test in a module. Its error says that the tests failed, or could not run.
func test(ctx context.Context, module string, args []string, report *report) error {
	command := exec.CommandContext(ctx, "go", append([]string{"-C", module, "test", "-json"}, args...)...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }

	stdout, err := command.StdoutPipe()
	if err != nil {
		return fmt.Errorf("failed to read what go test prints: %w", err)
	}

	stderr, err := command.StderrPipe()
	if err != nil {
		return fmt.Errorf("failed to read what go test prints: %w", err)
	}

	if err := command.Start(); err != nil {
		return fmt.Errorf("failed to start go test: %w", err)
	}

	report.execution, err = testjson.ScanTestOutput(testjson.ScanConfig{
		Stdout: stdout, Stderr: stderr, Handler: report, Execution: report.execution,
		IgnoreNonJSONOutputLines: true,
	})
	if err != nil {
		return fmt.Errorf("failed to read what go test prints: %w", err)
	}

	return command.Wait()
}

// measure runs a command, and prints the CPU time of it and of the processes that it waited for. It returns its exit
// code.
func measure(args []string) int {
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
