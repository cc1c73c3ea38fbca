// Package testenv gives tests what `make tools` has found or built.
package testenv

import (
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// Toolchain of the checkout that is tested.
func Toolchain(t testing.TB) *toolchain.Toolchain {
	t.Helper()
	tools, err := toolchain.New()
	if err != nil {
		t.Fatal(err)
	}

	return tools
}

// Executable is the executor to test with. A test that needs one fails without: a skip would hide that nothing was
// tested.
func Executable(t testing.TB) terraform.Executable {
	t.Helper()
	found, err := Toolchain(t).FindExecutor(t.Context())
	if err != nil {
		t.Fatalf("%v (make tools finds or builds one)", err)
	}

	return found
}
