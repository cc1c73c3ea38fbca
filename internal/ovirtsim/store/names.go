package store

import (
	"slices"
	"strings"
	"unicode"
)

// PlainName says whether a name has nothing but letters of any language, digits, and - _ and a dot.
func PlainName(name string) bool {
	return name != "" && strings.IndexFunc(name, func(c rune) bool { return !isNameRune(c) }) < 0
}

// Member adds an ID to a set or takes it out, and says whether that changed anything.
func Member(set *[]string, id string, in bool) bool {
	at := slices.Index(*set, id)
	switch {
	case in && at < 0:
		*set = append(*set, id)
	case !in && at >= 0:
		*set = slices.Delete(*set, at, at+1)
	default:
		return false
	}
	return true
}

func isNameRune(c rune) bool {
	return unicode.IsLetter(c) || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}
