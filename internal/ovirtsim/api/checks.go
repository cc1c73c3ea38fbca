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

// This file contains the checks for required elements in requests, and the errors for incomplete requests.

// camel matches the start of a word in the engine's element names.
var camel = regexp.MustCompile(`[A-Z]`)

// requireElements rejects a request if an element is missing. An element may list alternatives, such as
// cluster.id|name. Its spelling is that of the engine's refusal, such as dataCenter.
func requireElements(in *wire.Element, what string, elements ...string) error {
	if missing := missingElements(in, elements...); len(missing) > 0 {
		return incompleteError(what, missing...)
	}

	return nil
}

// missingElements returns the required elements that the request lacks.
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

// incompleteErrorFor returns the engine's error for missing elements in a call of the given engine method.
func incompleteErrorFor(method, what string, missing ...string) error {
	return &wire.Refusal{
		Status: http.StatusBadRequest,
		Reason: "Incomplete parameters",
		Detail: fmt.Sprintf("%s [%s] required for %s", what, strings.Join(missing, ", "), method),
	}
}

// requireParameter rejects a request without an element that the API description requires.
func requireParameter(in *wire.Element, root string, path ...string) error {
	if in.Has(path...) {
		return nil
	}

	return invalidInput("Parameter '%s.%s' is mandatory but was not provided.", root, strings.Join(path, "."))
}

// requireRef rejects a reference with neither an ID nor a name.
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
