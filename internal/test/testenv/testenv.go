// Package testenv provides tests with the tools that `make tools` finds or builds.
package testenv

import (
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

// FindExecutable returns the executor for tests. Without an executor, it fails the test, because a skip would hide that
// the test did not run.
func FindExecutable(t testing.TB) terraform.Executable {
	t.Helper()
	found, err := Toolchain(t).FindExecutor(t.Context())
	if err != nil {
		t.Fatalf("%v (make tools finds or builds one)", err)
	}

	return found
}
