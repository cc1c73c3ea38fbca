package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryAttackHasItsTest reads the table of attacks: each row names tests, and a function exists for each.
func TestEveryAttackHasItsTest(t *testing.T) {
	content, err := os.ReadFile("operate/security.md")
	if err != nil {
		t.Fatal(err)
	}

	_, table, _ := strings.Cut(string(content), "## Attacks that are replayed")
	table, _, _ = strings.Cut(table, "\n## ")
	functions := testFunctions(t)
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	rows := 0

	for line := range strings.SplitSeq(table, "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| item") {
			continue
		}

		rows++
		tests := named.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			t.Errorf("no test: %s", line)
		}

		for _, test := range tests {
			if !functions[test[1]] {
				t.Errorf("there is no %s", test[1])
			}
		}
	}

	if rows < 15 {
		t.Errorf("the table has %d rows", rows)
	}
}

// testFunctions returns the names of all tests and fuzz targets of the project.
func testFunctions(t *testing.T) map[string]bool {
	t.Helper()
	functions := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}

		source, err := os.ReadFile(path)
		for _, match := range declared.FindAllSubmatch(source, -1) {
			functions[string(match[1])] = true
		}

		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	return functions
}

// TestTheThreatModelNamesTests reads the tables of the threat model: each test named there exists.
func TestTheThreatModelNamesTests(t *testing.T) {
	content, err := os.ReadFile("operate/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}

	functions := testFunctions(t)
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(content), -1)
	if len(named) < 25 {
		t.Errorf("%d tests are named", len(named))
	}

	for _, name := range named {
		if !functions[name[1]] {
			t.Errorf("there is no %s", name[1])
		}
	}
}
