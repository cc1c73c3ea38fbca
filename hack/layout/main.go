// Command layout measures how readable code and documents are, and fails if a figure is worse than its limit.
//
//	go run ./hack/layout
//
// It checks functions of five lines or more, and names and prose, except in tests and generated files. CONTRIBUTING.md
// has the limits of functions. The linters (lll, gocognit) check wide lines and entangled functions. lll omits tests,
// so this command counts their wide lines.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	// smallest is the minimum height of functions that count, in lines.
	smallest = 5
	// tall is the maximum height of a function in lines.
	tall = 60
	// long is the maximum height of a function without a blank line. At most maxSolids functions may exceed it; most of
	// these are schemas and tables.
	long      = 25
	maxSolids = 20
	// solids and talls are the names of functions above these limits.
	minBlanks = 0.10
	// widest is the maximum width of a line, in columns; a tab counts tabWidth. maxWide lines of tests may exceed it.
	// That is today's figure: lower it when the figure falls.
	widest   = 120
	tabWidth = 4
	maxWide  = 720
)

// count holds the figures so far.
type count struct {
	functions, blank, code int
	// wide counts the lines of tests over the width.
	wide int
	// solids and talls name functions.
	solids, talls []string
	comments      prose
	names         names
}

func main() {
	var c count
	err := c.countFolder(".")
	var documents prose
	if err == nil {
		err = documents.addDocuments(".")
	}

	if err == nil {
		err = errors.Join(c.checkLimits(), checkWords(c.comments, documents, c.names))
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, "layout:", err)
		os.Exit(1)
	}
}

// countFolder counts all files below a folder.
func (c *count) countFolder(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		name := entry.Name()
		hidden := strings.HasPrefix(name, ".") && path != root
		if entry.IsDir() && (hidden || name == "testdata") {
			return filepath.SkipDir
		}

		generated := strings.HasPrefix(name, "zz_")

		switch {
		case strings.HasSuffix(name, "_test.go"):
			return c.testFile(path)
		case filepath.Ext(name) != ".go" || generated:
			return nil
		}

		return c.countFile(path)
	})
}

func (c *count) countFile(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, content, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return err
	}

	for _, comment := range file.Comments {
		c.comments.addText(comment.Text())
	}

	lines := strings.Split(string(content), "\n")

	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}

		c.names.addFunction(function)

		first, last := set.Position(function.Body.Lbrace).Line, set.Position(function.Body.Rbrace).Line
		if last-first > smallest {
			c.countFunction(fmt.Sprintf("%s:%d %s", path, first, function.Name.Name), lines[first:last-1])
		}
	}

	return nil
}

// testFile counts the wide lines of a test file.
func (c *count) testFile(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	for line := range strings.Lines(string(content)) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line)+(tabWidth-1)*strings.Count(line, "\t") > widest {
			c.wide++
		}
	}

	return nil
}

func (c *count) countFunction(name string, body []string) {
	blank := 0

	for _, line := range body {
		if strings.TrimSpace(line) == "" {
			blank++
		}
	}

	c.functions++
	c.blank += blank
	c.code += len(body) - blank
	if len(body) > long && blank == 0 {
		c.solids = append(c.solids, name)
	}

	if len(body) > tall {
		c.talls = append(c.talls, name)
	}
}

// checkLimits prints the figures, and returns an error with the figures above their limits.
func (c *count) checkLimits() error {
	ratio := float64(c.blank) / float64(max(c.code, 1))
	fmt.Printf("layout: %d functions, %.3f blank lines per line of code, %d over %d lines without a blank one, "+
		"%d over %d lines\n", c.functions, ratio, len(c.solids), long, len(c.talls), tall)

	var errs []error
	if ratio < minBlanks {
		errs = append(errs, fmt.Errorf("less than %.2f blank lines per line of code", minBlanks))
	}

	fmt.Printf("layout: %d lines of tests over %d columns\n", c.wide, widest)
	if c.wide > maxWide {
		errs = append(errs, fmt.Errorf("more than %d lines of tests over %d columns", maxWide, widest))
	}

	if len(c.solids) > maxSolids {
		errs = append(errs, fmt.Errorf("more than %d functions over %d lines have no blank line:\n  %s",
			maxSolids, long, strings.Join(c.solids, "\n  ")))
	}

	if len(c.talls) > 0 {
		errs = append(errs, fmt.Errorf("functions over %d lines; split them:\n  %s",
			tall, strings.Join(c.talls, "\n  ")))
	}

	return errors.Join(errs...)
}
