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

// numbers matches the variables of fields that are not texts.
var numbers = regexp.MustCompile(
	`^\$\{(?:[A-Z_]+_(?:COUNT|PORT|CORES|SOCKETS|SECONDS|BITS)|NODES_LOST_AT_MOST)(?:[:=][^}]*)?\}$`)

// listElement matches a variable that expands to several elements of a list; see lists.
var listElement = regexp.MustCompile(`^\$\{(?:[A-Z0-9_]*ADDRESSES(?:_IPV6)?|OLVM_SSH_AUTHORIZED_KEYS:= )\}$`)

// objectNames matches the variables with names of objects. The API server checks these names, and refuses every
// character that cannot stand in quotes.
var objectNames = regexp.MustCompile(`^(?:CLUSTER_NAME|NAMESPACE|[A-Z_]+_(?:SECRET|CONFIGMAP))$`)

// variableNames matches the names of the variables in a text.
var variableNames = regexp.MustCompile(`\$\{([A-Z0-9_]+)`)

// blankDefault makes a variable optional, because clusterctl requires a value for variables with an empty default. A
// block without an explicit indent is empty if it contains only spaces.
const blankDefault = ":= }"

// variable is a text with a variable. Its place in a template is a line and a column, both counted from 1. The field
// indent is the indent of its block.
type variable struct {
	text                 string
	line, column, indent int
}

// quoteVariables ensures that YAML reads each text with a variable as a text. Otherwise, after clusterctl fills in 010,
// true or "kvm #2", YAML reads a number, a boolean or half of the name. Object names get quotes. All other texts become
// a block, because in a block only the end of a line has a meaning. A second line in a value breaks the YAML of the
// template. If this line has the indent of the template, it can even add a field. Quotes cannot prevent this, because
// clusterctl only inserts texts.
func quoteVariables(template []byte) ([]byte, error) {
	var found []variable

	decoder := yaml.NewDecoder(bytes.NewReader(template))

	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("failed to read the template: %w", err)
		}

		found = append(found, findVariables(&document, 0, false)...)
	}

	lines := strings.Split(string(template), "\n")

	// The loop goes backwards, because an insertion moves the rest of the line.
	for _, v := range slices.Backward(found) {
		line, err := v.quoteIn(lines[v.line-1])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", v.line, err)
		}

		lines[v.line-1] = line
	}

	return []byte(strings.Join(lines, "\n")), nil
}

// quoteIn returns the line with the quoted text. If the text becomes a block, the result is two lines.
func (v variable) quoteIn(line string) (string, error) {
	before, rest := line[:v.column-1], line[v.column-1:]
	quoted := "'" + strings.ReplaceAll(v.text, "'", "''") + "'"

	for _, as := range []string{v.text, quoted, `"` + v.text + `"`} {
		after, ok := strings.CutPrefix(rest, as)

		switch {
		case !ok:
			continue
		case v.isObjectName():
			return before + quoted + after, nil
		case after != "":
			return "", fmt.Errorf("the text %q is not at the end of its line; write lists and mappings line by line",
				v.text)
		}

		header := "|2-"
		if strings.HasSuffix(v.text, blankDefault) {
			header = "|-"
		}

		return before + header + "\n" + strings.Repeat(" ", v.indent) + v.text, nil
	}

	return "", fmt.Errorf("the text %q goes on in the next line; make it shorter", v.text)
}

func (v variable) isObjectName() bool {
	for _, match := range variableNames.FindAllStringSubmatch(v.text, -1) {
		if !objectNames.MatchString(match[1]) {
			return false
		}
	}

	return true
}

// findVariables returns the texts below a node that contain a variable, except texts that are already blocks. The
// parameter indent is the indent of a block at this node. In labels and annotations, numbers are texts, too.
func findVariables(node *yaml.Node, indent int, texts bool) []variable {
	var out []variable

	switch node.Kind {
	case yaml.ScalarNode:
		isBlock := node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
		isText := texts || !numbers.MatchString(node.Value)
		if !isBlock && strings.Contains(node.Value, "${") && isText && !listElement.MatchString(node.Value) {
			out = append(out, variable{text: node.Value, line: node.Line, column: node.Column, indent: indent})
		}
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			key := node.Content[i]
			inTexts := texts || key.Value == "annotations" || key.Value == "labels" || key.Value == "matchLabels"
			out = append(out, findVariables(node.Content[i+1], key.Column+1, inTexts)...)
		}
	default:
		for _, child := range node.Content {
			out = append(out, findVariables(child, child.Column-1, texts)...)
		}
	}

	return out
}
