package wire

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

// This file contains the model of the API: the elements of its documents, and the methods of its paths.

//go:embed schema.txt
var schemaText string

// child is a child element in a type.
type child struct {
	// kind is a primitive kind, or the name of an enum or a type.
	kind string
	// item is the name of each element in a list. It is empty if the child is not a list.
	item string
}

// These constants are the primitive kinds.
const (
	kindText    = "s"
	kindInteger = "i"
	kindBoolean = "b"
	kindDate    = "d"
	kindDecimal = "f"
)

// Service is the part of the API at a path.
type Service struct {
	Name string
	// Methods are add, get, list, remove, update, and the paths of actions with a leading "!".
	Methods []string
	// Paths maps a segment of the path to the service below it; "{}" matches an ID.
	Paths map[string]string
}

// schema is the parsed schema.txt.
type schema struct {
	enums map[string][]string
	// types maps names of types to their elements. Roots maps root elements to the names of their types.
	types map[string]map[string]child
	Roots map[string]string
	// Services maps names to services.
	Services map[string]*Service
}

// API returns the schema. It parses the schema at the first use, so programs that only offer a simulator start without
// parsing.
var API = sync.OnceValue(func() *schema { return parseSchema(schemaText) })

func parseSchema(text string) *schema {
	out := &schema{
		enums:    map[string][]string{},
		types:    map[string]map[string]child{},
		Roots:    map[string]string{},
		Services: map[string]*Service{},
	}

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
			out.Roots[words[2]] = words[1]
		case "service":
			made := &Service{Name: words[1], Paths: map[string]string{}}
			at := slices.Index(words, "|")

			made.Methods = words[2:at]
			for _, word := range words[at+1:] {
				segment, target, _ := strings.Cut(word, "=")
				made.Paths[segment] = target
			}

			out.Services[made.Name] = made
		}
	}

	// The following extensions of the engine are missing in the published model.
	out.types["Fault"] = map[string]child{"reason": {kind: kindText}, "detail": {kind: kindText}}
	for kind, members := range map[string]map[string]child{
		"Action": {
			"status":       {kind: kindText},
			"fault":        {kind: "Fault"},
			"job":          {kind: "Job"},
			"ticket":       {kind: "Ticket"},
			"grace_period": {kind: "GracePeriod"},
		},
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

// FindService returns the service that answers a path below /api, given by its segments. For the path of an action, it
// also returns the action.
func (s *schema) FindService(segments []string) (found *Service, action string) {
	found = s.Services["system"]
	for i, segment := range segments {
		target, ok := found.Paths[segment]
		if !ok {
			target, ok = found.Paths["{}"]
		}

		if !ok && i == len(segments)-1 && slices.Contains(found.Methods, "!"+segment) {
			return found, segment
		}

		if found = s.Services[target]; !ok || found == nil {
			return nil, ""
		}
	}

	return found, ""
}

// HTTPMethods returns the methods that a service or one of its actions accepts, in the engine's order.
func (s *Service) HTTPMethods(action string) []string {
	if action != "" {
		return []string{http.MethodPost, http.MethodOptions}
	}

	var out []string

	has := func(method string) bool { return slices.Contains(s.Methods, method) }
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

// InvalidValue returns the error for a text that is invalid in its element, in contrast to a malformed document.
func InvalidValue(format string, args ...any) error {
	return &Refusal{Status: http.StatusBadRequest, Reason: "Invalid value", Detail: fmt.Sprintf(format, args...)}
}

// ErrSyntax reports that a document does not follow the API's model. The refusal names the documentation of the method.
var ErrSyntax = fmt.Errorf("the document is not one of the API")

// NormalizeDocument validates a parsed document against a type, and normalizes it for storage and sending. It marks
// lists, and turns booleans into true or false.
func (s *schema) NormalizeDocument(e *Element, kind string) error {
	e.Structured = true
	if len(e.Kids) > 0 {
		e.Text = ""
	}

	members := s.types[kind]
	for _, kid := range e.Kids {
		m, known := members[kid.Name]
		if !known && kid.Name == "id" && len(kid.Kids) == 0 { // in JSON, some clients send the ID as an element
			continue
		}

		if !known {
			return ErrSyntax
		}

		if err := s.normalizeMember(kid, m); err != nil {
			return err
		}
	}

	return nil
}

func (s *schema) normalizeMember(e *Element, m child) error {
	if m.item == "" {
		return s.normalizeValue(e, m.kind)
	}

	e.Structured = true
	if len(e.Kids) == 0 && strings.TrimSpace(e.Text) != "" {
		return ErrSyntax
	}

	e.Text = ""
	for _, kid := range e.Kids {
		if kid.Name != m.item {
			return ErrSyntax
		}

		kid.Item = true
		if err := s.normalizeValue(kid, m.kind); err != nil {
			return err
		}
	}

	return nil
}

func (s *schema) normalizeValue(e *Element, kind string) error {
	if s.types[kind] != nil {
		if len(e.Kids) == 0 && strings.TrimSpace(e.Text) != "" {
			return ErrSyntax
		}

		return s.NormalizeDocument(e, kind)
	}

	if len(e.Kids) > 0 {
		return ErrSyntax
	}

	if e.Text == "" || kind == kindText {
		return nil
	}

	switch kind {
	case kindInteger:
		return checkInteger(e.Text)
	case kindDecimal:
		if _, err := strconv.ParseFloat(e.Text, 64); err != nil {
			return ErrSyntax
		}
	case kindBoolean:
		switch strings.ToLower(e.Text) {
		case "true", "1":
			e.Text = "true"
		case "false", "0":
			e.Text = "false"
		default:
			return InvalidValue(`Value "%s" isn't a valid boolean, it should be "true" , "false", "0" or "1"`, e.Text)
		}
	case kindDate:
	default:
		values := s.enums[kind]
		if !slices.Contains(values, strings.ToLower(e.Text)) {
			return InvalidValue(
				"The string '%s' isn't a valid value for the '%s' enumerated type. Valid values are: '%s'.", e.Text,
				kind,
				strings.Join(values, "', '"),
			)
		}

		e.Text = strings.ToLower(e.Text)
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
		return ErrSyntax
	case n.Sign() > 0:
		return InvalidValue("Value %s is greater than maximum long 9223372036854775807", text)
	default:
		return InvalidValue("Value %s is less than minimum long -9223372036854775808", text)
	}
}
