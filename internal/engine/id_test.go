package engine_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// uuidOf returns a UUID ending in a number.
func uuidOf(n int) string { return fmt.Sprintf("11111111-1111-4111-8111-%012d", n) }

// hostileIDs have a special meaning in a path, in HCL or in the ID of an import.
var hostileIDs = []string{
	"", "${file(\"/etc/passwd\")}", "%{ if true }", "..", "../../vms", "a/b", "7", "x\ny",
	strings.ToUpper("aaaaaaaa-1111-4111-8111-111111111111"), uuidOf(1) + " ", uuidOf(1) + "\n", "{" + uuidOf(1) + "}",
}

func TestParseID(t *testing.T) {
	if id, err := engine.ParseID(uuidOf(1)); err != nil || id.String() != uuidOf(1) {
		t.Errorf("got %q, %v", id, err)
	}

	for _, text := range hostileIDs {
		if id, err := engine.ParseID(text); err == nil || id != "" {
			t.Errorf("%q became %q", text, id)
		}
	}
}

// TestAnIDThatIsNoneIsRefused uses an engine with hostile IDs in its answers.
func TestAnIDThatIsNoneIsRefused(t *testing.T) {
	hostile := ""
	_, config := start(t, ovirtsim.Options{Gate: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			path := r.URL.Path
			name := map[bool]string{
				true:  "graphics_console",
				false: "tag",
			}[strings.HasSuffix(path, "/graphicsconsoles")]
			if !strings.HasSuffix(path, "/tags") && name == "tag" {
				next.ServeHTTP(w, r)
				return
			}

			w.Header().Set("Content-Type", "application/xml")
			escaped := strings.NewReplacer("\"", "&quot;", "\n", "&#10;").Replace(hostile)
			fmt.Fprintf(w, `<%[1]ss><%[1]s id="%[2]s"><name>n</name></%[1]s></%[1]ss>`, name, escaped)
		})
	}})
	c := client(t, config)
	vm := engine.ID(uuidOf(1))

	for _, hostile = range hostileIDs {
		if tags, err := c.ListVMTags(
			t.Context(), vm,
		); err == nil ||
			!strings.Contains(err.Error(), "an ID that is none") {
			t.Errorf("the tag %q became %+v, %v", hostile, tags, err)
		}
	}

	for _, hostile = range []string{"", "zz", "../..", uuidOf(1)} {
		if ids, err := c.ListGraphicsConsoles(t.Context(), vm); err == nil {
			t.Errorf("the console %q became %q", hostile, ids)
		}
	}

	hostile = uuidOf(7)
	if tags, err := c.ListVMTags(t.Context(), vm); err != nil || len(tags) != 1 || tags[0].ID.String() != hostile {
		t.Errorf("got %+v, %v", tags, err)
	}
}

// TestAnIDOfAStateStaysOneStep requests a VM by IDs forged in a state. The path must keep its number of segments.
func TestAnIDOfAStateStaysOneStep(t *testing.T) {
	var asked []string
	_, config := start(t, ovirtsim.Options{Gate: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if step, ok := strings.CutPrefix(r.URL.EscapedPath(), "/ovirt-engine/api/vms/"); ok {
				asked = append(asked, step)
			}

			next.ServeHTTP(w, r)
		})
	}})
	c := client(t, config)

	for _, text := range hostileIDs {
		asked = nil
		if _, err := c.FetchVM(t.Context(), engine.ID(text)); err == nil || len(asked) != 1 {
			t.Errorf("%q asked for %q, %v", text, asked, err)
		}

		for _, step := range asked {
			decoded, err := url.PathUnescape(step)
			check.Error(t, err, "")
			check.Lacks(t, "step", step, "/")
			check.Equal(t, "decoded", decoded, "not-a-uuid:"+text)
		}
	}
}

// TestEveryIDIsChecked reads the sources. Each field for an ID in an answer must have a type that checks the ID.
func TestEveryIDIsChecked(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}

	fields := 0

	for _, entry := range entries {
		if name := entry.Name(); !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}

		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}

		ast.Inspect(file, func(node ast.Node) bool {
			field, ok := node.(*ast.Field)
			if !ok || field.Tag == nil {
				return true
			}

			tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("xml")
			if name, _, _ := strings.Cut(tag, ","); name != "id" && name != "href" {
				return true
			}

			fields++
			if kind, ok := field.Type.(*ast.Ident); !ok ||
				kind.Name != "ID" && kind.Name != "ConsoleID" && kind.Name != "permitID" {
				t.Errorf("%s: a field with the tag %s is no ID", entry.Name(), field.Tag.Value)
			}

			return true
		})
	}

	if fields < 15 {
		t.Errorf("only %d fields were found", fields)
	}
}
