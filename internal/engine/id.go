package engine

import (
	"encoding/xml"
	"fmt"
	"net/url"
	"regexp"
)

// ID is the UUID of an object of the engine, in lower case and with dashes.
//
// An engine is hostile input: its URL is a tenant's to choose. IDs go into paths, into addresses of Terraform's state
// and into IDs of imports, so that an answer with an ID that is no UUID is refused as a whole, while it is decoded.
type ID string

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// ParseID reads an ID; it fails on what is no UUID as engines write them.
func ParseID(text string) (ID, error) {
	if !uuidForm.MatchString(text) {
		return "", fmt.Errorf("%q is not a UUID", abridged(text))
	}

	return ID(text), nil
}

// UnmarshalXMLAttr reads the ID of an answer.
func (id *ID) UnmarshalXMLAttr(attr xml.Attr) error {
	parsed, err := ParseID(attr.Value)
	if err != nil {
		return fmt.Errorf("the engine names an object by an ID that is none: %w", err)
	}

	*id = parsed

	return nil
}

// String is the ID as text.
func (id ID) String() string { return string(id) }

// segment is the ID as one step of a path. An ID of a state that a tenant wrote may be anything.
func (id ID) segment() string {
	if _, err := ParseID(string(id)); err != nil {
		return url.PathEscape("not-a-uuid:" + string(id))
	}

	return string(id)
}

// abridged is the beginning of a text that is only there to be recognized.
func abridged(text string) string { return abridgedTo(60, text) }

// abridgedTo is a text, or its beginning if it has more characters than the limit.
func abridgedTo(limit int, text string) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}

	return text
}
