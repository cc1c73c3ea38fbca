package templates

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// hostile are values that YAML reads as something else than a text unless they are quoted.
var hostile = []string{
	"010", "8", "1e3", "0x1F", "1_000", "-0", ".5", "true", "No", "null", "~", "2026-01-01", "12:30:45", "kvm #2", "a: b",
	"- a", "? a", "*a", "&a", "!a", "%a", "@a", "`a", "|", ">", "{a}", "[a]", "{a: b}", " a ", `a\nb`, `"a"`, `C:\vm`,
	"a\tb", "ümläut", "=", "<<",
}

// notText are the variables of numbers, and of lists with commas between the elements.
var notText = regexp.MustCompile(`(?:_COUNT|_PORT|_CORES|_SOCKETS|_SECONDS|_BITS|ADDRESSES|ADDRESSES_IPV6)$|^NODES_LOST_AT_MOST$`)

// TestAVariableOfATemplateIsTheTextThatTheUserGave has clusterctl fill in values that YAML reads as something else. Each
// must reach the fields of its variable as it is.
func TestAVariableOfATemplateIsTheTextThatTheUserGave(t *testing.T) {
	names, err := fs.Glob(Files, "*.yaml")
	check.Error(t, err, "")

	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			template, err := fs.ReadFile(Files, name)
			check.Error(t, err, "")

			variables, err := yamlprocessor.NewSimpleProcessor().GetVariables(template)
			check.Error(t, err, "")

			texts := slices.DeleteFunc(variables, notText.MatchString)

			// Marks tell which fields have which variables. No text of a template contains one.
			plain := textsOf(t, name, fill(t, template, texts, mark))
			for _, value := range hostile {
				filled := textsOf(t, name, fill(t, template, texts, func(string) string { return value }))
				check.Length(t, "the texts with "+value, filled, len(plain))

				for i, text := range plain {
					want := text
					for _, variable := range texts {
						want = strings.ReplaceAll(want, mark(variable), value)
					}

					// A text in a file of the guest has the value in a line of the file.
					if want != text && !strings.Contains(text, "\n") {
						check.Equal(t, fmt.Sprintf("%s with %q", text, value), filled[i], want)
					}
				}
			}
		})
	}
}

// mark is a value that stands for a variable.
func mark(variable string) string { return "mark-of-" + variable + "-end" }

// fill has clusterctl fill in the variables. Those that are no texts get a number.
func fill(t *testing.T, template []byte, texts []string, value func(variable string) string) []byte {
	t.Helper()

	out, err := yamlprocessor.NewSimpleProcessor().Process(template, func(variable string) (string, error) {
		if slices.Contains(texts, variable) {
			return value(variable), nil
		}

		return "3", nil
	})
	check.Error(t, err, "")

	return out
}

// textsOf lists the keys and values of all documents in their order. A value that is not a text is listed with its type.
func textsOf(t *testing.T, name string, manifests []byte) []string {
	t.Helper()

	var out []string

	decoder := yaml.NewDecoder(bytes.NewReader(manifests))

	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}

		out = append(out, scalarsOf(&document)...)
	}
}

func scalarsOf(node *yaml.Node) []string {
	if node.Kind == yaml.ScalarNode {
		if node.ShortTag() != "!!str" {
			return []string{node.ShortTag() + " " + node.Value}
		}

		return []string{node.Value}
	}

	var out []string
	for _, child := range node.Content {
		out = append(out, scalarsOf(child)...)
	}

	return out
}
