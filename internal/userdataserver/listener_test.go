package userdataserver

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"net/url"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// dialFrom connects to a site's server from the given address of this machine.
func dialFrom(t *testing.T, site *site, from string) net.Conn {
	t.Helper()
	at, err := url.Parse(site.offer("data").URL)
	check.Error(t, err, "")

	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: netip.MustParseAddr(from).AsSlice()}}
	connection, err := dialer.DialContext(t.Context(), "tcp", at.Host)
	check.Error(t, err, "")
	t.Cleanup(func() { _ = connection.Close() })

	return connection
}

// closedByServer waits until the server closes a connection without requests.
func closedByServer(connection net.Conn) bool {
	_, err := connection.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

// TestOneAddressDoesNotKeepOthersOut opens more idle connections from one address than the server allows in total. A VM
// at another address still gets its user data.
func TestOneAddressDoesNotKeepOthersOut(t *testing.T) {
	s := newSite(t)
	pointer := s.offer("data")

	for range maxFrom {
		dialFrom(t, s, "127.0.0.2")
	}

	for range maxConnections {
		check.Equal(t, "a further connection is closed", closedByServer(dialFrom(t, s, "127.0.0.2")), true)
	}

	code, content := s.fetch(pointer)
	check.Equal(t, "the answer to a VM elsewhere", code, 200)
	check.Equal(t, "its user data", content, "data")
}

// TestAClosedConnectionMakesRoom covers an address at its limit that closes a connection.
func TestAClosedConnectionMakesRoom(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.Error(t, err, "")
	fair := newFairListener(listener, 1)
	t.Cleanup(func() { _ = fair.Close() })

	accepted := make(chan net.Conn)
	go func() {
		for {
			connection, err := fair.Accept()
			if err != nil {
				return
			}

			accepted <- connection
		}
	}()

	dial := func() net.Conn {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
		check.Error(t, err, "")
		t.Cleanup(func() { _ = connection.Close() })

		return connection
	}

	dial()
	first := wait.Receive(t, "the first connection", accepted)
	check.Equal(t, "the second is closed", closedByServer(dial()), true)

	check.Error(t, first.Close(), "")
	_ = first.Close() // counts only once
	dial()
	wait.Receive(t, "a connection after one was closed", accepted)
	check.Equal(t, "it counts", fair.open, map[string]int{"127.0.0.1": 1})
}

// TestWhoIsCounted covers the addresses that one host can use.
func TestWhoIsCounted(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:4711":          "192.0.2.7",
		"[::ffff:192.0.2.7]:4711": "192.0.2.7",
		"[2001:db8:1:2::7]:4711":  "2001:db8:1:2::/64",
		"[2001:db8:1:2:f::1]:1":   "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1":        "fe80::/64",
		"no address":              "no address",
		"@":                       "@",
	} {
		check.Equal(t, remote, toOrigin(remote), want)
	}
}
