// Package plaintext makes text of strangers safe for terminals and reports.
package plaintext

import (
	"strings"
	"unicode"
)

// OneLine returns a text without line breaks and other characters that control a terminal, or that a reader does not
// see. A text of manifests, or of an engine, can so forge no line of a report.
func OneLine(text string) string { return Printable(strings.ReplaceAll(text, "\n", " ")) }

// unseen are the characters that change the order of others, or that a reader does not see. The empty pattern of
// Braille is in none of these tables.
var unseen = []*unicode.RangeTable{unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Variation_Selector,
	unicode.Other_Default_Ignorable_Code_Point}

// Printable replaces the characters that control a terminal, or change the order of others. Tabs and line breaks stay.
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
