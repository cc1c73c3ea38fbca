// Package shellword writes words into commands that people copy into a shell.
package shellword

import (
	"regexp"
	"strings"
)

// plain is what a shell takes as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]+$`)

// QuoteWord quotes a word for a shell, unless the shell takes it as it is.
func QuoteWord(word string) string {
	if plain.MatchString(word) {
		return word
	}

	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
