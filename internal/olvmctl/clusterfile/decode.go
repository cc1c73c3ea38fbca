package clusterfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
	"go.yaml.in/yaml/v3"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// Problem is an error or a warning about a cluster file.
type Problem struct {
	// File and Line are the position of the problem. Line is zero for a missing key.
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
	// Path is the path of the key, such as providers.olvm.olvmDatacenterName.
	Path    string `json:"path"`
	Message string `json:"message"`
	// Warning is true if olvmctl continues despite the problem.
	Warning bool `json:"warning,omitempty"`
}

// Error implements error.
func (p Problem) Error() string {
	where := p.File
	if p.Line > 0 {
		where = fmt.Sprintf("%s:%d", p.File, p.Line)
	}

	if p.Warning {
		where += ": warning"
	}

	return fmt.Sprintf("%s: %s: %s", where, p.Path, p.Message)
}

// Source is a cluster file with the positions of its keys.
type Source struct {
	File
	// dir is the folder that relative paths in the file start from.
	dir string
	// documents has the cluster file first, and then the defaults.
	documents []document
	// older reports whether the settings of the provider have the older format.
	older    bool
	problems []Problem
}

type document struct {
	name string
	root *yaml.Node
}

// readText reads a file, and rejects encodings other than UTF-8.
func readText(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}

	if content, err = manifest.DecodeText(content); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	return content, nil
}

// IsClusterFile reports whether the first YAML document looks like a cluster file, and not like a manifest.
func IsClusterFile(content []byte) bool {
	var node yaml.Node
	if yaml.Unmarshal(content, &node) != nil || len(node.Content) == 0 {
		return false
	}

	has := func(key string) bool { return nodeAt(node.Content[0], key).Kind != 0 }

	return !has("apiVersion") && !has("kind") && (has("provider") || has("providers"))
}

// DefaultsPath returns the path of the user's defaults. It is the value of OCNE_DEFAULTS, or else ~/.ocne/defaults.yaml
// if this file exists.
func DefaultsPath() string {
	if path, ok := os.LookupEnv("OCNE_DEFAULTS"); ok {
		return path
	}

	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}

	path := filepath.Join(home, ".ocne", "defaults.yaml")
	if _, err := os.Stat(path); err != nil {
		return ""
	}

	return path
}

// Read reads a cluster file and its defaults. If defaults is empty, there are no defaults. Read returns errors of the
// file system, or a Problem if it cannot read the keys. Validate reports all other problems.
func Read(path, defaults string) (*Source, error) {
	content, err := readText(path)
	if err != nil {
		return nil, fmt.Errorf("failed to read a cluster file: %w", err)
	}

	return Parse(path, content, defaults)
}

// Parse is like Read, but gets the content of the cluster file. The file at path does not have to exist yet.
func Parse(path string, content []byte, defaults string) (*Source, error) {
	s := &Source{dir: filepath.Dir(path)}
	if err := s.parseDocument(path, content); err != nil {
		return nil, err
	}

	return s, s.addDefaults(defaults)
}

// addDefaults adds the file of defaults as a document, and decodes all documents. If defaults is empty, there are no
// defaults.
func (s *Source) addDefaults(defaults string) error {
	if defaults != "" {
		content, err := readText(defaults)
		if err != nil {
			return fmt.Errorf("failed to read a cluster file: %w", err)
		}

		if err := s.parseDocument(defaults, content); err != nil {
			return err
		}
	}

	return s.decodeDocuments()
}

