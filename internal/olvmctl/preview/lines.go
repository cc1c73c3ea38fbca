package preview

import (
	"strings"
	"unicode"
)

// oneLine returns a text without line breaks and other characters that control a terminal, or that a reader does not
// see. A text of manifests, or of an engine, can so forge no line of a report.
func oneLine(text string) string { return Printable(strings.ReplaceAll(text, "\n", " ")) }

// Printable replaces the characters that control a terminal, or change the order of others. Tabs and line breaks stay.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}

		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) {
			return unicode.ReplacementChar
		}

		return r
	}, text)
}
