package clusterfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxValues is the maximum number of values in a file with its aliases resolved. Aliases of aliases grow without end.
const maxValues = 100_000

// plainTags are the tags of values whose text is the value. The text of a !!binary is not.
var plainTags = []string{"!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!map", "!!seq", "!!merge"}

// resolver replaces the aliases and merge keys of a document by copies of their values. Checks read the keys and values
// as they are written, and the decoder has to see the same.
type resolver struct {
	file   string
	values int
	// open are the anchored values around the current one.
	open []*yaml.Node
}

// resolve returns a copy of a node without aliases and merge keys. It returns a Problem if there is none.
func (r *resolver) resolve(node *yaml.Node, path string) (*yaml.Node, error) {
	problem := func(format string, args ...any) error {
		return Problem{File: r.file, Line: node.Line, Path: cmp.Or(path, "file"), Message: fmt.Sprintf(format, args...)}
	}

	if r.values++; r.values > maxValues {
		return nil, problem("its aliases make more than %d values; write the values themselves", maxValues)
	}

	if node.Kind == yaml.AliasNode {
		if slices.Contains(r.open, node.Alias) {
			return nil, problem("the alias %s is inside the value that it stands for; write the value itself",
				node.Value)
		}

		out, err := r.resolve(node.Alias, path)
		if err == nil {
			out.Line, out.Column = node.Line, node.Column
		}

		return out, err
	}

	if tag := node.ShortTag(); !slices.Contains(plainTags, tag) {
		return nil, problem("it has the tag %s; write the value itself, as a text", tag)
	}

	r.open = append(r.open, node)
	defer func() { r.open = r.open[:len(r.open)-1] }()

	out := *node
	out.Anchor, out.Content = "", nil

	if node.Kind == yaml.MappingNode {
		err := r.resolveMapping(node, &out, path)
		return &out, err
	}

	for _, child := range node.Content {
		resolved, err := r.resolve(child, path)
		if err != nil {
			return nil, err
		}

		out.Content = append(out.Content, resolved)
	}

	return &out, nil
}

// resolveMapping adds the resolved keys and values of a mapping to its copy. Keys of the mapping itself take precedence
// over merged ones, and earlier merged keys over later ones.
func (r *resolver) resolveMapping(node, out *yaml.Node, path string) error {
	var merged []*yaml.Node

	for i := 0; i+1 < len(node.Content); i += 2 {
		key, err := r.resolve(node.Content[i], path)
		if err != nil {
			return err
		}

		full := strings.TrimPrefix(path+"."+key.Value, ".")

		value, err := r.resolve(node.Content[i+1], full)
		if err != nil {
			return err
		}

		if key.ShortTag() != "!!merge" {
			out.Content = append(out.Content, key, value)
			continue
		}

		sources := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			sources = value.Content
		}

		for _, from := range sources {
			if from.Kind != yaml.MappingNode {
				return Problem{File: r.file, Line: key.Line, Path: full, Message: "it is no mapping of keys; write " +
					"the keys themselves"}
			}
		}

		merged = append(merged, sources...)
	}

	for _, from := range merged {
		for i := 0; i+1 < len(from.Content); i += 2 {
			if nodeAt(out, from.Content[i].Value).Kind == 0 {
				out.Content = append(out.Content, from.Content[i], from.Content[i+1])
			}
		}
	}

	return nil
}
