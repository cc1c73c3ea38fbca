// Package testenv provides tests with the tools found or built by `make tools`.
package testenv

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// Toolchain returns the toolchain of the tested checkout.
func Toolchain(t testing.TB) *toolchain.Toolchain {
	t.Helper()
	tools, err := toolchain.New()
	if err != nil {
		t.Fatal(err)
	}

	return tools
}

// FindExecutable returns the executor to test with. It fails the test without one: a skip would hide the missing test.
func FindExecutable(t testing.TB) terraform.Executable {
	t.Helper()
	found, err := Toolchain(t).FindExecutor(t.Context())
	if err != nil {
		t.Fatalf("%v (make tools finds or builds one)", err)
	}

	return found
}
