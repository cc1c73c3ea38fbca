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

// This file contains checks of required elements in requests, and the refusals of incomplete ones.

// camel matches the start of a word in the engine's element names.
var camel = regexp.MustCompile(`[A-Z]`)

// requireElements rejects a request without one of the elements. Each may list alternatives, such as cluster.id|name.
// The spelling is the engine's in its refusal, such as dataCenter.
func requireElements(in *wire.Element, what string, elements ...string) error {
	if missing := missingElements(in, elements...); len(missing) > 0 {
		return incompleteError(what, missing...)
	}

	return nil
}

// missingElements returns the elements missing in a request.
func missingElements(in *wire.Element, elements ...string) []string {
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

func incompleteError(what string, missing ...string) error {
	return incompleteErrorFor("add", what, missing...)
}

// incompleteErrorFor is like incomplete, for an engine method other than "add".
func incompleteErrorFor(method, what string, missing ...string) error {
	return &wire.Refusal{
		Status: http.StatusBadRequest,
		Reason: "Incomplete parameters",
		Detail: fmt.Sprintf("%s [%s] required for %s", what, strings.Join(missing, ", "), method),
	}
}

// requireParameter rejects a request without an element required by the API description.
func requireParameter(in *wire.Element, root string, path ...string) error {
	if in.Has(path...) {
		return nil
	}

	return invalidInput("Parameter '%s.%s' is mandatory but was not provided.", root, strings.Join(path, "."))
}

// requireRef rejects a reference without an ID and a name.
func requireRef(in *wire.Element, path string) error {
	if wire.RefID(in) != "" || in.Value("name") != "" {
		return nil
	}

	return invalidInput("Parameters '%s.id' or '%s.name' are mandatory but both were not provided.", path, path)
}

func invalidInput(format string, args ...any) error {
	return &wire.Refusal{
		Status: http.StatusBadRequest,
		Reason: "Input validation failed.",
		Detail: fmt.Sprintf(format, args...),
		Bare:   true,
	}
}

// checkRef rejects a reference with an invalid UUID.
func checkRef(e *wire.Element) error {
	if id := wire.RefID(e); id != "" && uuid.Validate(id) != nil {
		return wire.BadUUID(id)
	}

	return nil
}
