// Package source reads manifests as a GitOps tool does: from files, from folders with a kustomization, and from
// standard input.
package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/kustomization"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// Options configure how to read manifests.
type Options struct {
	// Kustomizations are folders that must have a kustomization.
	Kustomizations []string
	// Variables are the values for Flux's substitution of variables. If nil, nothing is replaced.
	Variables map[string]string
	// MayBeEmpty accepts a folder without manifests, for example after its last manifest was deleted.
	MayBeEmpty bool
	// Note receives notes for users about how manifests were read. If nil, the notes are discarded.
	Note func(string)
}

// Object is an object with its source.
type Object struct {
	*unstructured.Unstructured
	// From is the name of its file or kustomization.
	From string
	// Node is the document as written, with its lines, or nil if unknown.
	Node *yaml.Node

	depth int // number of enclosing Lists
}

// DescribeSource describes where an object comes from.
func (o Object) DescribeSource() string {
	if o.Node == nil || o.Node.Line == 0 {
		return o.From
	}

	return fmt.Sprintf("%s: line %d", o.From, o.Node.Line)
}

// reader reads manifests.
type reader struct {
	Options
	out []Object
	// variables are the variables without a value, in the order of their use.
	variables []string
}

// Read reads manifests from files, folders, or "-" for standard input. For a folder with a kustomization.yaml, it
// builds the kustomization as kubectl kustomize does. In other folders, it reads all .yaml, .yml and .json files at any
// depth. It skips files without objects, and adds a note. It replaces Lists by their items.
func Read(paths []string, stdin io.Reader, options Options) ([]Object, error) {
	r := &reader{Options: options}
	if r.Note == nil {
		r.Note = func(string) {}
	}

	for _, dir := range r.Kustomizations {
		if kustomization.Find(dir) == "" {
			return nil, fmt.Errorf("%s: no kustomization.yaml found; use -k only for folders with a "+
				"kustomization.yaml, and -f for others", dir)
		}

		if err := r.addKustomization(dir); err != nil {
			return nil, err
		}
	}

	for _, path := range paths {
		if err := r.readPath(path, stdin); err != nil {
			return nil, err
		}
	}

	if len(r.variables) > 0 {
		r.Note("the manifests contain unset variables: " + strings.Join(r.variables, ", ") +
			"; if Flux sets them, use --flux, and --substitute NAME=VALUE for their values")
	}

	return r.out, nil
}

func (r *reader) readPath(path string, stdin io.Reader) error {
	if path == "-" {
		content, err := manifest.ReadAll(stdin)
		if err != nil {
			return fmt.Errorf("failed to read standard input: %w", err)
		}

		return r.addDocuments("standard input", content)
	}

	if err := CheckPath(path); err != nil {
		return err
	}

	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s does not exist; git does not store empty folders: if you deleted the last manifest, "+
			"create the folder, and use --kubeconfig and --prune: %w", path, err)
	}

	if err != nil {
		return fmt.Errorf("failed to read manifests: %w", err)
	}

	if info.IsDir() {
		return r.readFolder(path)
	}

	content, err := manifest.ReadFile(path)
	if err != nil {
		return fmt.Errorf("failed to read a manifest: %w", err)
	}

	return r.addDocuments(path, content)
}

// CheckPath rejects a path that leads out of its git repository. Others may write to the repository, and must not make
// olvmctl read files of the user.
func CheckPath(path string) error {
	bound, err := boundOf(path)
	if err != nil || bound == "" {
		return err
	}

	if problem := kustomization.ExplainUnreadable(bound, path); problem != "" {
		return fmt.Errorf("%s: %s", path, problem)
	}

	return nil
}

// boundOf returns the repository of a path in the form of the path, or "" if there is none.
func boundOf(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("failed to read manifests: %w", err)
	}

	repository := kustomization.FindRepository(absolute)
	if repository == "" {
		return "", nil
	}

	if repository, err = filepath.EvalSymlinks(repository); err != nil {
		return "", fmt.Errorf("failed to read manifests: %w", err)
	}

	return repository, nil
}

// readFolder reads a folder: its top-level kustomizations, and the files outside of them.
func (r *reader) readFolder(dir string) error {
	built, err := r.kustomizationsBelow(dir)
	if err != nil {
		return err
	}

	if slices.Contains(built, dir) {
		return r.addKustomization(dir)
	}

	for _, folder := range built {
		if err := r.addKustomization(folder); err != nil {
			return err
		}
	}

	files, err := manifest.ListFiles(dir)
	if errors.Is(err, manifest.ErrNoObject) && len(built) == 0 && r.MayBeEmpty {
		r.Note(dir + " has no manifests: all objects that were in it would be deleted")
		return nil
	}

	if err != nil && len(built) == 0 {
		return err
	}

	bound, err := boundOf(dir)
	if err == nil && bound == "" {
		bound, err = filepath.EvalSymlinks(dir)
	}

	if err == nil {
		bound, err = filepath.Abs(bound)
	}

	if err != nil {
		return fmt.Errorf("failed to read manifests: %w", err)
	}

	all := r.findKustomizations(dir)
	for _, file := range files {
		if slices.ContainsFunc(all, func(folder string) bool { return isBelow(folder, file) }) {
			continue
		}

		if problem := kustomization.ExplainUnreadable(bound, file); problem != "" {
			return fmt.Errorf("%s: %s", file, problem)
		}

		if err := r.addFile(file); err != nil {
			return err
		}
	}

	return nil
}

// findKustomizations returns the folders with a kustomization below dir.
func (r *reader) findKustomizations(dir string) []string {
	var out []string

	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil || !entry.IsDir():
			return nil //nolint:nilerr // whoever reads the folder reports it
		case path != dir && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case kustomization.Find(path) != "":
			out = append(out, path)
		}

		return nil
	})

	return out
}

