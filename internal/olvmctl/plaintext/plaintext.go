// Package plaintext makes text from strangers safe for terminals and reports.
package plaintext

import (
	"strings"
	"unicode"
)

// OneLine returns a text without line breaks, and without characters that control a terminal or are invisible. A text
// from manifests or from an engine can therefore not forge a line in a report.
func OneLine(text string) string { return Printable(strings.ReplaceAll(text, "\n", " ")) }

// unseen are the characters that reorder other characters, or are invisible. The empty Braille pattern is in none of
// these tables.
var unseen = []*unicode.RangeTable{unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Variation_Selector,
	unicode.Other_Default_Ignorable_Code_Point}

// Printable replaces characters that control a terminal, reorder other characters or are invisible. It keeps tabs and
// line breaks.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}

		if unicode.IsControl(r) || unicode.In(r, unseen...) || r == '\u2800' {
			return unicode.ReplacementChar
		}

		return r
	}, text)
}
