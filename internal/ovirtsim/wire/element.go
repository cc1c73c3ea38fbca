package wire

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Element is a document of the API or a part of one, in a form common to XML and JSON. A document does not change after
// it is sent, so encoding it needs no lock.
type Element struct {
	Name  string
	Attrs []attribute
	Text  string
	Kids  []*Element
	// Item reports that the element is one of several with the same name. In JSON, these are an array.
	Item bool
	// Structured reports that the element can have children, even if it has none now.
	Structured bool
}

type attribute struct{ name, Value string }

// attributeNames are the members of JSON objects that are attributes in XML.
var attributeNames = map[string]bool{"id": true, "href": true, "rel": true}

// El returns a new element that can have children.
func El(name string) *Element { return &Element{Name: name, Structured: true} }

// NewLeaf returns an element that contains only a text.
func NewLeaf(name, text string) *Element { return &Element{Name: name, Text: text} }

// Clone returns a copy of a document. A stored document must not change when a response replaces links in it.
func (e *Element) Clone() *Element {
	if e == nil {
		return nil
	}

	out := *e

	out.Kids = nil // so that the copy equals the original
	for _, kid := range e.Kids {
		out.Kids = append(out.Kids, kid.Clone())
	}

	return &out
}

// SetAttr sets an attribute, unless the value is empty.
func (e *Element) SetAttr(name, value string) *Element {
	if value != "" {
		e.Attrs = append(e.Attrs, attribute{name, value})
	}

	return e
}

// Add appends children; it ignores nil.
func (e *Element) Add(kids ...*Element) *Element {
	for _, kid := range kids {
		if kid != nil {
			e.Kids = append(e.Kids, kid)
		}
	}

	return e
}

// Str adds a child with a text.
func (e *Element) Str(name, value string) *Element { return e.Add(NewLeaf(name, value)) }

// StrIfSet adds a child with a text, unless the text is empty.
func (e *Element) StrIfSet(name, value string) *Element {
	if value == "" {
		return e
	}

	return e.Str(name, value)
}

// Num adds a child with a number.
func (e *Element) Num(name string, value int64) *Element {
	return e.Str(name, strconv.FormatInt(value, 10))
}

// Flag adds a child with the value true or false.
func (e *Element) Flag(name string, value bool) *Element {
	return e.Str(name, strconv.FormatBool(value))
}

// ReplaceKid replaces the child with a name. If with is nil, it removes the child.
func (e *Element) ReplaceKid(name string, with *Element) {
	at := slices.IndexFunc(e.Kids, func(kid *Element) bool { return kid.Name == name })
	switch {
	case at < 0:
		e.Add(with)
	case with == nil:
		e.Kids = slices.Delete(e.Kids, at, at+1)
	default:
		e.Kids[at] = with
	}
}

// AddItems appends children that are a list in JSON.
func (e *Element) AddItems(kids ...*Element) *Element {
	for _, kid := range kids {
		kid.Item = true
		e.Kids = append(e.Kids, kid)
	}

	return e
}

// Attr returns the value of an attribute, or "". The element may be nil.
func (e *Element) Attr(name string) string {
	if e == nil {
		return ""
	}

	for _, a := range e.Attrs {
		if a.name == name {
			return a.Value
		}
	}

	return ""
}

// Get returns the child at a path, or nil. The element may be nil.
func (e *Element) Get(path ...string) *Element {
	for _, name := range path {
		if e == nil {
			return nil
		}

		var found *Element

		for _, kid := range e.Kids {
			if kid.Name == name {
				found = kid
				break
			}
		}

		e = found
	}

	return e
}

// List returns the children with the last name of a path, such as the host elements of hosts.
func (e *Element) List(path ...string) []*Element {
	last := path[len(path)-1]
	var out []*Element
	if parent := e.Get(path[:len(path)-1]...); parent != nil {
		for _, kid := range parent.Kids {
			if kid.Name == last {
				out = append(out, kid)
			}
		}
	}

	return out
}

// Has reports whether an element exists at a path.
func (e *Element) Has(path ...string) bool { return e.Get(path...) != nil }

