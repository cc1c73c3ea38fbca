package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// numbers are the variables of fields that are not texts.
var numbers = regexp.MustCompile(
	`^\$\{(?:[A-Z_]+_(?:COUNT|PORT|CORES|SOCKETS|SECONDS|BITS)|NODES_LOST_AT_MOST)(?:[:=][^}]*)?\}$`)

// listElement is a variable that becomes several elements of a list, see lists.
var listElement = regexp.MustCompile(`^\$\{[A-Z0-9_]*ADDRESSES(?:_IPV6)?\}$`)

// variable is a text with a variable, and its place in a template: line and column, from 1.
type variable struct {
	text         string
	line, column int
}

// quote puts quotes around each text with a variable. Without them, clusterctl would fill in 010, true or "kvm #2", and
// YAML would read a number, a boolean or half of the name.
func quote(template []byte) ([]byte, error) {
	var found []variable

	decoder := yaml.NewDecoder(bytes.NewReader(template))

	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("failed to read the template: %w", err)
		}

		found = append(found, findVariables(&document, false)...)
	}

	lines := strings.Split(string(template), "\n")

	// Backwards, because quotes move what follows on the line.
	for _, v := range slices.Backward(found) {
		line := lines[v.line-1]
		before, rest := line[:v.column-1], line[v.column-1:]

		after, ok := strings.CutPrefix(rest, v.text)
		if !ok {
			return nil, fmt.Errorf("line %d: the text %q goes on in the next line; make it shorter", v.line, v.text)
		}

		lines[v.line-1] = before + "'" + strings.ReplaceAll(v.text, "'", "''") + "'" + after
	}

	return []byte(strings.Join(lines, "\n")), nil
}

// findVariables lists the texts below a node that have a variable and no quotes. In labels and annotations numbers are
// texts, too.
func findVariables(node *yaml.Node, texts bool) []variable {
	var out []variable

	switch node.Kind {
	case yaml.ScalarNode:
		isText := texts || !numbers.MatchString(node.Value)
		if node.Style == 0 && strings.Contains(node.Value, "${") && isText && !listElement.MatchString(node.Value) {
			out = append(out, variable{text: node.Value, line: node.Line, column: node.Column})
		}
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			key := node.Content[i]
			inTexts := texts || key.Value == "annotations" || key.Value == "labels" || key.Value == "matchLabels"
			out = append(out, findVariables(key, true)...)
			out = append(out, findVariables(node.Content[i+1], inTexts)...)
		}
	default:
		for _, child := range node.Content {
			out = append(out, findVariables(child, texts)...)
		}
	}

	return out
}