// parseDocument parses a YAML document, and adds it. It reports duplicate keys, and keeps only the first of them.
func (s *Source) parseDocument(name string, content []byte) error {
	var root *yaml.Node

	for decoder := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			return syntaxProblem(name, err)
		}

		next := node.Content[0]
		switch {
		case next.Tag == "!!null":
			continue // the document has only comments
		case root != nil:
			return Problem{
				File:    name,
				Line:    next.Line,
				Path:    "file",
				Message: "contains more than one YAML document; remove the others",
			}
		case next.Kind != yaml.MappingNode:
			return Problem{
				File:    name,
				Line:    next.Line,
				Path:    "file",
				Message: "not a YAML mapping; use for example name: demo",
			}
		}

		if root, err = (&resolver{file: name}).resolve(next, ""); err != nil {
			return err
		}
	}

	if root == nil {
		root = &yaml.Node{Kind: yaml.MappingNode}
	}

	s.problems = append(s.problems, dropDuplicates(name, root, "")...)
	s.documents = append(s.documents, document{name, root})

	return nil
}

var inLine = regexp.MustCompile(`^yaml: line ([0-9]+): (.*)$`)

// syntaxProblem converts a YAML error to a problem.
func syntaxProblem(name string, err error) Problem {
	p := Problem{
		File:    name,
		Path:    "file",
		Message: "invalid YAML: " + strings.TrimPrefix(err.Error(), "yaml: "),
	}
	if match := inLine.FindStringSubmatch(err.Error()); match != nil {
		p.Line, _ = strconv.Atoi(match[1])
		p.Message = "invalid YAML: " + match[2]
		if strings.Contains(match[2], "cannot start any token") {
			p.Message += "; indent with spaces, not tabs, and quote strings with special characters"
		}
	}

	return p
}

// dropDuplicates returns a problem for each duplicate key in a mapping and in its nested mappings. It removes all but
// the first of equal keys.
func dropDuplicates(file string, node *yaml.Node, path string) []Problem {
	var out []Problem
	if node.Kind == yaml.SequenceNode {
		for _, entry := range node.Content {
			out = append(out, dropDuplicates(file, entry, path)...)
		}
	}

	if node.Kind != yaml.MappingNode {
		return out
	}

	first := map[string]int{}
	var kept []*yaml.Node

	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		full := strings.TrimPrefix(path+"."+key.Value, ".")
		if line, ok := first[key.Value]; ok && key.Kind == yaml.ScalarNode {
			out = append(out, Problem{
				File:    file,
				Line:    key.Line,
				Path:    full,
				Message: fmt.Sprintf("duplicate key, already in line %d; remove one of them", line),
			})
			continue
		}

		first[key.Value] = key.Line
		kept = append(kept, key, value)
		out = append(out, dropDuplicates(file, value, full)...)
	}

	node.Content = kept

	return out
}

// decodeDocuments merges all documents into File. Earlier documents take precedence.
func (s *Source) decodeDocuments() error {
	merged := &yaml.Node{Kind: yaml.MappingNode}

	for _, d := range s.documents {
		provider := nodeAt(d.root, "providers", "olvm")
		if isOlder(provider) {
			s.older = true
			s.problems = append(
				s.problems,
				unknownKeys(d.name, provider, reflect.TypeFor[olderOLVM](), "providers.olvm")...)
			converted, err := convertOlder(provider)
			if err != nil {
				return Problem{File: d.name, Path: "providers.olvm", Message: err.Error()}
			}

			d.root = withOLVM(d.root, converted)
		}

		s.problems = append(s.problems, unknownKeys(d.name, d.root, reflect.TypeFor[File](), "")...)
		s.problems = append(s.problems, unfit(d.name, d.root, reflect.TypeFor[File](), "")...)
		mergeMissing(merged, d.root)
	}

	var problem *yaml.TypeError
	if err := merged.Decode(&s.File); errors.As(err, &problem) {
		for _, text := range problem.Errors {
			s.problems = append(s.problems, s.typeProblem(text))
		}
	} else if err != nil {
		return syntaxProblem(s.documents[0].name, err)
	}

	return nil
}

// wrongTypeOf matches the YAML library's message about a value of the wrong type.
var wrongTypeOf = regexp.MustCompile("^line ([0-9]+): cannot unmarshal !!([a-z]+)(?: `(.*)`)? into (.+)$")

