package main

import (
	"errors"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

// The limits are today's figures. Lower them when the figures fall. If a change exceeds a limit, it needs shorter
// sentences or longer names. Cluster API, controller-runtime and CAPV have 1.2 to 1.7 relatives per 100 words of
// comments. In them, 16 to 36 % of the functions have a name of one word.
const (
	maxCommentRelatives = 1.45
	maxDocRelatives     = 0.90
	maxOneWord          = 13.0
)

var (
	word     = regexp.MustCompile(`[A-Za-z][A-Za-z'-]*`)
	relative = regexp.MustCompile(`^(?i:that|which|what|where|who|whose|whom)$`)
	// notProse matches those parts of a document that are not sentences.
	notProse = regexp.MustCompile("(?ms)^```.*?^```|^    .*?$|`[^`\n]*`")
)

// prose counts words, and those of them that are relative pronouns or adverbs.
type prose struct{ words, relatives int }

func (p *prose) addText(text string) {
	for _, w := range word.FindAllString(text, -1) {
		p.words++

		if relative.MatchString(w) {
			p.relatives++
		}
	}
}

// relativesPer100 returns the number of relatives per 100 words.
func (p *prose) relativesPer100() float64 {
	return 100 * float64(p.relatives) / float64(max(p.words, 1))
}

// names counts functions, and functions with a name of one word.
type names struct{ functions, oneWord int }

func (n *names) addFunction(function *ast.FuncDecl) {
	n.functions++

	name := function.Name.Name
	if len(name) > 1 && strings.IndexFunc(name[1:], unicode.IsUpper) < 0 {
		n.oneWord++
	}
}

func (n *names) oneWordPercent() float64 {
	return 100 * float64(n.oneWord) / float64(max(n.functions, 1))
}

// addDocuments counts the prose of all Markdown files below a folder, except generated files.
func (p *prose) addDocuments(root string) error {
	files, err := filepath.Glob(filepath.Join(root, "docs", "*", "*.md"))
	if err != nil {
		return fmt.Errorf("failed to list the documents: %w", err)
	}

	for _, file := range append(files, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		if strings.HasSuffix(file, filepath.Join("user", "api.md")) { // generated
			continue
		}

		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("failed to read a document: %w", err)
		}

		p.addText(notProse.ReplaceAllString(string(content), " "))
	}

	return nil
}

// checkWords prints the figures of names and prose, and returns an error with each figure above its limit.
func checkWords(comments, documents prose, functions names) error {
	fmt.Printf("layout: %.2f relatives per 100 words of comments, %.2f of documents; %.1f %% of functions have a name "+
		"of one word\n", comments.relativesPer100(), documents.relativesPer100(), functions.oneWordPercent())

	var errs []error
	if got := comments.relativesPer100(); got > maxCommentRelatives {
		errs = append(errs, fmt.Errorf("more than %.2f relatives per 100 words of comments: %.2f",
			maxCommentRelatives, got))
	}

	if got := documents.relativesPer100(); got > maxDocRelatives {
		errs = append(errs, fmt.Errorf("more than %.2f relatives per 100 words of documents: %.2f",
			maxDocRelatives, got))
	}

	if got := functions.oneWordPercent(); got > maxOneWord {
		errs = append(errs, fmt.Errorf("more than %.1f %% of functions have a name of one word: %.1f %%",
			maxOneWord, got))
	}

	return errors.Join(errs...)
}
