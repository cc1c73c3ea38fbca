package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestGremlinsLearnsWhatBecameOfAMutant(t *testing.T) {
	tests := map[string]struct {
		script string
		want   int
	}{
		"tests that pass let the mutant live": {"echo ok", 0},
		"tests that fail kill it":             {"echo FAIL; exit 1", 1},
		"a mutant that does not compile is not killed": {
			"echo '# a/b' >&2; echo 'FAIL a/b [build failed]'; exit 1",
			2,
		},
		"any other exit status is passed on": {"exit 3", 3},
		"the tests get our flags": {
			`[ "$*" = "test -short -count=1 -vet=off -trimpath -failfast a/b" ] || exit 9`,
			0,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := runGoCommand(scriptOf(t, test.script), []string{"test", "-failfast", "a/b"})
			check.Equal(t, "exit status", got, test.want)
		})
	}

	check.Equal(t, "exit status without a go command", runGoCommand("/nonexistent/go", []string{"test"}), 1)
	check.Equal(t, "exit status of a download", runGoCommand(scriptOf(t, "exit 1"), []string{"mod", "download"}), 0)
}

// scriptOf writes a shell script as an executable, and returns its path.
func scriptOf(t *testing.T, script string) string {
	t.Helper()

	path := filepath.Join(t.TempDir(), "go")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}

	return path
}

func TestConditionsOfASwitchThatRanAreCovered(t *testing.T) {
	const source = `package p

func f(a, b int) int {
	switch {
	case a > b,
		a == 0:
		return 1
	case b > 1:
		return 2
	default:
		return 3
	}
}

func g(a int) bool {
	switch {
	case a > 0:
		return true
	}

	return false
}
`
	const (
		file    = module + "/p/p.go"
		ofF     = file + ":3.22,4.9 1 4\n"
		firstOf = file + ":7.11,8.2 1 0\n"
		ofG     = file + ":15.20,16.9 1 0\n"
	)
	read := func(name string) ([]byte, error) {
		check.Equal(t, "file", name, "p/p.go")

		return []byte(source), nil
	}

	tests := map[string]struct{ profile, want, problem string }{
		"each condition of the switch that ran, though no case did": {
			profile: "mode: set\n" + ofF + firstOf + ofG,
			want:    file + ":5.7,6.9 1 1\n" + file + ":8.7,8.12 1 1\n",
		},
		"nothing ran":                     {profile: "mode: set\n" + ofG},
		"a line that has another format":  {profile: file + ":3.22-4.9\n", problem: "failed to read the line"},
		"a profile without any statement": {profile: "mode: set\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := missingConditions(test.profile, read)
			check.Error(t, err, test.problem)
			check.Equal(t, "added lines", got, test.want)
		})
	}
}

func TestAProfileIsExtendedInPlace(t *testing.T) {
	t.Chdir(t.TempDir())
	profile := filepath.Join(t.TempDir(), "coverage")
	const before = "mode: set\n" + module + "/p.go:3.17,4.9 1 1\n"

	for path, content := range map[string]string{
		profile: before,
		"p.go":  "package p\n\nfunc f(a int) {\n\tswitch {\n\tcase a > 1:\n\t}\n}\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	got := runGoCommand(scriptOf(t, "exit 0"), []string{"test", "-cover", "-coverprofile", profile, "./..."})
	check.Equal(t, "exit status", got, 0)

	after, err := os.ReadFile(profile)
	check.Error(t, err, "")
	check.Equal(t, "profile", string(after), before+module+"/p.go:5.7,5.12 1 1\n")
}

// outputOf returns the output of gremlins for one file, with the given number of mutants of each status.
func outputOf(t *testing.T, statuses map[string]int) string {
	t.Helper()

	var mutations []string
	line := 0

	for status, n := range statuses {
		for range n {
			line++
			mutations = append(mutations,
				fmt.Sprintf(`{"type":"ARITHMETIC_BASE","status":%q,"line":%d,"column":7}`, status, line))
		}
	}

	path := filepath.Join(t.TempDir(), "out.json")
	content := `{"files":[{"file_name":"a.go","mutations":[` + strings.Join(mutations, ",") + `]}]}`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}

	return path
}

func TestAPackageBelowItsFloorIsAnError(t *testing.T) {
	tests := map[string]struct {
		statuses map[string]int
		floor    floor
		problems []string
	}{
		"exactly at both floors": {
			map[string]int{killed: 17, lived: 3, notCovered: 20}, floor{"a", 85, 50}, nil,
		},
		"below both floors": {
			map[string]int{killed: 8, lived: 2, notCovered: 11}, floor{"a", 85, 50},
			[]string{"a: tests notice 80.0 % of", "floor is 85 %", "a: tests run 47.6 % of", "floor is 50 %"},
		},
		"what timed out or does not compile counts for nothing": {
			map[string]int{killed: 1, lived: 1, timedOut: 9, notViable: 9}, floor{"a", 51, 100},
			[]string{"a: tests notice 50.0 % of"},
		},
		"no mutant was run": {
			map[string]int{notCovered: 1}, floor{"a", 85, 0}, []string{"a: tests notice 0.0 % of"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := readResult(test.floor, outputOf(t, test.statuses))
			check.Error(t, err, "")

			err = belowFloors([]result{r})
			check.Equal(t, "is an error", err != nil, len(test.problems) > 0)

			for _, problem := range test.problems {
				check.Error(t, err, problem)
			}

			check.Equal(t, "coverage is named", err != nil && strings.Contains(err.Error(), "tests run"),
				len(test.problems) > 1)
		})
	}
}

func TestTheTableHasEachMutantThatLived(t *testing.T) {
	r, err := readResult(floor{pkg: "some/package"}, outputOf(t, map[string]int{lived: 1}))
	check.Error(t, err, "")

	r.mutants = append(r.mutants, mutant{"b.go", 4, 2, "CONDITIONALS_NEGATION", killed},
		mutant{"b.go", 5, 2, "CONDITIONALS_NEGATION", notCovered}, mutant{"b.go", 6, 2, "ARITHMETIC_BASE", timedOut})

	got := formatTable([]result{r})
	header, lines, _ := strings.Cut(got, "\n")
	row, rest, _ := strings.Cut(lines, "\n")
	check.Equal(t, "header", strings.Join(strings.Fields(header), " "),
		"package mutants covered killed lived timed out not viable killed % covered % seconds")
	check.Equal(t, "row", strings.Join(strings.Fields(row), " "), "some/package 4 3 1 1 1 0 50.0 66.7 0")
	check.Equal(t, "rest", rest, "\nNo test notices:\n  some/package/a.go:1:7 ARITHMETIC_BASE\n")
}

func TestPackagesAreChosenByTheirFolders(t *testing.T) {
	all, err := chooseFloors(nil)
	check.Error(t, err, "")
	check.Equal(t, "all", all, floors)

	one, err := chooseFloors([]string{"./internal/tfstate/"})
	check.Error(t, err, "")
	check.Length(t, "one", one, 1)
	check.Equal(t, "package", one[0].pkg, "internal/tfstate")

	_, err = chooseFloors([]string{"internal"})
	check.Error(t, err, "package internal has no floor")
}
