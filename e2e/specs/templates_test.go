package specs

import (
	"testing"

	"github.com/onsi/gomega"

	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// TestWriteRepository makes the templates of the specs without running any: the specs take too long for each change, and
// a change of a template that they cannot follow must show all the same.
func TestWriteRepository(t *testing.T) {
	gomega.RegisterTestingT(t)
	tools, err := toolchain.New()
	if err != nil {
		t.Fatal(err)
	}

	writeRepository(tools.Root(), t.TempDir())
}
