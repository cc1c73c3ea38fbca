package pass_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/jumphost"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/steadytext"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workload"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// noisy returns a message of a library, an engine or an API server about the n-th try at a time.
func noisy(at time.Time, n int) string {
	return fmt.Sprintf("attempt %d failed at %s (request id: r%d): read tcp 10.0.0.2:%d->10.0.0.1:443: broken",
		n, at.Format(time.RFC3339Nano), n, 30000+n)
}

// conditionErrors returns a function for each exported error type that can reach a condition, by package and name. The
// function creates such an error.
func conditionErrors() map[string]func(at time.Time, n int) error {
	inner := func(at time.Time, n int) error { return errors.New(noisy(at, n)) }

	return map[string]func(at time.Time, n int) error{
		"engine.Fault": func(at time.Time, n int) error {
			return &engine.Fault{Method: "GET", Path: "/vms", StatusCode: 500, Reason: "Error", Detail: noisy(at, n)}
		},
		"engine.AuthError": func(at time.Time, n int) error {
			return &engine.AuthError{Username: "u@internal", Message: noisy(at, n), RetryAt: at.Add(time.Hour)}
		},
		"engine.TLSError": func(at time.Time, n int) error {
			return &engine.TLSError{Problem: engine.CertificateExpired, Err: inner(at, n)}
		},
		"engine.UnreachableError": func(at time.Time, n int) error { return &engine.UnreachableError{Err: inner(at, n)} },
		"engine.CancelledError":   func(at time.Time, n int) error { return &engine.CancelledError{Err: inner(at, n)} },
		"engine.TextError": func(at time.Time, n int) error {
			return &engine.TextError{Path: "comment", Problem: inner(at, n)}
		},
		"engine.ProfileChoiceError": func(time.Time, int) error {
			return &engine.ProfileChoiceError{Network: "a", Profiles: []string{"b", "c"}}
		},
		"engine.InactiveError": func(time.Time, int) error {
			return &engine.InactiveError{Scope: "data center", Domains: []engine.StorageDomain{{Name: "a"}}}
		},
		"engine.AllocationError": func(at time.Time, n int) error {
			return &engine.AllocationError{Message: noisy(at, n)}
		},
		"engine.NameError": func(time.Time, int) error {
			return &engine.NameError{Kind: "template", Name: "a", Scope: "data center", Known: []string{"b"}}
		},
		"engine.WaitError": func(at time.Time, n int) error {
			return &engine.WaitError{
				What: "VM a to start",
				Seen: "down",
				Last: inner(at, n),
				Err:  context.DeadlineExceeded,
			}
		},
		"engine.UnansweredError": func(at time.Time, n int) error {
			return &engine.UnansweredError{Err: &engine.UnreachableError{Err: inner(at, n)}}
		},
		"blocker.Error": func(at time.Time, n int) error {
			return &blocker.Error{Reason: infrav1.RenderFailedReason, Field: "spec", Message: noisy(at, n)}
		},
		"terraform.DiagnosticError": func(at time.Time, n int) error {
			return &terraform.DiagnosticError{
				Phase: "apply", Diagnostics: []terraform.Diagnostic{{Summary: noisy(at, n)}},
			}
		},
		"terraform.GuardError": func(time.Time, int) error {
			return &terraform.GuardError{Address: "a", Action: "delete"}
		},
		"terraform.TimeoutError": func(time.Time, int) error { return &terraform.TimeoutError{Limit: 15 * time.Minute} },
		"terraform.DiskFullError": func(at time.Time, n int) error {
			return &terraform.DiskFullError{Dir: "/work", Err: inner(at, n)}
		},
		"terraform.KilledError": func(time.Time, int) error {
			return &terraform.KilledError{Phase: "plan", Signal: syscall.SIGKILL}
		},
		"terraform.StateVersionError": func(time.Time, int) error { return &terraform.StateVersionError{Written: "1.99"} },
		"terraform.UndeclaredError":   func(time.Time, int) error { return &terraform.UndeclaredError{} },
		"terraform.UnknownTypeError":  func(time.Time, int) error { return &terraform.UnknownTypeError{} },
		"tfstate.InvalidError": func(at time.Time, n int) error {
			return &tfstate.InvalidError{Secret: "s", Reason: noisy(at, n)}
		},
		"tfstate.ConflictError": func(time.Time, int) error { return &tfstate.ConflictError{} },
		"tfstate.TooLargeError": func(time.Time, int) error { return &tfstate.TooLargeError{} },
		"addressrange.FieldError": func(at time.Time, n int) error {
			return &addressrange.FieldError{Field: "f", Problem: noisy(at, n)}
		},
		"jumphost.RefusedError": func(at time.Time, n int) error { return &jumphost.RefusedError{Reason: noisy(at, n)} },
		"workload.RefusedError": func(at time.Time, n int) error { return &workload.RefusedError{Problem: noisy(at, n)} },
		"of the API server": func(at time.Time, n int) error {
			return apierrors.NewInternalError(inner(at, n))
		},
		"of the way to the API server": func(at time.Time, n int) error {
			return fmt.Errorf("failed to read Secret a/b: %w", &url.Error{
				Op: "Get", URL: "https://10.96.0.1:443/api/v1", Err: &net.OpError{
					Op: "read", Net: "tcp", Source: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 30000 + n},
					Addr: &net.TCPAddr{IP: net.IPv4(10, 96, 0, 1), Port: 443}, Err: syscall.ECONNRESET,
				},
			})
		},
	}
}