// typesOf has the user's words for Go types.
var typesOf = []struct{ prefix, words string }{
	{"int", "an integer"},
	{"bool", "true or false"},
	{"*bool", "true or false"},
	{"string", "a string"},
	{"[]", "a list"},
	{"map[", "a mapping"},
	{"clusterfile.", "a mapping"},
	{"struct", "a mapping"},
}

// shapesOf has the user's words for YAML tags.
var shapesOf = map[string]string{"map": "a mapping", "seq": "a list"}

// typeProblem converts the YAML library's message about a value of the wrong type to a problem with the path of the
// key.
func (s *Source) typeProblem(text string) Problem {
	match := wrongTypeOf.FindStringSubmatch(text)
	if match == nil {
		return Problem{File: s.documents[0].name, Path: "file", Message: text}
	}

	out := Problem{File: s.documents[0].name, Path: "file"}
	out.Line, _ = strconv.Atoi(match[1])

	for _, d := range s.documents {
		if path := keyAt(d.root, out.Line, match[2], strings.TrimSuffix(match[3], "..."), ""); path != "" {
			out.File, out.Path = d.name, path
			break
		}
	}

	wanted := match[4]

	for _, t := range typesOf {
		if strings.HasPrefix(match[4], t.prefix) {
			wanted = t.words
			break
		}
	}

	out.Message = fmt.Sprintf("%q is not %s", match[3], wanted)
	if shape, ok := shapesOf[match[2]]; ok {
		out.Message = "must be " + wanted + ", not " + shape
		if match[2] == "seq" && match[4] == "string" {
			out.Message += "; separate the items with commas"
		}
	}

	return out
}

// keyAt returns the path of the key whose value is at the given line, or "" if there is none. The value also has the
// given tag, and begins with the given text.
func keyAt(node *yaml.Node, line int, tag, text, path string) string {
	isWhole := node.Kind == yaml.ScalarNode || tag == "map" && node.Kind == yaml.MappingNode ||
		tag == "seq" && node.Kind == yaml.SequenceNode
	if isWhole && node.Line == line && strings.HasPrefix(node.Value, text) {
		return path
	}

	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			full := strings.TrimPrefix(path+"."+node.Content[i].Value, ".")
			if found := keyAt(node.Content[i+1], line, tag, text, full); found != "" {
				return found
			}
		}
	case yaml.SequenceNode:
		for _, entry := range node.Content {
			if found := keyAt(entry, line, tag, text, path); found != "" {
				return found
			}
		}
	}

	return ""
}

// severalLines are the keys of texts that may have several lines. No template contains them.
var severalLines = []string{"sshPublicKey", "providers.olvm.olvmOvirtAPIServer.serverCA"}

// hasLines reports whether a text has a line break.
func hasLines(text string) bool {
	return strings.ContainsAny(text, "\n\r\u0085\u2028\u2029")
}

// unfit returns problems about values that fit the type of their key, but would not arrive as written. The library
// truncates fractions in keys of whole numbers. A line break in a text could add fields to the manifests. unfit removes
// the line breaks at the end of a text, because each block of YAML ends with one.
func unfit(file string, node *yaml.Node, t reflect.Type, path string) []Problem {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && node.Kind != yaml.SequenceNode {
		t = t.Elem()
	}

	var out []Problem

	switch {
	case node.Kind == yaml.ScalarNode && node.Tag == "!!float" && t.Kind() >= reflect.Int && t.Kind() <= reflect.Int64:
		return []Problem{{
			File: file, Line: node.Line, Path: path, Message: fmt.Sprintf("%q is not an integer", node.Value),
		}}
	case node.Kind == yaml.ScalarNode && t.Kind() == reflect.String && !slices.Contains(severalLines, path):
		if node.Value = strings.TrimRight(node.Value, "\n"); hasLines(node.Value) {
			return []Problem{{
				File: file, Line: node.Line, Path: path, Message: "contains a line break; use a single line",
			}}
		}
	case node.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, entry := range node.Content {
			out = append(out, unfit(file, entry, t.Elem(), path)...)
		}
	case node.Kind == yaml.MappingNode && t.Kind() == reflect.Struct && t != reflect.TypeFor[yaml.Node]():
		for i := range t.NumField() {
			key := t.Field(i).Tag.Get("yaml")
			full := strings.TrimPrefix(path+"."+key, ".")
			out = append(out, unfit(file, nodeAt(node, key), t.Field(i).Type, full)...)
		}
	}

	return out
}

