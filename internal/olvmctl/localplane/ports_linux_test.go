package localplane_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
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

			// Another process would get the same error.
			if _, err := net.Listen("unix", fmt.Sprintf("@capolvm-port-%d", port)); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("port %d is not reserved: %v", port, err)
			}
		}
	}
}

func TestFreeNetwork(t *testing.T) {
	t.Parallel()

	listen := func(network, address string) net.Listener {
		listener, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() { _ = listener.Close() })

		return listener
	}

	everywhere := listen("tcp", ":0").Addr().(*net.TCPAddr).Port
	endpoint := listen("tcp", "127.22.3.5:0").Addr().(*net.TCPAddr)
	port := endpoint.Port

	listen("unix", "@capolvm-network-127.22.2")

	for _, test := range []struct {
		reason, preferred string
		port              int
		want              string // empty for another network, and "none" for an error
	}{
		{"the preferred network is free", "127.22.1", port, "127.22.1"},
		{"it is given once", "127.22.1", port, ""},
		{"another process has it", "127.22.2", port, ""},
		{"something listens at its endpoint", "127.22.3", port, ""},
		{"the endpoint of its neighbour does not matter", "127.22.4", port, "127.22.4"},
		{"something listens at all addresses", "127.22.5", everywhere, "none"},
		{"what was not free then is free at another port", "127.22.5", port, "127.22.5"},
	} {
		got, err := localplane.FreeNetwork(test.preferred, 5, test.port)

		switch test.want {
		case "none":
			check.Error(t, err, "no network 127.x.y.0/24 is free: ")
			check.Contains(t, test.reason, fmt.Sprint(err), "address already in use")
		case "":
			check.Error(t, err, "")
			if got == test.preferred || !strings.HasPrefix(got, "127.21.") {
				t.Errorf("%s: got %q, want another network", test.reason, got)
			}
		default:
			check.Error(t, err, "")
			check.Equal(t, test.reason, got, test.want)
		}
	}
}