// Value returns the text below a path, or "".
func (e *Element) Value(path ...string) string {
	if found := e.Get(path...); found != nil {
		return found.Text
	}

	return ""
}

// Number returns the number below a path, or 0. The parser has already validated it.
func (e *Element) Number(path ...string) int64 {
	n, _ := strconv.ParseInt(e.Value(path...), 10, 64)
	return n
}

// IsTrue returns the boolean below a path, or false. The parser has already validated it.
func (e *Element) IsTrue(path ...string) bool { return e.Value(path...) == "true" }

// MarshalText encodes the element as XML, for the state folder.
func (e *Element) MarshalText() ([]byte, error) {
	var out bytes.Buffer
	e.writeXML(&out)
	return out.Bytes(), nil
}

// UnmarshalText is the inverse of MarshalText.
func (e *Element) UnmarshalText(text []byte) error {
	parsed, err := ParseXML(bytes.NewReader(text))
	if err != nil {
		return err
	}

	if kind := API().Roots[parsed.Name]; kind != "" {
		if err := API().NormalizeDocument(parsed, kind); err != nil {
			return err
		}
	}

	*e = *parsed

	return nil
}

func (e *Element) writeXML(out *bytes.Buffer) {
	out.WriteByte('<')
	out.WriteString(e.Name)

	for _, a := range e.Attrs {
		out.WriteByte(' ')
		out.WriteString(a.name)
		out.WriteString(`="`)
		_ = xml.EscapeText(out, []byte(a.Value))
		out.WriteByte('"')
	}

	if e.Text == "" && len(e.Kids) == 0 {
		out.WriteString("/>")
		return
	}

	out.WriteByte('>')
	if e.Text != "" {
		_ = xml.EscapeText(out, []byte(e.Text))
	}

	for _, kid := range e.Kids {
		kid.writeXML(out)
	}

	out.WriteString("</")
	out.WriteString(e.Name)
	out.WriteByte('>')
}

// times are the names of elements that contain a time. In JSON, a time is a number: the milliseconds since 1970.
var times = map[string]bool{
	"creation_time": true,
	"start_time":    true,
	"stop_time":     true,
	"end_time":      true,
	"time":          true,
	"date":          true,
	"last_updated":  true,
}

// writeValue writes a text as a JSON value.
func (e *Element) writeValue(out *bytes.Buffer) {
	if times[e.Name] {
		if at, err := time.Parse(time.RFC3339, e.Text); err == nil {
			out.WriteString(strconv.FormatInt(at.UnixMilli(), 10))
			return
		}
	}

	writeString(out, e.Text)
}

// writeJSON writes the element without its name, in the form of the engine. Every value except a time is a string,
// attributes are members, and the elements of a list are an array.
func (e *Element) writeJSON(out *bytes.Buffer) {
	if len(e.Attrs) == 0 && len(e.Kids) == 0 && !e.Structured {
		e.writeValue(out)
		return
	}

	out.WriteByte('{')
	first := true

	member := func(name string) {
		if !first {
			out.WriteByte(',')
		}

		first = false
		writeString(out, name)
		out.WriteByte(':')
	}
	for _, a := range e.Attrs {
		member(a.name)
		writeString(out, a.Value)
	}

	done := map[string]bool{}

	for i, kid := range e.Kids {
		if !kid.Item {
			member(kid.Name)
			kid.writeJSON(out)
			continue
		}

		if done[kid.Name] {
			continue
		}

		done[kid.Name] = true
		member(kid.Name)
		out.WriteByte('[')
		kid.writeJSON(out)

		for _, other := range e.Kids[i+1:] {
			if other.Item && other.Name == kid.Name {
				out.WriteByte(',')
				other.writeJSON(out)
			}
		}

		out.WriteByte(']')
	}

	out.WriteByte('}')
}

func writeString(out *bytes.Buffer, text string) {
	encoded, err := json.Marshal(text)
	if err != nil { // a string can always be encoded
		panic(err)
	}

	out.Write(encoded)
}

