// Package plaintext makes text of strangers safe for terminals and reports.
package plaintext

import (
	"strings"
	"unicode"
)

// OneLine returns a text without line breaks and other characters controlling a terminal, or invisible to a reader. A
// text of manifests, or of an engine, thus cannot forge a line of a report.
func OneLine(text string) string { return Printable(strings.ReplaceAll(text, "\n", " ")) }

// unseen are characters reordering others, or invisible to a reader. The empty Braille pattern is in none of these
// tables.
var unseen = []*unicode.RangeTable{unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Variation_Selector,
	unicode.Other_Default_Ignorable_Code_Point}

// Printable replaces characters controlling a terminal, reordering others or invisible to a reader. Tabs and line
// breaks stay.
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
