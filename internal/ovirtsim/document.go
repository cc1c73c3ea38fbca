package ovirtsim

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

// element is a document of the API, or a part of one, in the shape that its XML and its JSON have in common. Documents
// are built as they are sent and never changed afterwards, so they can be encoded without a lock.
//
// None of this is shared with internal/engine on purpose: an element that the client spells wrongly must fail against
// the simulator.
type element struct {
	name  string
	attrs []attribute
	text  string
	kids  []*element
	// item says that the element is one of several of its name, which JSON shows as an array.
	item bool
	// structured says that the element has parts, even if it is empty now.
	structured bool
}

type attribute struct{ name, value string }

// attributeNames are the members of a JSON object that XML has as attributes.
var attributeNames = map[string]bool{"id": true, "href": true, "rel": true}

func el(name string) *element { return &element{name: name, structured: true} }

// leaf is an element with nothing but text.
func leaf(name, text string) *element { return &element{name: name, text: text} }

// clone copies a document, for one that is kept must not change when links in an answer are followed.
func (e *element) clone() *element {
	if e == nil {
		return nil
	}
	out := *e
	out.kids = nil // so that copies are equal
	for _, kid := range e.kids {
		out.kids = append(out.kids, kid.clone())
	}
	return &out
}

func (e *element) set(name, value string) *element {
	if value != "" {
		e.attrs = append(e.attrs, attribute{name, value})
	}
	return e
}

// add appends children; nil ones are left out.
func (e *element) add(kids ...*element) *element {
	for _, kid := range kids {
		if kid != nil {
			e.kids = append(e.kids, kid)
		}
	}
	return e
}

func (e *element) str(name, value string) *element { return e.add(leaf(name, value)) }

// opt adds a text that is left out when it is empty.
func (e *element) opt(name, value string) *element {
	if value == "" {
		return e
	}
	return e.str(name, value)
}

func (e *element) num(name string, value int64) *element {
	return e.str(name, strconv.FormatInt(value, 10))
}

func (e *element) flag(name string, value bool) *element {
	return e.str(name, strconv.FormatBool(value))
}

// replace puts an element in the place of that of the name, or takes it away where there is none.
func (e *element) replace(name string, with *element) {
	at := slices.IndexFunc(e.kids, func(kid *element) bool { return kid.name == name })
	switch {
	case at < 0:
		e.add(with)
	case with == nil:
		e.kids = slices.Delete(e.kids, at, at+1)
	default:
		e.kids[at] = with
	}
}

// items appends children that are a list in JSON.
func (e *element) items(kids ...*element) *element {
	for _, kid := range kids {
		kid.item = true
		e.kids = append(e.kids, kid)
	}
	return e
}

func (e *element) attr(name string) string {
	if e == nil {
		return ""
	}
	for _, a := range e.attrs {
		if a.name == name {
			return a.value
		}
	}
	return ""
}

// get walks down to a child; nil where there is none. It works on nil.
func (e *element) get(path ...string) *element {
	for _, name := range path {
		if e == nil {
			return nil
		}
		var found *element
		for _, kid := range e.kids {
			if kid.name == name {
				found = kid
				break
			}
		}
		e = found
	}
	return e
}

// list returns the children of a name below a path, such as the host of hosts.
func (e *element) list(path ...string) []*element {
	last := path[len(path)-1]
	var out []*element
	if parent := e.get(path[:len(path)-1]...); parent != nil {
		for _, kid := range parent.kids {
			if kid.name == last {
				out = append(out, kid)
			}
		}
	}
	return out
}

func (e *element) has(path ...string) bool { return e.get(path...) != nil }

// value is the text below a path, "" where there is none.
func (e *element) value(path ...string) string {
	if found := e.get(path...); found != nil {
		return found.text
	}
	return ""
}

// number is the number below a path, 0 where there is none; parse has checked that it is one.
func (e *element) number(path ...string) int64 {
	n, _ := strconv.ParseInt(e.value(path...), 10, 64)
	return n
}

// yes is the boolean below a path, false where there is none; parse has checked that it is one.
func (e *element) yes(path ...string) bool { return e.value(path...) == "true" }

// MarshalText keeps documents in the state folder as XML.
func (e *element) MarshalText() ([]byte, error) {
	var out bytes.Buffer
	e.writeXML(&out)
	return out.Bytes(), nil
}