// kustomizationsBelow returns the top-level kustomizations. No other kustomization builds upon them. It omits
// components, because they are parts of other kustomizations, and are never built alone.
func (r *reader) kustomizationsBelow(dir string) ([]string, error) {
	all := r.findKustomizations(dir)
	var used []string

	for _, folder := range all {
		folders, err := kustomization.Check(folder)
		if err != nil {
			return nil, err
		}

		used = append(used, folders[1:]...)
	}

	return slices.DeleteFunc(all, func(folder string) bool {
		real, err := filepath.EvalSymlinks(folder)
		if err != nil {
			return false
		}

		if real, err = filepath.Abs(real); err != nil {
			return false
		}

		return slices.Contains(used, real) || kustomization.IsComponent(folder)
	}), nil
}

func isBelow(dir, path string) bool {
	inside, err := filepath.Rel(dir, path)

	return err == nil && filepath.IsLocal(inside)
}

// addKustomization adds the objects of a kustomization.
func (r *reader) addKustomization(dir string) error {
	content, err := kustomization.Build(dir)
	if err != nil {
		return err
	}

	r.Note("built " + kustomization.Find(dir) + ", as kubectl kustomize does")

	return r.addDocuments(kustomization.Find(dir), content)
}

// addFile adds the objects in a file of a folder. The folder may also contain YAML files without objects.
func (r *reader) addFile(path string) error {
	content, err := manifest.ReadFile(path)
	if err != nil {
		return fmt.Errorf("failed to read a manifest: %w", err)
	}

	before := len(r.out)

	err = r.addDocuments(path, content)
	if errors.Is(err, manifest.ErrNoObject) && len(r.out) == before && !hasObject(content) {
		r.Note("skipped " + path + ", which contains no Kubernetes object")
		return nil
	}

	return err
}

// hasObject reports whether any of the documents is an object.
func hasObject(content []byte) bool {
	for _, document := range bytes.Split(content, []byte("\n---")) {
		if objects, err := manifest.Read(append([]byte("---"), document...)); err == nil && len(objects) > 0 {
			return true
		}
	}

	return false
}

// addDocuments adds the objects in a stream of documents.
func (r *reader) addDocuments(from string, content []byte) error {
	nodes := nodesOf(content)
	if strings.HasPrefix(filepath.Base(from), "kustomization") || filepath.Base(from) == "Kustomization" {
		nodes = nil // the lines of a build are not in a file
	}

	for _, node := range nodes {
		if key, line := repeatedKey(node); key != "" {
			return fmt.Errorf("%s: line %d: duplicate key %q, which tools interpret differently; remove one of them",
				from, line, key)
		}
	}

	err := manifest.ForEach(bytes.NewReader(content), func(object *unstructured.Unstructured) error {
		one := Object{Unstructured: object, From: from}
		if len(nodes) > 0 {
			one.Node, nodes = nodes[0], nodes[1:]
		}

		return r.addObject(one)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}

	return nil
}

// nodesOf returns the nonempty documents of a YAML stream. The lines of a build are useless to users.
func nodesOf(content []byte) []*yaml.Node {
	var out []*yaml.Node

	for decoder := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var document yaml.Node
		if decoder.Decode(&document) != nil {
			return out
		}

		if len(document.Content) == 1 && document.Content[0].Tag != "!!null" {
			out = append(out, document.Content[0])
		}
	}
}

// repeatedKey returns a duplicate key in a mapping, with the line of its second occurrence, or "" if there is none.
func repeatedKey(node *yaml.Node) (key string, line int) {
	seen := map[string]bool{}

	for i, child := range node.Content {
		if isKey := node.Kind == yaml.MappingNode && i%2 == 0; isKey && child.Kind == yaml.ScalarNode {
			if seen[child.Value] {
				return child.Value, child.Line
			}

			seen[child.Value] = true
		}

		if key, line = repeatedKey(child); key != "" {
			return key, line
		}
	}

	return "", 0
}

// maxDepth is the maximum depth of nested Lists.
const maxDepth = 10

// checkList rejects a false List, because tools would ignore it or its items.
func checkList(list Object) error {
	if !strings.HasSuffix(list.GetKind(), "List") {
		return fmt.Errorf("%s: %s has items, which are supported only in a List; remove them", list.DescribeSource(),
			list.GetKind())
	}

	if list.depth > maxDepth {
		return fmt.Errorf(
			"%s: Lists are nested more than %d levels deep; write the objects as YAML documents", list.DescribeSource(),
			maxDepth,
		)
	}

	items, _, _ := unstructured.NestedSlice(list.Object, "items")
	for i, item := range items {
		fields, _ := item.(map[string]any)
		for _, key := range []string{"apiVersion", "kind"} {
			if text, _ := fields[key].(string); text == "" {
				return fmt.Errorf(
					"%s: items[%d].%s: required", list.DescribeSource(), i, key,
				)
			}
		}
	}

	return nil
}

func (r *reader) addObject(object Object) error {
	if object.IsList() {
		if err := checkList(object); err != nil {
			return err
		}

		return object.EachListItem(func(item runtime.Object) error {
			one, ok := item.(*unstructured.Unstructured)
			if !ok {
				return errors.New("an item of a List is not an object")
			}

			return r.addObject(Object{Unstructured: one, From: object.From, depth: object.depth + 1})
		})
	}

	if r.Variables == nil {
		r.noteVariables(object.Unstructured)
	} else {
		var err error
		if object.Unstructured, err = substituteVariables(object.Unstructured, r.Variables); err != nil {
			return err
		}
	}

	r.out = append(r.out, object)

	return nil
}
