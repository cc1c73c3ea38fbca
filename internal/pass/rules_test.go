package pass_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// eachControllerFile calls a function with each source file of the controllers, by its path below controllers.
func eachControllerFile(t *testing.T, call func(path string, file *ast.File)) {
	t.Helper()

	const root = "../../controllers"
	check.Error(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}

		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			call(strings.TrimPrefix(path, root+"/"), file)
		}

		return err
	}), "")
}

// callsIn returns the functions called in a node, such as conditions.Set, and the fields of statuses assigned in it.
func callsIn(node ast.Node) []string {
	var out []string

	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok {
				out = append(out, of.Name+"."+n.Sel.Name)
			}

			out = append(out, "."+n.Sel.Name)
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				if field, ok := to.(*ast.SelectorExpr); ok && field.Sel.Name == "Conditions" {
					out = append(out, "=Conditions")
				}
			}
		}

		return true
	})

	return out
}

// TestOnlyStatusFilesWriteConditions reads all controllers. A condition set elsewhere depends on the order of phases.
func TestOnlyStatusFilesWriteConditions(t *testing.T) {
	writers := []string{
		"conditions.Set", "conditions.Delete", "conditions.SetSummaryCondition", "pass.SetReady",
		"pass.SetOfEarlierGeneration", "v1beta1conditions.MarkFalse", "v1beta1conditions.MarkTrue",
		"v1beta1conditions.Set", "meta.SetStatusCondition", "meta.RemoveStatusCondition", ".SetConditions",
		"=Conditions",
	}
	found := 0

	const approvals = "node/decide.go" // it approves CertificateSigningRequests, by a condition

	eachControllerFile(t, func(path string, file *ast.File) {
		for _, call := range callsIn(file) {
			switch {
			case !slices.Contains(writers, call), call == "=Conditions" && path == approvals:
			case filepath.Base(path) == "status.go":
				found++
			default:
				t.Errorf("controllers/%s has %s: move it to status.go", path, call)
			}
		}
	})

	check.Equal(t, "some conditions are written", found > 20, true)
}

// unframed are the controllers without a status of their own, with the reason.
var unframed = map[string]string{
	"access/controller.go": "it writes metadata of Secrets, ConfigMaps, identities and clusters of others",
	"node/controller.go":   "it reads Clusters, and writes in workload clusters",
	"state/controller.go":  "it writes metadata of Secrets",
}

// TestEveryControllerWithAStatusHasTheFrame reads all functions Reconcile. A controller of its own making would forget
// a guard.
func TestEveryControllerWithAStatusHasTheFrame(t *testing.T) {
	var framed, others []string

	eachControllerFile(t, func(path string, file *ast.File) {
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Recv == nil || function.Name.Name != "Reconcile" {
				continue
			}

			if slices.Contains(callsIn(function), "pass.Controller") {
				framed = append(framed, path)
			} else if others = append(others, path); unframed[path] == "" {
				t.Errorf("controllers/%s has a Reconcile without pass.Controller", path)
			}
		}

		if slices.Contains(callsIn(file), "passes.Begin") {
			t.Errorf("controllers/%s begins a pass without the frame", path)
		}
	})

	check.Length(t, "controllers with the frame", framed, 8)
	check.Length(t, "controllers without it", others, len(unframed))
}
