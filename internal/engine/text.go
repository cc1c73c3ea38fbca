package engine

import (
	"encoding/xml"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxName is the length of a name in characters: no object of an engine can have a longer one.
	maxName = 255
	// maxText is the length of a comment or a description in characters.
	maxText = 64 << 10
)

// plainText is what the text of an element may have. Names and comments go into messages, tables, comments of
// configurations and names of files, and whoever may rename a VM in the engine writes them. A text that has more is
// shortened, and each character that is not allowed becomes the replacement character: such a name is equal to none
// that somebody asks for. It is no error, because one VM would hide all others.
type plainText struct {
	// bounded reports that not every text is allowed; left is how many characters more it may have then.
	bounded bool
	left    int
	// lines reports that the text may have line breaks and tabs.
	lines bool
}

// plainTextOf returns what the text of the element of a name may have.
func plainTextOf(element string) plainText {
	switch element {
	case "name", "alias", "fqdn":
		return plainText{bounded: true, left: maxName}
	case "comment", "description":
		return plainText{bounded: true, left: maxText, lines: true}
	default:
		return plainText{}
	}
}

// plain returns the part of a text that is allowed. A text may come in several parts.
func (p *plainText) plain(part xml.CharData) xml.CharData {
	if !p.bounded {
		return part
	}

	text := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r), p.lines && (r == '\n' || r == '\r' || r == '\t'):
			return r
		default:
			return utf8.RuneError
		}
	}, string(part))

	if runes := []rune(text); len(runes) > p.left {
		text = string(runes[:p.left])
	}

	p.left -= utf8.RuneCountInString(text)

	return xml.CharData(text)
}