// passedOver lists the keys of Oracle's command that olvmctl ignores, with advice for the user.
var passedOver = map[string]string{
	"autoStartUI": "ignored: olvmctl installs no user interface; remove it",
	"bootVolumeContainerImage": "ignored: nodes boot from vmTemplateName; create its image with olvmctl image " +
		"create",
	"catalog":                "ignored: olvmctl does not install Oracle's catalog; list chart repositories in catalogs",
	"certificateInformation": "ignored: kubeadm creates the certificates, with its own subjects; remove it",
	"communityCatalog":       "ignored: olvmctl installs no catalog; list chart repositories in catalogs",
	"directory":              "ignored; remove it",
	"ephemeralCluster": "ignored: without --kubeconfig, olvmctl runs the management cluster as local processes; " +
		"remove it",
	"kubeconfig": "ignored; to select the management cluster, use --kubeconfig",
	"kubeProxyMode": "ignored: kube-proxy uses kubeadm's default, iptables; to change it, edit the ConfigMap " +
		"kube-proxy in the cluster",
	"providers.oci.kubeconfig": "ignored; to select the management cluster, use --kubeconfig",
	"quiet":                    "ignored: progress goes to standard error; to hide it, redirect standard error",
}

// UnknownKeys returns a problem for each key in a YAML mapping that type T does not have. The problem suggests the most
// similar known key.
func UnknownKeys[T any](file string, mapping *yaml.Node) []Problem {
	return unknownKeys(file, mapping, reflect.TypeFor[T](), "")
}

func unknownKeys(file string, node *yaml.Node, t reflect.Type, path string) []Problem {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}

	if node.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice {
		var out []Problem
		for _, entry := range node.Content {
			out = append(out, unknownKeys(file, entry, t.Elem(), path)...)
		}

		return out
	}

	if node.Kind != yaml.MappingNode || t.Kind() != reflect.Struct || t == reflect.TypeFor[yaml.Node]() {
		return nil
	}

	known := map[string]reflect.Type{}
	for i := range t.NumField() {
		known[t.Field(i).Tag.Get("yaml")] = t.Field(i).Type
	}

	var out []Problem

	for i := 0; i+1 < len(node.Content); i += 2 {
		key, full := node.Content[i], strings.TrimPrefix(path+"."+node.Content[i].Value, ".")
		if field, ok := known[key.Value]; ok {
			out = append(out, unknownKeys(file, node.Content[i+1], field, full)...)
		} else if answer, ok := passedOver[full]; ok && (path != "" || t == reflect.TypeFor[File]()) {
			out = append(out, Problem{File: file, Line: key.Line, Path: full, Message: answer, Warning: true})
		} else {
			out = append(out, Problem{
				File:    file,
				Line:    key.Line,
				Path:    full,
				Message: "unknown key" + suggestKey(key.Value, known),
			})
		}
	}

	return out
}

// suggestKey returns the end of a message about an unknown key. It suggests the most similar known key.
func suggestKey(key string, known map[string]reflect.Type) string {
	return DidYouMean(key, slices.Collect(maps.Keys(known)))
}

// DidYouMean returns the end of a message about an unknown name: the most similar known name, or all known names.
func DidYouMean(key string, names []string) string {
	names = slices.Sorted(slices.Values(names))

	best, distance := "", len(key)/2+1
	for _, name := range names {
		if d := levenshtein.Distance(strings.ToLower(key), strings.ToLower(name), nil); d < distance {
			best, distance = name, d
		}
	}

	if best != "" {
		return fmt.Sprintf("; did you mean %s?", best)
	}

	return "; use one of " + strings.Join(names, ", ")
}

