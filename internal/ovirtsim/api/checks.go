package api

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file has checks of what a request must have, and the refusals of those that lack it.

// camel is where a word begins in the engine's names of elements.
var camel = regexp.MustCompile(`[A-Z]`)

// require refuses a request without one of the elements; each may list alternatives, such as cluster.id|name. They are
// spelled as the engine spells them in its refusal, such as dataCenter.
func require(in *wire.Element, what string, elements ...string) error {
	if missing := lacking(in, elements...); len(missing) > 0 {
		return incomplete(what, missing...)
	}

	return nil
}

// lacking are those of the elements that a request does not have.
func lacking(in *wire.Element, elements ...string) []string {
	var missing []string

	for _, want := range elements {
		path, alternatives, _ := strings.Cut(want, ".")

		var found *wire.Element
		for _, name := range strings.Split(path, "|") {
			found = cmp.Or(found, in.Get(camel.ReplaceAllStringFunc(name, func(letter string) string {
				return "_" + strings.ToLower(letter)
			})))
		}

		if alternatives == "" && (found == nil || found.Text == "" && len(found.Kids) == 0 && len(found.Attrs) == 0) {
			missing = append(missing, want)
			continue
		}

		present := alternatives == ""
		for _, one := range strings.Split(alternatives, "|") {
			present = present || one == "id" && found.Attr("id") != "" || found.Value(one) != ""
		}

		if !present {
			missing = append(missing, want)
		}
	}

	return missing
}

func incomplete(what string, missing ...string) error { return incompleteFor("add", what, missing...) }

// incompleteFor is incomplete for a method of the engine that is not "add".
func incompleteFor(method, what string, missing ...string) error {
	return &wire.Refusal{
		Status: http.StatusBadRequest,
		Reason: "Incomplete parameters",
		Detail: fmt.Sprintf("%s [%s] required for %s", what, strings.Join(missing, ", "), method),
	}
}

// mandatory refuses a request without an element that the description of the API demands.
func mandatory(in *wire.Element, root string, path ...string) error {
	if in.Has(path...) {
		return nil
	}

	return notMandatory("Parameter '%s.%s' is mandatory but was not provided.", root, strings.Join(path, "."))
}

// mandatoryRef refuses a reference that has neither an ID nor a name.
func mandatoryRef(in *wire.Element, path string) error {
	if wire.RefID(in) != "" || in.Value("name") != "" {
		return nil
	}

	return notMandatory("Parameters '%s.id' or '%s.name' are mandatory but both were not provided.", path, path)
}

func notMandatory(format string, args ...any) error {
	return &wire.Refusal{
		Status: http.StatusBadRequest,
		Reason: "Input validation failed.",
		Detail: fmt.Sprintf(format, args...),
		Bare:   true,
	}
}

// checkRef refuses a reference whose ID is no UUID.
func checkRef(e *wire.Element) error {
	if id := wire.RefID(e); id != "" && uuid.Validate(id) != nil {
		return wire.BadUUID(id)
	}

	return nil
}