// TestNoConditionDiffersFromTryToTry creates each error that can reach a condition twice, 11 seconds apart. It sends
// both errors along every way to a condition.
func TestNoConditionDiffersFromTryToTry(t *testing.T) {
	first := time.Date(2026, 11, 9, 3, 4, 5, 678, time.UTC)
	second := first.Add(11 * time.Second)

	ways := map[string]func(err error, n int) string{
		"the engine's condition":  func(err error, _ int) string { _, text := blocker.ExplainEngineError(err); return text },
		"that of a configuration": func(err error, _ int) string { _, text := pass.RenderReason(err); return text },
		"that of a run": func(err error, n int) string {
			return workspace.Failure{Err: err, Count: n}.Message()
		},
		"any other":  func(err error, _ int) string { return err.Error() },
		"a long one": func(err error, _ int) string { return steadytext.Shorten(strings.Repeat(err.Error()+" ", 50), 777) },
	}
	for kind, make := range conditionErrors() {
		for way, text := range ways {
			check.Equal(t, kind+": "+way, written(t, text(make(second, 10), 10)), written(t, text(make(first, 3), 3)))
		}
	}
}

var schemeOfAPI = sync.OnceValue(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(api.AddToScheme(scheme))

	return scheme
})

// written returns the message of a condition in the form that the end of a pass writes.
func written(t *testing.T, message string) string {
	t.Helper()

	machine := &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}}
	c := fake.NewClientBuilder().WithScheme(schemeOfAPI()).WithObjects(machine).WithStatusSubresource(machine).Build()
	this, err := (&pass.Tracker{}).BeginPass(t.Context(), c, client.ObjectKeyFromObject(machine), machine)
	check.Error(t, err, "")

	err = this.WriteWithStatus(t.Context(), func() {
		machine.Status.Conditions = []metav1.Condition{{Type: infrav1.UserDataRemovedCondition, Message: message}}
	})
	check.Error(t, err, "")
	check.Error(t, c.Get(t.Context(), client.ObjectKeyFromObject(machine), machine), "")

	return machine.Status.Conditions[0].Message
}

var writesStatus = regexp.MustCompile(`\.Status\(\)\.(Patch|Update|Apply)\(`)

// TestEveryStatusIsWrittenSteadily finds whoever writes a status other than at the end of a pass: that has to call
// steadytext.SteadyMessages, too.
func TestEveryStatusIsWrittenSteadily(t *testing.T) {
	var writers []string

	for _, root := range []string{"../../controllers", ".."} {
		check.Error(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.HasPrefix(path, "../test/") {
				return err
			}

			content, err := os.ReadFile(path)
			if writesStatus.Match(content) {
				// Remediation writes a condition of a Machine, whose other conditions are Cluster API's. Its text is
				// the controller's alone.
				if !strings.Contains(string(content), "steadytext.SteadyMessages(") &&
					!strings.Contains(path, "/remediation/") {
					t.Errorf("%s writes a status without steadytext.SteadyMessages", path)
				}

				writers = append(writers, filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path))
			}

			return err
		}), "")
	}

	check.Equal(t, "files that write a status", writers, []string{
		"inventory/status.go", "remediation/controller.go", "pass/pass.go",
	})
}

// packagesOfTheManager are the packages whose errors can reach a condition.
var packagesOfTheManager = []string{
	"addressing",
	"addressing/addressrange",
	"blocker",
	"bootstrap",
	"connection",
	"desired",
	"engine",
	"enginepool",
	"inventory",
	"jumphost",
	"pass",
	"placement",
	"providerprocess",
	"support",
	"terraform",
	"tfstate",
	"userdataserver",
	"workload",
	"workspace",
}

// TestEveryTypeOfErrorIsMadeTwice fails if a new error type is missing in conditionErrors.
func TestEveryTypeOfErrorIsMadeTwice(t *testing.T) {
	known := conditionErrors()

	for _, name := range packagesOfTheManager {
		files, err := filepath.Glob("../" + name + "/*.go")
		check.Error(t, err, "")
		if len(files) == 0 {
			t.Errorf("there is no package %s", name)
		}

		for _, file := range files {
			for _, of := range errorTypes(t, file) {
				if full := path.Base(name) + "." + of; known[full] == nil {
					t.Errorf("%s is not in conditionErrors", full)
				}
			}
		}
	}
}

// errorTypes returns the exported types of a file that have a method Error.
func errorTypes(t *testing.T, file string) (out []string) {
	t.Helper()

	if strings.HasSuffix(file, "_test.go") {
		return nil
	}

	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	check.Error(t, err, "")

	for _, declaration := range parsed.Decls {
		method, ok := declaration.(*ast.FuncDecl)
		if !ok || method.Recv == nil || method.Name.Name != "Error" {
			continue
		}

		receiver := method.Recv.List[0].Type
		if pointer, ok := receiver.(*ast.StarExpr); ok {
			receiver = pointer.X
		}

		if name, ok := receiver.(*ast.Ident); ok && name.IsExported() {
			out = append(out, name.Name)
		}
	}

	return out
}
