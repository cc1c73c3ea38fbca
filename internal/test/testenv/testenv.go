// Package testenv provides tests with the tools that `make tools` finds or builds.
package testenv

import (
	"os"
	"sync"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// Toolchain returns the toolchain of the checkout under test.
func Toolchain(t testing.TB) *toolchain.Toolchain {
	t.Helper()
	tools, err := toolchain.New()
	if err != nil {
		t.Fatal(err)
	}

	return tools
}

// executables caches the executors by the environment variables that determine them. A look-up runs the executor, and
// some tests need the path for each of hundreds of runs.
var executables sync.Map

// FindExecutable returns the executor for tests. Without an executor, it fails the test, because a skip would hide that
// the test did not run.
func FindExecutable(t testing.TB) terraform.Executable {
	t.Helper()
	key := [2]string{os.Getenv(terraform.ExecutableEnv), os.Getenv("PATH")}
	if cached, ok := executables.Load(key); ok {
		return cached.(terraform.Executable) //nolint:forcetypeassert // no other type is stored
	}

	found, err := Toolchain(t).FindExecutor(t.Context())
	if err != nil {
		t.Fatalf("%v (make tools finds or builds one)", err)
	}

	executables.Store(key, found)

	return found
}