// nodeAt returns the value at a path in a YAML node. If there is no value, it returns a node without a kind.
func nodeAt(node *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		next := &yaml.Node{}
		if node.Kind == yaml.MappingNode {
			for i := 0; i+1 < len(node.Content); i += 2 {
				if node.Content[i].Value == key {
					next = node.Content[i+1]
				}
			}
		}

		node = next
	}

	return node
}

// mergeMissing adds the missing keys to a mapping and to its nested mappings. It puts new list entries before the
// existing entries.
func mergeMissing(into, from *yaml.Node) {
	for i := 0; i+1 < len(from.Content); i += 2 {
		key, value := from.Content[i], from.Content[i+1]

		there := nodeAt(into, key.Value)
		switch {
		case there.Kind == 0:
			switch value.Kind { // copies the value, because later documents are merged into it
			case yaml.MappingNode:
				own := &yaml.Node{Kind: yaml.MappingNode, Line: value.Line}
				mergeMissing(own, value)
				value = own
			case yaml.SequenceNode:
				value = &yaml.Node{Kind: yaml.SequenceNode, Line: value.Line, Content: value.Content}
			}

			into.Content = append(into.Content, key, value)
		case there.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			mergeMissing(there, value)
		case there.Kind == yaml.SequenceNode && value.Kind == yaml.SequenceNode:
			there.Content = slices.Concat(value.Content, there.Content)
		}
	}
}

// withOLVM returns a copy of a document with another providers.olvm.
func withOLVM(root, olvm *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}

	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if key.Value == "providers" {
			providers := &yaml.Node{Kind: yaml.MappingNode}

			for j := 0; j+1 < len(value.Content); j += 2 {
				if value.Content[j].Value == "olvm" {
					providers.Content = append(providers.Content, value.Content[j], olvm)
				} else {
					providers.Content = append(providers.Content, value.Content[j], value.Content[j+1])
				}
			}

			value = providers
		}

		out.Content = append(out.Content, key, value)
	}

	return out
}

// noteProblem adds a problem with a key. It adds each problem only once, because both kinds of machines may share the
// key. It reports the path in the format used in the file, even if this is the older format.
func (s *Source) noteProblem(warning bool, path, format string, args ...any) {
	s.addProblem(s.problemAt(warning, path, format, args...))
}

// problemAt returns a problem with a key.
func (s *Source) problemAt(warning bool, path, format string, args ...any) Problem {
	if s.older {
		path = olderPath(path)
	}

	p := Problem{File: s.documents[0].name, Path: path, Message: fmt.Sprintf(format, args...), Warning: warning}
	for _, d := range s.documents {
		if found := nodeAt(d.root, strings.Split(path, ".")...); found.Kind != 0 {
			p.File, p.Line = d.name, found.Line
			break
		}
	}

	return p
}

// noteEntry adds a problem with a list entry. The problem is at the line of the field, or at the line of the entry if
// it lacks the field. An empty field stands for the whole entry.
func (s *Source) noteEntry(warning bool, list string, i int, field, format string, args ...any) {
	p := Problem{
		File:    s.documents[0].name,
		Path:    strings.TrimSuffix(list+"."+field, "."),
		Message: fmt.Sprintf(format, args...),
		Warning: warning,
	}
	for _, d := range slices.Backward(s.documents) { // in the order of merged lists
		entries := nodeAt(d.root, strings.Split(list, ".")...).Content
		if i >= len(entries) {
			i -= len(entries)
			continue
		}

		p.File, p.Line = d.name, entries[i].Line
		if found := nodeAt(entries[i], field); found.Kind != 0 {
			p.Line = found.Line
		}

		break
	}

	s.addProblem(p)
}

// addProblem adds a problem, unless it is already in the list.
func (s *Source) addProblem(p Problem) {
	if !slices.Contains(s.problems, p) {
		s.problems = append(s.problems, p)
	}
}
