package userdataserver

import (
	"net"
	"sync"
)

// fairListener accepts so many open connections of each address, and closes further ones at once: whoever opens them
// and says nothing would keep all others out.
type fairListener struct {
	net.Listener

	most int

	mu   sync.Mutex
	open map[string]int
}

func newFairListener(listener net.Listener, most int) *fairListener {
	return &fairListener{Listener: listener, most: most, open: map[string]int{}}
}

// Accept implements net.Listener.
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}

		from := origin(connection.RemoteAddr().String())
		if l.enter(from) {
			return &countedConn{Conn: connection, leave: sync.OnceFunc(func() { l.leave(from) })}, nil
		}

		_ = connection.Close()
	}
}

func (l *fairListener) enter(from string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.open[from] >= l.most {
		return false
	}

	l.open[from]++

	return true
}

func (l *fairListener) leave(from string) {
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
