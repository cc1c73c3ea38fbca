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

// rawPatches are the files with patches written by hand, and the reason why each is for one object or version. None but
// that of package pass has finalizers.
var rawPatches = map[string]string{
	"internal/pass/pass.go":              "names the version: TestAnObjectThatHasChangedIsNotWritten",
	"internal/pass/disown.go":            "names the version",
	"internal/tfstate/store.go":          "names the version: TestAHaltedLeaderMarksNothingThatItsSuccessorHasChanged",
	"controllers/machine/subject.go":     "names the UID, and sets one field",
	"controllers/inventoryvm/subject.go": "names the UID, and sets one field",
}

// isOptimisticLock reports whether an argument is a client.MergeFromWithOptimisticLock.
func isOptimisticLock(argument ast.Expr) bool {
	literal, ok := argument.(*ast.CompositeLit)
	if !ok {
		return false
	}

	of, ok := literal.Type.(*ast.SelectorExpr)

	return ok && of.Sel.Name == "MergeFromWithOptimisticLock"
}

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
			case "MergeFromWithOptions":
				if !slices.ContainsFunc(call.of.Args, isOptimisticLock) {
					t.Errorf("%s patches any version: give MergeFromWithOptimisticLock", call.at)
				}
			case "RawPatch", "ApplyConfigurationFromUnstructured":
				at := filepath.ToSlash(filepath.Join(inCheckout(t, folder), call.file))
				if rawPatches[at] == "" {
					t.Errorf("%s may patch any version: write through pass.Pass, or use MergeFromWithOptimisticLock", call.at)
				}
			}
		}
	}

	check.Equal(t, "deletions are found", deletions >= 8, true)
}

// called is a call in the source code, with its position.
type called struct {
	at, file string
	of       *ast.CallExpr
}

// callsIn returns the calls in a package.
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
				out = append(out, called{at: set.Position(call.Pos()).String(), file: name, of: call})
			}

			return true
		})
	}

	return out
}