// UnmarshalText is the inverse of MarshalText.
func (e *element) UnmarshalText(text []byte) error {
	parsed, err := parseXML(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if kind := api().roots[parsed.name]; kind != "" {
		if err := api().shape(parsed, kind); err != nil {
			return err
		}
	}
	*e = *parsed
	return nil
}

func (e *element) writeXML(out *bytes.Buffer) {
	out.WriteByte('<')
	out.WriteString(e.name)
	for _, a := range e.attrs {
		out.WriteByte(' ')
		out.WriteString(a.name)
		out.WriteString(`="`)
		_ = xml.EscapeText(out, []byte(a.value))
		out.WriteByte('"')
	}
	if e.text == "" && len(e.kids) == 0 {
		out.WriteString("/>")
		return
	}
	out.WriteByte('>')
	if e.text != "" {
		_ = xml.EscapeText(out, []byte(e.text))
	}
	for _, kid := range e.kids {
		kid.writeXML(out)
	}
	out.WriteString("</")
	out.WriteString(e.name)
	out.WriteByte('>')
}

// times are the elements that hold a time. In JSON it is a number, of milliseconds since 1970.
var times = map[string]bool{"creation_time": true, "start_time": true, "stop_time": true, "end_time": true, "time": true, "date": true, "last_updated": true}

// writeValue writes a text as JSON.
func (e *element) writeValue(out *bytes.Buffer) {
	if times[e.name] {
		if at, err := time.Parse(time.RFC3339, e.text); err == nil {
			out.WriteString(strconv.FormatInt(at.UnixMilli(), 10))
			return
		}
	}
	writeString(out, e.text)
}

// writeJSON writes the element without its name, as the engine does: every value but a time is a string, attributes are
// members, and elements of a list are an array.
func (e *element) writeJSON(out *bytes.Buffer) {
	if len(e.attrs) == 0 && len(e.kids) == 0 && !e.structured {
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
	for _, a := range e.attrs {
		member(a.name)
		writeString(out, a.value)
	}
	done := map[string]bool{}
	for i, kid := range e.kids {
		if !kid.item {
			member(kid.name)
			kid.writeJSON(out)
			continue
		}
		if done[kid.name] {
			continue
		}
		done[kid.name] = true
		member(kid.name)
		out.WriteByte('[')
		kid.writeJSON(out)
		for _, other := range e.kids[i+1:] {
			if other.item && other.name == kid.name {
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
	if err != nil { // a string always encodes
		panic(err)
	}
	out.Write(encoded)
}

// parseXML reads exactly one document.
func parseXML(from io.Reader) (*element, error) {
	decoder := xml.NewDecoder(from)
	var root *element
	var open []*element
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
			if len(open) > maxDepth {
				return nil, errors.New("it is nested too deeply")
			}
			made := &element{name: t.Name.Local}
			for _, a := range t.Attr {
				if a.Name.Space == "" && a.Name.Local != "xmlns" {
					made.attrs = append(made.attrs, attribute{a.Name.Local, a.Value})
				}
			}
			switch {
			case len(open) > 0:
				parent := open[len(open)-1]
				parent.kids = append(parent.kids, made)
			case root != nil:
				return nil, errors.New("there is something behind the document")
			default:
				root = made
			}
			open = append(open, made)
		case xml.EndElement:
			done := open[len(open)-1]
			if len(done.kids) > 0 {
				done.text = "" // the white space between elements
			}
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].text += string(t)
			} else if strings.TrimSpace(string(t)) != "" {
				return nil, errors.New("there is text outside of the document")
			}
		}
	}
}

// parseJSON reads one object as the document of a name.
func parseJSON(from io.Reader, root string) (*element, error) {
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

// maxDepth bounds documents: none of the API comes near it.
const maxDepth = 64

// elementName is what an element may be called.
var elementName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// sortedKeys are the keys of a map in an order.
func sortedKeys[V any](m map[string]V) []string {
	keys := slices.Collect(maps.Keys(m))
	slices.Sort(keys)
	return keys
}

func fromJSON(name string, value any, depth int) (*element, error) {
	if !elementName.MatchString(name) {
		return nil, fmt.Errorf("%q is not the name of an element", name)
	}
	if depth > maxDepth {
		return nil, errors.New("it is nested too deeply")
	}
	out := &element{name: name}
	switch v := value.(type) {
	case nil:
	case string:
		out.text = v
	case json.Number:
		out.text = v.String()
	case bool:
		out.text = strconv.FormatBool(v)
	case map[string]any:
		for _, key := range sortedKeys(v) {
			if text, isText := v[key].(string); isText && attributeNames[key] {
				out.set(key, text)
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
				kid.item = isList
				out.kids = append(out.kids, kid)
			}
		}
	default:
		return nil, fmt.Errorf("%s is a list of lists", name)
	}
	return out, nil
}
