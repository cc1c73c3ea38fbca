package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryTestThatADocumentNamesExists reads all Markdown files of the project, even without a table of tests.
func TestEveryTestThatADocumentNamesExists(t *testing.T) {
	functions := testFunctions(t)
	named := regexp.MustCompile(`\b((?:Test|Fuzz|Benchmark)[A-Z]\w+)\b`)
	count := 0

	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".md") {
			return err
		}

		content, err := os.ReadFile(path)
		for _, match := range named.FindAllStringSubmatch(string(content), -1) {
			count++

			if !functions[match[1]] {
				t.Errorf("%s: there is no %s", path, match[1])
			}
		}

		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	if count < 50 {
		t.Errorf("the documents name %d tests", count)
	}
}
