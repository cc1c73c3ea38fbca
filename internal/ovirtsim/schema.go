package ovirtsim

import (
	_ "embed"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// This file has what the API knows: the elements of its documents, and the methods of its paths.

//go:embed schema.txt
var schemaText string

// child is an element of a type.
type child struct {
	// kind is one of the primitive kinds, else the name of an enum or of a type.
	kind string
	// item is the name of each of several; empty where the element is no list.
	item string
}

// The primitive kinds.
const (
	kindText    = "s"
	kindInteger = "i"
	kindBoolean = "b"
	kindDate    = "d"
	kindDecimal = "f"
)

// service is what answers at a path.
type service struct {
	name string
	// methods are add, get, list, remove, update, and actions by their path with a leading "!".
	methods []string
	// paths leads to the services below, by the segment of the path; "{}" takes an ID.
	paths map[string]string
}

// schema is the parsed schema.txt.
type schema struct {
	enums map[string][]string
	// types by name, and the name of the type of a root element.
	types map[string]map[string]child
	roots map[string]string
	// services by name.
	services map[string]*service
}

// api is parsed when it is first needed: programs that only have a simulator to offer start without it.
var api = sync.OnceValue(func() *schema { return parseSchema(schemaText) })

func parseSchema(text string) *schema {
	out := &schema{enums: map[string][]string{}, types: map[string]map[string]child{}, roots: map[string]string{}, services: map[string]*service{}}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch words[0] {
		case "enum":
			out.enums[words[1]] = words[2:]
		case "type":
			members := map[string]child{}
			for _, word := range words[3:] {
				name, kind, _ := strings.Cut(word, ":")
				kind, item, _ := strings.Cut(kind, "*")
				members[name] = child{kind: kind, item: item}
			}
			out.types[words[1]] = members
			out.roots[words[2]] = words[1]
		case "service":
			made := &service{name: words[1], paths: map[string]string{}}
			at := slices.Index(words, "|")
			made.methods = words[2:at]
			for _, word := range words[at+1:] {
				segment, target, _ := strings.Cut(word, "=")
				made.paths[segment] = target
			}
			out.services[made.name] = made
		}
	}
	// What the published model does not have, and the engine does.
	out.types["Fault"] = map[string]child{"reason": {kind: kindText}, "detail": {kind: kindText}}
	for kind, members := range map[string]map[string]child{
		"Action":      {"status": {kind: kindText}, "fault": {kind: "Fault"}, "job": {kind: "Job"}, "ticket": {kind: "Ticket"}, "grace_period": {kind: "GracePeriod"}},
		"GracePeriod": {"expiry": {kind: kindInteger}},
		"Display":     {"video_type": {kind: kindText}},
	} {
		if out.types[kind] == nil {
			out.types[kind] = map[string]child{}
		}
		maps.Copy(out.types[kind], members)
	}
	return out
}

// at finds what answers a path below /api, given by its segments: a service, or an action of one.
func (s *schema) at(segments []string) (found *service, action string) {
	found = s.services["system"]
	for i, segment := range segments {
		target, ok := found.paths[segment]
		if !ok {
			target, ok = found.paths["{}"]
		}
		if !ok && i == len(segments)-1 && slices.Contains(found.methods, "!"+segment) {
			return found, segment
		}
		if found = s.services[target]; !ok || found == nil {
			return nil, ""
		}
	}
	return found, ""
}

// httpMethods are what a service or an action of one can be asked, in the engine's order.
func (s *service) httpMethods(action string) []string {
	if action != "" {
		return []string{http.MethodPost, http.MethodOptions}
	}
	var out []string
	has := func(method string) bool { return slices.Contains(s.methods, method) }
	for _, one := range []struct {
		name string
		is   bool
	}{
		{http.MethodHead, has("get") || has("list")}, {http.MethodDelete, has("remove")}, {http.MethodPost, has("add")},
		{http.MethodGet, has("get") || has("list")}, {http.MethodOptions, true}, {http.MethodPut, has("update")},
	} {
		if one.is {
			out = append(out, one.name)
		}
	}
	return out
}

// invalidValue is a text that its element cannot have, as opposed to one that is no document.
func invalidValue(format string, args ...any) error {
	return &refusal{status: http.StatusBadRequest, reason: "Invalid value", detail: fmt.Sprintf(format, args...)}
}

// errSyntax says that a document is not one of the API; the refusal names the documentation of the method.
var errSyntax = fmt.Errorf("the document is not one of the API")

// shape checks a parsed document against a type, and gives it the form in which it is stored and sent: lists are marked,
// and booleans are true or false.
func (s *schema) shape(e *element, kind string) error {
	e.structured = true
	if len(e.kids) > 0 {
		e.text = ""
	}
	members := s.types[kind]
	for _, kid := range e.kids {
		m, known := members[kid.name]
		if !known && kid.name == "id" && len(kid.kids) == 0 { // some clients write it as an element in JSON
			continue
		}
		if !known {
			return errSyntax
		}
		if err := s.shapeMember(kid, m); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) shapeMember(e *element, m child) error {
	if m.item == "" {
		return s.shapeValue(e, m.kind)
	}
	e.structured = true
	if len(e.kids) == 0 && strings.TrimSpace(e.text) != "" {
		return errSyntax
	}
	e.text = ""
	for _, kid := range e.kids {
		if kid.name != m.item {
			return errSyntax
		}
		kid.item = true
		if err := s.shapeValue(kid, m.kind); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) shapeValue(e *element, kind string) error {
	if s.types[kind] != nil {
		if len(e.kids) == 0 && strings.TrimSpace(e.text) != "" {
			return errSyntax
		}
		return s.shape(e, kind)
	}
	if len(e.kids) > 0 {
		return errSyntax
	}
	if e.text == "" || kind == kindText {
		return nil
	}
	switch kind {
	case kindInteger:
		return checkInteger(e.text)
	case kindDecimal:
		if _, err := strconv.ParseFloat(e.text, 64); err != nil {
			return errSyntax
		}
	case kindBoolean:
		switch strings.ToLower(e.text) {
		case "true", "1":
			e.text = "true"
		case "false", "0":
			e.text = "false"
		default:
			return invalidValue(`Value "%s" isn't a valid boolean, it should be "true" , "false", "0" or "1"`, e.text)
		}
	case kindDate:
	default:
		values := s.enums[kind]
		if !slices.Contains(values, strings.ToLower(e.text)) {
			return invalidValue("The string '%s' isn't a valid value for the '%s' enumerated type. Valid values are: '%s'.", e.text, kind, strings.Join(values, "', '"))
		}
		e.text = strings.ToLower(e.text)
	}
	return nil
}

func checkInteger(text string) error {
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return nil
	}
	n, ok := new(big.Int).SetString(text, 10)
	switch {
	case !ok:
		return errSyntax
	case n.Sign() > 0:
		return invalidValue("Value %s is greater than maximum long 9223372036854775807", text)
	default:
		return invalidValue("Value %s is less than minimum long -9223372036854775808", text)
	}
}