// ParseXML reads exactly one document.
func ParseXML(from io.Reader) (*Element, error) {
	decoder := xml.NewDecoder(from)
	var root *Element
	var open []*Element

	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			if root == nil {
				return nil, errors.New("there is no document")
			}

			return root, nil
		}

		if err != nil {
			return nil, err
		}

		switch t := token.(type) {
		case xml.StartElement:
			made, err := beginElement(t, open, root)
			if err != nil {
				return nil, err
			}

			if root == nil {
				root = made
			}

			open = append(open, made)
		case xml.EndElement:
			done := open[len(open)-1]
			if len(done.Kids) > 0 {
				done.Text = "" // only white space between elements
			}

			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].Text += string(t)
			} else if strings.TrimSpace(string(t)) != "" {
				return nil, errors.New("there is text outside of the document")
			}
		}
	}
}

// beginElement creates the element for a start tag, as a child of the last open element.
func beginElement(tag xml.StartElement, open []*Element, root *Element) (*Element, error) {
	if len(open) > maxDepth {
		return nil, errors.New("it is nested too deeply")
	}

	if len(open) == 0 && root != nil {
		return nil, errors.New("there is something behind the document")
	}

	made := &Element{Name: tag.Name.Local}
	for _, a := range tag.Attr {
		if a.Name.Space == "" && a.Name.Local != "xmlns" {
			made.Attrs = append(made.Attrs, attribute{a.Name.Local, a.Value})
		}
	}

	if len(open) > 0 {
		parent := open[len(open)-1]
		parent.Kids = append(parent.Kids, made)
	}

	return made, nil
}

// ParseJSON reads one object as a document with the given root name.
func ParseJSON(from io.Reader, root string) (*Element, error) {
	decoder := json.NewDecoder(from)
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}

	if decoder.More() {
		return nil, errors.New("there is something behind the document")
	}

	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("the document is not an object")
	}

	return fromJSON(root, object, 0)
}

// maxDepth is the maximum depth of documents. It is far above the depth of any document in the API.
const maxDepth = 64

// elementName matches valid element names.
var elementName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// SortedKeys returns the sorted keys of a map.
func SortedKeys[V any](m map[string]V) []string {
	keys := slices.Collect(maps.Keys(m))
	slices.Sort(keys)
	return keys
}

func fromJSON(name string, value any, depth int) (*Element, error) {
	if !elementName.MatchString(name) {
		return nil, fmt.Errorf("%q is not the name of an element", name)
	}

	if depth > maxDepth {
		return nil, errors.New("it is nested too deeply")
	}

	out := &Element{Name: name}

	switch v := value.(type) {
	case nil:
	case string:
		out.Text = v
	case json.Number:
		out.Text = v.String()
	case bool:
		out.Text = strconv.FormatBool(v)
	case map[string]any:
		for _, key := range SortedKeys(v) {
			if text, isText := v[key].(string); isText && attributeNames[key] {
				out.SetAttr(key, text)
				continue
			}

			values, isList := v[key].([]any)
			if !isList {
				values = []any{v[key]}
			}

			for _, one := range values {
				kid, err := fromJSON(key, one, depth+1)
				if err != nil {
					return nil, err
				}

				kid.Item = isList
				out.Kids = append(out.Kids, kid)
			}
		}
	default:
		return nil, fmt.Errorf("%s is a list of lists", name)
	}

	return out, nil
}

// SetText sets the text at a path of a document, and creates missing elements.
func (e *Element) SetText(value string, path ...string) *Element {
	at := e
	for _, name := range path {
		next := at.Get(name)
		if next == nil {
			next = El(name)
			at.Add(next)
		}

		at = next
	}

	at.Text = value
	at.Structured = false

	return e
}

// MergeRequest applies the elements of a request to the element. It replaces lists and texts, and merges structures.
func (e *Element) MergeRequest(in *Element, skip []string) {
	for _, kid := range in.Kids {
		if slices.Contains(skip, kid.Name) {
			continue
		}

		isList := slices.ContainsFunc(kid.Kids, func(k *Element) bool { return k.Item })

		there := e.Get(kid.Name)
		switch {
		case there == nil:
			e.Add(kid.Clone())
		case isList || len(kid.Kids) == 0:
			there.Kids, there.Text, there.Attrs = kid.Clone().Kids, kid.Text, kid.Attrs
		default:
			there.MergeRequest(kid, nil)
		}
	}
}
