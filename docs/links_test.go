// Package docs tests the documentation.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```$|`[^`\n]+`") // blocks and words of code
	blocks  = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	marked  = regexp.MustCompile(`<a id="([^"]+)"></a>`)
	noWord  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the anchors of a page: GitHub's for its headings, and the page's own.
func anchors(content string) map[string]bool {
	out := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(blocks.ReplaceAllString(content, ""), -1) {
		out[strings.ReplaceAll(noWord.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")] = true
	}

	for _, match := range marked.FindAllStringSubmatch(content, -1) {
		out[match[1]] = true
	}

	return out
}

// TestLinksLeadSomewhere follows the links within the repository, with their anchors.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, followed := 0, 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		if entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "out" || entry.Name() == "bin") {
			return filepath.SkipDir
		}

		if filepath.Ext(path) != ".md" {
			return nil
		}

		pages++
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}

		for _, match := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(content), ""), -1) {
			if strings.Contains(match[1], "://") || strings.HasPrefix(match[1], "mailto:") {
				continue
			}

			followed++
			file, anchor, _ := strings.Cut(match[1], "#")
			target, page := path, content
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
				if info, err := os.Stat(target); err != nil {
					t.Errorf("%s: %s is not there", path, match[1])
					continue
				} else if info.IsDir() {
					continue
				}

				if page, err = os.ReadFile(target); err != nil {
					return err
				}
			}

			if anchor != "" && !anchors(string(page))[anchor] {
				t.Errorf("%s: %s has no heading %s", path, target, anchor)
			}
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	if pages < 15 || followed < 50 {
		t.Errorf("only %d links on %d pages were found", followed, pages)
	}
}
