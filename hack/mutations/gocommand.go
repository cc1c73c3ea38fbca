package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// This program replaces the go command of gremlins v0.6.0, to work around faults of gremlins:
//
//  - It cannot pass -short to the tests.
//  - It reads exit status 2 as a mutant failing to compile, and 1 as one killed by a test. Today's go test exits with 1
//    for both, so each "+" between strings would be a killed mutant.
//  - It takes a cached test result for the duration of the tests, and then all mutants time out.
//  - It copies the checkout for each worker. Without -trimpath each copy compiles the whole module once more.
//  - It reads coverage profiles, which have no block for the conditions of a switch: they would never be mutated.
//  - It downloads all modules of go.sum, twice as many as the tests need.
//
// Some faults remain. Each minus counts twice, because two kinds of mutants turn it into a plus. Package-level
// constants and variables count as not covered. Mutants whose tests time out count neither as killed nor as alive.

// goCommandEnv is the environment variable with the path of the real go command. If it is set, this program runs as the
// replacement of the go command.
const goCommandEnv = "MUTATIONS_GO"

// module is the path of the project's Go module.
const module = "github.com/capolvm/cluster-api-provider-olvm"

// These constants are exit statuses of go test with their meaning for gremlins.
const (
	statusKilled    = 1
	statusNotViable = 2
)

// testFlags inserts the flags of all test runs after the word "test". It turns vet off, because the tests should find
// the mutants.
func testFlags(args ...string) []string {
	return slices.Insert(args, 1, "-short", "-count=1", "-vet=off", "-trimpath")
}

// runGoCommand runs the real go command, and returns the exit status that gremlins expects.
func runGoCommand(realGo string, args []string) int {
	if len(args) > 0 && args[0] == "mod" {
		return 0 // the tests are already compiled, so all modules are present
	}

	if len(args) > 0 && args[0] == "test" {
		args = testFlags(args...)
	}

	var output bytes.Buffer
	command := exec.Command(realGo, args...) //nolint:gosec,noctx // gremlins is the caller, and ends it
	command.Stdout, command.Stderr = io.MultiWriter(os.Stdout, &output), os.Stderr
	err := command.Run()
	if err == nil {
		err = coverConditions(args)
	}

	var failed *exec.ExitError
	switch {
	case err == nil:
		return 0
	case bytes.Contains(output.Bytes(), []byte("[build failed]")):
		return statusNotViable
	case errors.As(err, &failed):
		return failed.ExitCode()
	default:
		fmt.Fprintln(os.Stderr, "mutations:", err)
		return statusKilled
	}
}

// coverConditions adds the conditions of executed switches to the coverage profile, if the arguments request a profile.
func coverConditions(args []string) error {
	i := slices.Index(args, "-coverprofile")
	if i < 0 {
		return nil
	}

	profile, err := os.ReadFile(args[i+1])
	if err != nil {
		return fmt.Errorf("failed to read the coverage profile: %w", err)
	}

	added, err := missingConditions(string(profile), func(file string) ([]byte, error) {
		return os.ReadFile(filepath.FromSlash(file))
	})
	if err != nil {
		return err
	}

	return os.WriteFile(args[i+1], append(profile, added...), 0o600)
}

// block is an executed part of a file, from one line and column to another.
type block struct{ fromLine, fromColumn, toLine, toColumn int }

func (b block) containsPosition(p token.Position) bool {
	after := p.Line > b.fromLine || p.Line == b.fromLine && p.Column >= b.fromColumn
	before := p.Line < b.toLine || p.Line == b.toLine && p.Column < b.toColumn

	return after && before
}

// missingConditions returns the lines that a coverage profile lacks: a block for the conditions of each case of an
// executed switch. Names of files are relative to the module.
func missingConditions(profile string, read func(file string) ([]byte, error)) (string, error) {
	ran := map[string][]block{}

	for line := range strings.Lines(profile) {
		file, position, ok := strings.Cut(strings.TrimPrefix(line, module+"/"), ".go:")
		if !ok {
			continue // this line contains the mode
		}

		var b block
		var statements, count int
		_, err := fmt.Sscanf(position, "%d.%d,%d.%d %d %d", &b.fromLine, &b.fromColumn, &b.toLine, &b.toColumn,
			&statements, &count)
		if err != nil {
			return "", fmt.Errorf("failed to read the line %q of the coverage profile: %w", line, err)
		}

		if count > 0 {
			ran[file+".go"] = append(ran[file+".go"], b)
		}
	}

	var out strings.Builder

	for file, blocks := range ran {
		content, err := read(file)
		if err != nil {
			return "", fmt.Errorf("failed to read a file of the coverage profile: %w", err)
		}

		if err := writeConditions(&out, file, content, blocks); err != nil {
			return "", err
		}
	}

	return out.String(), nil
}

// writeConditions writes the lines for one file. The parameter ran contains the executed blocks of the file.
func writeConditions(out io.Writer, file string, content []byte, ran []block) error {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, content, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("failed to parse a file of the coverage profile: %w", err)
	}

	ast.Inspect(tree, func(node ast.Node) bool {
		choice, ok := node.(*ast.SwitchStmt)
		if !ok {
			return true
		}

		at := set.Position(choice.Switch)
		if !slices.ContainsFunc(ran, func(b block) bool { return b.containsPosition(at) }) {
			return true
		}

		for _, statement := range choice.Body.List {
			clause, ok := statement.(*ast.CaseClause)
			if !ok || len(clause.List) == 0 {
				continue
			}

			from, to := set.Position(clause.List[0].Pos()), set.Position(clause.Colon)
			fmt.Fprintf(out, "%s/%s:%d.%d,%d.%d 1 1\n", module, file, from.Line, from.Column, to.Line, to.Column)
		}

		return true
	})

	return nil
}
