package command

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// makers are functions to create clients with write access to the API server or to an engine, by package.
var makers = map[string][]string{
	"sigs.k8s.io/controller-runtime/pkg/client":                    {"New", "NewWithWatch", "NewNamespacedClient"},
	"k8s.io/client-go/kubernetes":                                  {"NewForConfig", "NewForConfigAndClient", "NewForConfigOrDie", "New"},
	"k8s.io/client-go/dynamic":                                     {"NewForConfig", "NewForConfigAndClient", "NewForConfigOrDie", "New"},
	"k8s.io/client-go/metadata":                                    {"NewForConfig", "NewForConfigAndClient", "NewForConfigOrDie"},
	"k8s.io/client-go/rest":                                        {"RESTClientFor", "UnversionedRESTClientFor", "HTTPClientFor", "TransportFor"},
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine": {"New"},
}

// fencedMakers are the places that may call makers, because they add the fence, or write nothing.
var fencedMakers = map[string]string{
	"cmd/manager/command/leader.go":     "newClient wraps it in a fencedclient.Client",
	"cmd/manager/command/command.go":    "controllers write user data with a fencedclient.Client; all replicas answer VMs",
	"internal/providerprocess/child.go": "MayAct asks the manager",
	"internal/engine/sessions.go":       "MayAct is that of the sessions",
	"internal/connection/connection.go": "it is made to be checked, and dropped",
	"internal/connection/openshift.go":  "it is made to be checked, and dropped",
}

// TestNothingThatTheManagerRunsMakesAClientAroundTheFence examines the source code of each package in the manager.
func TestNothingThatTheManagerRunsMakesAClientAroundTheFence(t *testing.T) {
	met := map[string]bool{}

	for _, folder := range managerFolders(t) {
		for _, call := range madeIn(t, folder) {
			at := filepath.ToSlash(filepath.Join(inCheckout(t, folder), call.file))
			met[at] = true

			if fencedMakers[at] == "" {
				t.Errorf("%s calls %s: use the client of the manager, or a session of engine.Sessions", at, call.what)
			}
		}
	}

	for at := range fencedMakers {
		check.Equal(t, at+" makes a client", met[at], true)
	}
}

// inCheckout returns a path relative to the root of the checkout.
func inCheckout(t *testing.T, path string) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	check.Error(t, err, "")
	name, err := filepath.Rel(root, path)
	check.Error(t, err, "")

	return name
}

// managerFolders returns the folders of this project's packages in the manager.
func managerFolders(t *testing.T) (out []string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{.Dir}}", "./cmd/manager")
	command.Dir = "../../.."
	list, err := command.Output()
	check.Error(t, err, "")

	for folder := range strings.FieldsSeq(string(list)) {
		if !strings.HasPrefix(inCheckout(t, folder), "..") {
			out = append(out, folder)
		}
	}

	check.Equal(t, "packages are found", len(out) > 30, true)

	return out
}

// made is a call of a maker.
type made struct{ file, what string }

// madeIn returns the calls of makers in a package.
func madeIn(t *testing.T, folder string) []made {
	t.Helper()
	entries, err := os.ReadDir(folder)
	check.Error(t, err, "")

	var out []made

	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}

		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, name), nil, parser.SkipObjectResolution)
		check.Error(t, err, "")

		for _, what := range makersIn(file, filepath.Base(folder) == "engine") {
			out = append(out, made{file: name, what: what})
		}
	}

	return out
}

// makersIn returns the makers used in a file. In package engine itself, they have no prefix.
func makersIn(file *ast.File, isEngine bool) (out []string) {
	forbidden := map[string]string{} // such as "client.New", with the package's name in this file

	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := path[strings.LastIndex(path, "/")+1:]

		if spec.Name != nil {
			name = spec.Name.Name
		}

		for _, function := range makers[path] {
			forbidden[name+"."+function] = path + "." + function
		}
	}

	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			if of, ok := n.X.(*ast.Ident); ok && forbidden[of.Name+"."+n.Sel.Name] != "" {
				out = append(out, forbidden[of.Name+"."+n.Sel.Name])
			}
		case *ast.CallExpr:
			if of, ok := n.Fun.(*ast.Ident); ok && isEngine && of.Name == "New" {
				out = append(out, "engine.New")
			}
		}

		return true
	})

	return out
}
