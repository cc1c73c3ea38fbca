// Package shellword quotes words in commands that users copy to a shell.
package shellword

import (
	"regexp"
	"strings"
)

// plain matches words that need no quotes in a shell.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,-]+$`)

// QuoteWord quotes a word for a shell, if necessary.
func QuoteWord(word string) string {
	if plain.MatchString(word) {
		return word
	}

	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
