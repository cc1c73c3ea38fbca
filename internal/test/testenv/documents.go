package testenv

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ReadDocuments returns the documents that contain commands for users, by their paths in the checkout.
func ReadDocuments(t *testing.T) map[string]string {
	t.Helper()
	root := Toolchain(t).Root()
	out := map[string]string{}

	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "config/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}

		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}

			name, _ := filepath.Rel(root, file)
			out[name] = string(content)
		}
	}

	if len(out) < 25 {
		t.Fatalf("there are %d documents", len(out))
	}

	return out
}

var (
	begins = regexp.MustCompile(
		`^(bin/)?(olvmctl|ovirtsim|make|kubectl|clusterctl|export|terraform [^{]|openssl|for|[A-Za-z]+=\S+)( |$)`,
	)
	span = regexp.MustCompile("`((?:olvmctl|make) [^`]*)`")
)

// CommandBlocks returns the commands in a document. These are the indented and fenced blocks that begin with a command,
// without their indentation, and the commands in the text.
func CommandBlocks(text string) []string {
	var out, block []string
	end := func() {
		if len(block) > 0 && begins.MatchString(block[0]) {
			out = append(out, strings.Join(block, "\n"))
		}

		block = nil
	}
	fenced := false

	for line := range strings.SplitSeq(text, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case strings.HasPrefix(trimmed, "```"):
			end()
			fenced = !fenced
		case fenced || len(line)-len(trimmed) >= 4 && trimmed != "":
			block = append(block, trimmed)
		default:
			end()

			for _, match := range span.FindAllStringSubmatch(line, -1) {
				out = append(out, match[1])
			}
		}
	}

	end()

	return out
}

// shell matches a block of commands in a document, even inside a list item.
var shell = regexp.MustCompile("(?ms)^( *)```sh\n(.*?)^ *```$")

// ReadSection returns the blocks of commands below a heading of a document, in their order.
func ReadSection(t *testing.T, document, heading string) []string {
	t.Helper()
	_, section, found := strings.Cut(ReadDocuments(t)[document], "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", document, heading)
	}

	section, _, _ = strings.Cut(section, "\n## ")

	var out []string

	for _, block := range shell.FindAllStringSubmatch(section, -1) {
		var commands strings.Builder
		for line := range strings.Lines(block[2]) {
			commands.WriteString(strings.TrimPrefix(line, block[1]))
		}

		out = append(out, commands.String())
	}

	if len(out) == 0 {
		t.Fatalf("section %q of %s has no commands", heading, document)
	}

	return out
}
