package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

var (
	// ownKey matches the key of an annotation or a label of ours.
	ownKey = regexp.MustCompile(`^([a-z]+\.)?(infrastructure|olvmctl)\.cluster\.x-k8s\.io/[a-z0-9-]*$`)
	// otherName matches the names of constants with similar values: types of Secrets, finalizers and prefixes.
	otherName = regexp.MustCompile(`(?i)type$|finalizer$`)
)

// TestEachAnnotationAndLabelIsDocumented compares docs/user/annotations.md with the constants of the code.
func TestEachAnnotationAndLabelIsDocumented(t *testing.T) {
	content, err := os.ReadFile("user/annotations.md")
	check.Error(t, err, "")

	documented := map[string]bool{}

	for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(string(content), -1) {
		if key := strings.TrimSuffix(match[1], "..."); ownKey.MatchString(key) {
			documented[key] = true
		}
	}

	keys := annotationConstants(t)
	if len(keys) < 20 {
		t.Errorf("only %d constants", len(keys))
	}

	for key, where := range keys {
		if !documented[key] {
			t.Errorf("%s: docs/user/annotations.md lacks %s", where, key)
		}

		delete(documented, key)
	}

	for key := range documented {
		t.Errorf("docs/user/annotations.md has %s, which no code writes", key)
	}
}

// annotationConstants returns the programs' constants for keys of annotations or labels, and their places.
func annotationConstants(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}

		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		check.Error(t, err, "")
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok {
				return true
			}

			for i, value := range spec.Values {
				literal, ok := value.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING || otherName.MatchString(spec.Names[i].Name) {
					continue
				}

				key, err := strconv.Unquote(literal.Value)
				check.Error(t, err, "")
				if ownKey.MatchString(key) {
					out[key] = path
				}
			}

			return true
		})

		return nil
	})
	check.Error(t, err, "")

	return out
}
