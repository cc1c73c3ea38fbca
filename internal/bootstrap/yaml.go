package bootstrap

import (
	"go.yaml.in/yaml/v3"
)

// findValue returns the value of a key in a mapping, or nil.
func findValue(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}

	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}

	return nil
}

// indexValues returns the values of a mapping by key. The first of duplicate keys wins.
func indexValues(mapping *yaml.Node) map[string]*yaml.Node {
	out := make(map[string]*yaml.Node, len(mapping.Content)/2)
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if key := mapping.Content[i].Value; out[key] == nil {
			out[key] = mapping.Content[i+1]
		}
	}

	return out
}

// ensureValue returns the value of a key in a mapping. It creates the value if it does not exist.
func ensureValue(mapping *yaml.Node, key string, kind yaml.Kind) *yaml.Node {
	if found := findValue(mapping, key); found != nil && found.Kind == kind {
		return found
	} else if found != nil && found.Tag == "!!null" {
		*found = yaml.Node{Kind: kind}
		return found
	}

	made := &yaml.Node{Kind: kind}
	mapping.Content = append(mapping.Content, newTextNode(key), made)

	return made
}

func newTextNode(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

// newMapping returns a mapping of texts. pairs alternates between keys and values.
func newMapping(pairs ...string) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	for _, item := range pairs {
		out.Content = append(out.Content, newTextNode(item))
	}

	return out
}
