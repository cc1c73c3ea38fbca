// Command mutations shows whether unit tests notice faults. It makes small changes to the code, one at a time, and runs
// the tests of the changed package after each.
//
//	go run ./hack/mutations [PACKAGE ...]
//
// Without arguments, it measures each package that has a floor. It prints a table and each change that no test noticed.
// It fails if a package is below its floor. Gremlins makes the changes; gocommand.go lists its faults.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// floor is the minimum for the tests of a package.
type floor struct {
	// pkg is the folder of the package.
	pkg string
	// killed is the minimum percentage of mutants that tests must notice, of those that tests cover.
	killed float64
	// covered is the minimum percentage of mutants that tests must cover; 0 accepts any percentage.
	covered float64
}

// floors lists the packages in which mistakes cost machines or states. Raise a floor if its package is far above it.
// Never lower a floor.
var floors = []floor{
	{pkg: "render", killed: 85},
	{pkg: "internal/tfstate", killed: 85},
	{pkg: "internal/terraform", killed: 85},
	{pkg: "internal/addressing", killed: 85},
	{pkg: "internal/connection", killed: 85},
	{pkg: "internal/desired", killed: 85},
	{pkg: "controllers/machine", killed: 85, covered: 60},
}

// A mutant may take timeoutCoefficient times as long as the unchanged tests, and at least leastTimeout. Gremlins does
// not count the time of the compiler and the linker, nor delays by another worker. The margin is for machines with
// varying load, because only a mutant in an endless loop may time out.
const (
	timeoutCoefficient = 20
	leastTimeout       = 2 * time.Minute
)

func main() {
	if realGo := os.Getenv(goCommandEnv); realGo != "" {
		os.Exit(runGoCommand(realGo, os.Args[1:]))
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := measurePackages(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1)
	}
}

func measurePackages(ctx context.Context, packages []string) error {
	chosen, err := chooseFloors(packages)
	if err != nil {
		return err
	}

	g, err := newGremlins(ctx)
	if err != nil {
		return err
	}
	defer os.RemoveAll(g.dir)

	var results []result

	for _, f := range chosen {
		r, err := g.measurePackage(ctx, f)
		if err != nil {
			return fmt.Errorf("failed to measure %s: %w", f.pkg, err)
		}

		results = append(results, r)
	}

	fmt.Print(formatTable(results))

	return belowFloors(results)
}

// chooseFloors returns the floors of the given packages. Without packages, it returns all floors.
func chooseFloors(packages []string) ([]floor, error) {
	if len(packages) == 0 {
		return floors, nil
	}

	var out []floor

	for _, name := range packages {
		name = filepath.ToSlash(filepath.Clean(name))

		i := slices.IndexFunc(floors, func(f floor) bool { return f.pkg == name })
		if i < 0 {
			return nil, fmt.Errorf("package %s has no floor; add it to hack/mutations/main.go", name)
		}

		out = append(out, floors[i])
	}

	return out, nil
}

// gremlins runs gremlins.
type gremlins struct {
	// root is the root of the checkout.
	root string
	// program is the path of gremlins. environment is its environment.
	program     string
	environment []string
	// dir is a temporary folder.
	dir string
}

// newGremlins builds gremlins unless it is in the cache.
func newGremlins(ctx context.Context) (*gremlins, error) {
	tools, err := toolchain.New()
	if err != nil {
		return nil, err
	}

	if err := tools.Build(ctx, "gremlins"); err != nil {
		return nil, err
	}

	program, err := tools.Path("gremlins", "gremlins")
	if err != nil {
		return nil, err
	}

	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("failed to find this program: %w", err)
	}

	realGo, err := exec.LookPath("go")
	if err != nil {
		return nil, fmt.Errorf("failed to find go: %w", err)
	}

	dir, err := os.MkdirTemp("", "mutations-")
	if err != nil {
		return nil, fmt.Errorf("failed to make a temporary folder: %w", err)
	}

	if err := os.Symlink(self, filepath.Join(dir, "go")); err != nil {
		return nil, errors.Join(fmt.Errorf("failed to stand in for go: %w", err), os.RemoveAll(dir))
	}

	path := dir + string(os.PathListSeparator) + os.Getenv("PATH")

	return &gremlins{
		root:        tools.Root(),
		program:     program,
		environment: append(os.Environ(), "PATH="+path, goCommandEnv+"="+realGo),
		dir:         dir,
	}, nil
}

// measurePackage runs gremlins for one package.
func (g *gremlins) measurePackage(ctx context.Context, f floor) (result, error) {
	start := time.Now()
	fmt.Fprintf(os.Stderr, "mutations: %s\n", f.pkg)

	coefficient, err := g.measureCoefficient(ctx, f)
	if err != nil {
		return result{}, err
	}

	// Otherwise, gremlins counts mutants in files that are not compiled on this platform.
	ignored, err := g.goCommand(ctx, "list", "-f", `{{join .IgnoredGoFiles "\n"}}`, "./"+f.pkg)
	if err != nil {
		return result{}, err
	}

	output := filepath.Join(g.dir, strings.ReplaceAll(f.pkg, "/", "-")+".json")
	args := []string{
		"unleash", "--output", output, "--output-statuses", "lt",
		"--timeout-coefficient", strconv.Itoa(coefficient),
	}

	for _, file := range strings.Fields(ignored) {
		args = append(args, "--exclude-files", "^"+regexp.QuoteMeta(file)+"$")
	}

	command := exec.CommandContext(ctx, g.program, append(args, "./"+f.pkg)...)
	command.Dir, command.Env, command.Stdout, command.Stderr = g.root, g.environment, os.Stderr, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	if err := command.Run(); err != nil {
		return result{}, fmt.Errorf("gremlins: %w", err)
	}

	r, err := readResult(f, output)
	r.elapsed = time.Since(start)

	return r, err
}

// measureCoefficient returns the time limit of a mutant as a multiple of the duration of the unchanged tests.
func (g *gremlins) measureCoefficient(ctx context.Context, f floor) (int, error) {
	// Gremlins takes the time of its first run as the duration of the tests. Therefore, this call compiles their
	// dependencies before.
	if _, err := g.goCommand(ctx, testFlags("test", "-cover", "-run", "^$", "./"+f.pkg)...); err != nil {
		return 0, err
	}

	start := time.Now()
	if _, err := g.goCommand(ctx, testFlags("test", "-cover", "./"+f.pkg)...); err != nil {
		return 0, err
	}

	return max(timeoutCoefficient, int(leastTimeout/time.Since(start))+1), nil
}

// goCommand runs the real go and returns its output.
func (g *gremlins) goCommand(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = g.root
	output, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, output)
	}

	return string(output), nil
}
