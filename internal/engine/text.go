package engine

import (
	"encoding/xml"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxName limits names in characters. No object of an engine can have a longer name.
	maxName = 255
	// maxText limits a comment or a description in characters.
	maxText = 64 << 10
)

// textFilter limits the text of an XML element. Names and comments appear in messages, tables, configurations and file
// names, but anyone with the right to rename a VM controls them. The filter shortens long texts, and replaces
// unprintable characters with U+FFFD. It returns no error, because one bad VM must not hide the others.
type textFilter struct {
	// bounded reports whether the filter applies. left is the number of characters still allowed.
	bounded bool
	left    int
	// lines reports whether the text may have line breaks and tabs.
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

// filterText returns the allowed characters of a part. The decoder may split a text into several parts.
func (p *textFilter) filterText(part xml.CharData) xml.CharData {
	if !p.bounded {
		return part
	}

	text := strings.Map(func(r rune) rune {
		if p.allowsRune(r) {
			return r
		}

		return utf8.RuneError
	}, string(part))

	if runes := []rune(text); len(runes) > p.left {
		text = string(runes[:p.left])
	}

	p.left -= utf8.RuneCountInString(text)

	return xml.CharData(text)
}

// allowsRune reports whether the filter keeps a character.
func (p *textFilter) allowsRune(r rune) bool {
	return unicode.IsPrint(r) || unicode.Is(unicode.Zs, r) || p.lines && (r == '\n' || r == '\r' || r == '\t')
}

// CheckText refuses a text that would change on the way to the engine or back. The error names the first bad character
// and its position. It omits the text, because the text may be secret. element is the name of the XML element,
// attribute or field: names and descriptions allow fewer characters than other texts.
func CheckText(element, text string) error {
	line, column := 1, 1

	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])

		switch {
		case r == utf8.RuneError && size == 1:
			return fmt.Errorf("character %d of line %d is not UTF-8 (byte 0x%02X), which XML cannot carry to the "+
				"engine; remove it, or encode the text in UTF-8", column, line, text[i])
		case !isXML(r):
			return fmt.Errorf("character %d of line %d is %s, which XML cannot carry to the engine; remove it",
				column, line, formatCodePoint(r))
		}

		filter := newTextFilter(element)
		if filter.bounded && !filter.allowsRune(r) {
			return fmt.Errorf("character %d of line %d is %s, which cannot be printed; remove it",
				column, line, formatCodePoint(r))
		}

		column++
		if r == '\n' {
			line, column = line+1, 1
		}
	}

	if filter := newTextFilter(element); filter.bounded && utf8.RuneCountInString(text) > filter.left {
		return fmt.Errorf("it has more than %d characters; shorten it", filter.left)
	}

	return nil
}

// isXML reports whether a character is allowed in XML 1.0, escaped or not.
func isXML(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r <= 0xD7FF || r >= 0xE000 && r <= 0xFFFD ||
		r >= 0x10000 && r <= unicode.MaxRune
}

// formatCodePoint names an unprintable character.
func formatCodePoint(r rune) string {
	known := map[rune]string{
		0: " (NUL)", '\a': " (bell)", '\b': " (backspace)", '\t': " (tab)", '\n': " (line break)",
		'\v': " (vertical tab)", '\f': " (form feed)", '\r': " (carriage return)", 0x1b: " (escape)", 0x7f: " (delete)",
	}

	return fmt.Sprintf("U+%04X%s", r, known[r])
}

// TextError reports that a value has a text that cannot be sent.
type TextError struct {
	// Path is the path of the field, such as virtualMachine.description.
	Path    string
	Problem error
}

func (e *TextError) Error() string { return e.Path + ": " + e.Problem.Error() }

func (e *TextError) Unwrap() error { return e.Problem }

// CheckTexts calls CheckText for all texts of a value, at any depth. The error is a *TextError. tag is the key of the
// struct tag with the names of the fields, such as xml or json.
func CheckTexts(tag string, value any) error {
	return checkTexts(tag, reflect.ValueOf(value), "", "")
}

func checkTexts(tag string, value reflect.Value, path, element string) error {
	switch value.Kind() {
	case reflect.String:
		if err := CheckText(element, value.String()); err != nil {
			return &TextError{Path: path, Problem: err}
		}
	case reflect.Pointer, reflect.Interface:
		if !value.IsNil() {
			return checkTexts(tag, value.Elem(), path, element)
		}
	case reflect.Slice, reflect.Array:
		for i := range value.Len() {
			if err := checkTexts(tag, value.Index(i), path+"["+strconv.Itoa(i)+"]", element); err != nil {
				return err
			}
		}
	case reflect.Map:
		return checkMap(tag, value, path)
	case reflect.Struct:
		return checkFields(tag, value, path, element)
	}

	return nil
}

// checkMap checks the keys and values of a map.
func checkMap(tag string, value reflect.Value, path string) error {
	for _, key := range value.MapKeys() {
		if err := checkTexts(tag, key, path+" (a key)", ""); err != nil {
			return err
		}

		if err := checkTexts(tag, value.MapIndex(key), fmt.Sprintf("%s[%v]", path, key), ""); err != nil {
			return err
		}
	}

	return nil
}

// checkFields checks the fields of a struct that the encoder would send.
func checkFields(tag string, value reflect.Value, path, element string) error {
	for i := range value.NumField() {
		field := value.Type().Field(i)
		name, options, _ := strings.Cut(field.Tag.Get(tag), ",")

		if !field.IsExported() || name == "-" || field.Type == reflect.TypeFor[xml.Name]() {
			continue
		}

		below, own := path, element

		if name != "" && !field.Anonymous {
			own = name[strings.LastIndex(name, ">")+1:]
			below = strings.TrimPrefix(path+"."+name, ".")
		} else if !field.Anonymous && !strings.Contains(options, "chardata") {
			own, below = field.Name, strings.TrimPrefix(path+"."+field.Name, ".")
		}

		if err := checkTexts(tag, value.Field(i), below, own); err != nil {
			return err
		}
	}

	return nil
}
