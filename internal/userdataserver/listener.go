package userdataserver

import (
	"net"
	"sync"
)

// fairListener limits the open connections of each remote address. It closes further connections at once. Otherwise,
// one client with idle connections could block all others.
type fairListener struct {
	net.Listener

	maxPerAddress int

	mu   sync.Mutex
	open map[string]int
}

func newFairListener(listener net.Listener, most int) *fairListener {
	return &fairListener{Listener: listener, maxPerAddress: most, open: map[string]int{}}
}

// Accept implements net.Listener.
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}

		from := toOrigin(connection.RemoteAddr().String())
		if l.acquireFrom(from) {
			return &countedConn{Conn: connection, leave: sync.OnceFunc(func() { l.releaseFrom(from) })}, nil
		}

		_ = connection.Close()
	}
}

func (l *fairListener) acquireFrom(from string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.open[from] >= l.maxPerAddress {
		return false
	}

	l.open[from]++

	return true
}

func (l *fairListener) releaseFrom(from string) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.open[from]--; l.open[from] <= 0 {
		delete(l.open, from)
	}
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn

	leave func()
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	defer c.leave()

	return c.Conn.Close()
}
