package command

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestEachWriteNamesTheObjectThatItIsFor examines the source of the manager. The request of a halted leader arrives
// late. It must not delete or change a newer object of the same name.
func TestEachWriteNamesTheObjectThatItIsFor(t *testing.T) {
	deletions := 0

	for _, folder := range managerFolders(t) {
		for _, call := range callsIn(t, folder) {
			of, ok := call.of.Fun.(*ast.SelectorExpr)
			if !ok {
				continue
			}

			switch of.Sel.Name {
			case "Delete":
				client, ok := of.X.(*ast.SelectorExpr)
				if !ok || !slices.Contains([]string{"Client", "client", "writer"}, client.Sel.Name) {
					continue
				}

				deletions++

				if len(call.of.Args) < 3 {
					t.Errorf("%s deletes by the name alone: give client.Preconditions with the UID", call.at)
				}
			case "DeleteAllOf":
				t.Errorf("%s deletes what it has not seen", call.at)
			case "MergeFrom":
				t.Errorf("%s patches any version: use MergeFromWithOptimisticLock", call.at)
			}
		}
	}

	check.Equal(t, "deletions are found", deletions >= 8, true)
}

// called is a call with its position.
type called struct {
	at string
	of *ast.CallExpr
}

// callsIn lists the calls in a package.
func callsIn(t *testing.T, folder string) (out []called) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	check.Error(t, err, "")

	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == "fencedclient.go" {
			continue
		}

		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(folder, name), nil, parser.SkipObjectResolution)
		check.Error(t, err, "")

		ast.Inspect(file, func(node ast.Node) bool {
			if call, ok := node.(*ast.CallExpr); ok {
				out = append(out, called{at: set.Position(call.Pos()).String(), of: call})
			}

			return true
		})
	}

	return out
}
