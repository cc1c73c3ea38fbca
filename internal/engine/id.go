package engine

import (
	"encoding/xml"
	"fmt"
	"net/url"
	"regexp"
)

// ID is the UUID of an object of the engine, in lower case and with dashes.
//
// The client treats an engine as hostile input, because tenants choose its URL. IDs become parts of paths, of addresses
// in Terraform's state and of import IDs. The decoder therefore refuses the whole answer if an ID is not a UUID.
type ID string

var uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// ParseID parses an ID. It fails unless the text is a UUID in the engine's form.
func ParseID(text string) (ID, error) {
	if !uuidForm.MatchString(text) {
		return "", fmt.Errorf("%q is not a UUID", abridgeText(text))
	}

	return ID(text), nil
}

// UnmarshalXMLAttr decodes the ID in an answer.
func (id *ID) UnmarshalXMLAttr(attr xml.Attr) error {
	parsed, err := ParseID(attr.Value)
	if err != nil {
		return fmt.Errorf("the engine names an object by an ID that is none: %w", err)
	}

	*id = parsed

	return nil
}

// String returns the ID as text.
func (id ID) String() string { return string(id) }

// pathSegment returns the ID as one segment of a path. An ID from a tenant's state may contain any text.
func (id ID) pathSegment() string {
	if _, err := ParseID(string(id)); err != nil {
		return url.PathEscape("not-a-uuid:" + string(id))
	}

	return string(id)
}

// abridgeText returns the beginning of a text, enough to recognize it.
func abridgeText(text string) string { return abridgeTo(60, text) }

// abridgeTo returns a text, shortened to limit characters.
func abridgeTo(limit int, text string) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}

	return text
}
