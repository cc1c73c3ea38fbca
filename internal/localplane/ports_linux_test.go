package localplane_test

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/localplane"
)

func TestPortsAreGivenOnce(t *testing.T) {
	t.Parallel()
	given := map[int]bool{}

	for range 40 {
		ports, err := localplane.FreePorts(5)
		if err != nil {
			t.Fatal(err)
		}

		for _, port := range ports {
			if given[port] {
				t.Errorf("port %d was given twice", port)
			}

			given[port] = true

			// Another process would meet the same.
			if _, err := net.Listen("unix", fmt.Sprintf("@capolvm-port-%d", port)); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("port %d is not reserved: %v", port, err)
			}
		}
	}
}
