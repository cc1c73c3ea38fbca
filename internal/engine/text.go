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

// textFilter limits the text of an XML element. Names and comments appear in messages, tables, configurations and file
// names, and anybody who may rename a VM in the engine controls them. The filter shortens long text and replaces
// unprintable characters with U+FFFD. It returns no error, because one bad VM must not hide the others.
type textFilter struct {
	// bounded reports that the filter applies; left is the number of characters that are still allowed.
	bounded bool
	left    int
	// lines reports that the text may have line breaks and tabs.
	lines bool
}

// newTextFilter returns the filter for the text of an element.
func newTextFilter(element string) textFilter {
	switch element {
	case "name", "alias", "fqdn":
		return textFilter{bounded: true, left: maxName}
	case "comment", "description":
		return textFilter{bounded: true, left: maxText, lines: true}
	default:
		return textFilter{}
	}
}

// filter returns the part of a text that is allowed. A text may come in several parts.
func (p *textFilter) filter(part xml.CharData) xml.CharData {
	if !p.bounded {
		return part
	}

	text := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r), unicode.Is(unicode.Zs, r), p.lines && (r == '\n' || r == '\r' || r == '\t'):
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
