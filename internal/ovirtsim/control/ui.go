package control

import (
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"reflect"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// QuietLog is for HTTP servers: what clients do wrong is no concern of the simulator's.
func QuietLog() *log.Logger { return log.New(io.Discard, "", 0) }

// page is what the UI consists of; it needs nothing from elsewhere.
//
//go:embed page/index.html
var page embed.FS

// UI is the page that is served; nil means none.
type UI struct {
	server  *http.Server
	address string
}

// URL of the page; empty without one.
func (u *UI) URL() string {
	if u == nil {
		return ""
	}

	return "http://" + u.address + "/"
}

// Close ends it.
func (u *UI) Close() {
	if u != nil {
		_ = u.server.Close()
	}
}

// ServeUI serves the page in plain HTTP, since a browser does not trust our CA, and therefore on loopback only.
func (s *Control) ServeUI(address string) (*UI, error) {
	if address == "" {
		return nil, nil
	}

	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("the address of the page %q is not HOST:PORT: %w", address, err)
	}

	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("the page is served on loopback only, not on %q: write 127.0.0.1:PORT", host)
	}

	listener, err := net.Listen("tcp", address) //nolint:noctx // at once
	if err != nil {
		return nil, fmt.Errorf("failed to listen on %s for the page: %w", address, err)
	}

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		http.ServeFileFS(w, r, page, "page/index.html")
	})
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		wire.AnswerJSON(w, http.StatusOK, s.State())
	})
	mux.HandleFunc("GET /events", s.stream)
	out := &UI{
		server:  &http.Server{Handler: guarded(mux), ReadHeaderTimeout: 10 * time.Second, ErrorLog: QuietLog()},
		address: listener.Addr().String(),
	}
	go func() { _ = out.server.Serve(listener) }()

	return out, nil
}

// guarded keeps other sites out: a page of theirs must not read ours by a name that they point at loopback, and ours
// loads nothing of theirs.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}

		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "this page is for loopback", http.StatusForbidden)
			return
		}

		w.Header().
			Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src "+
				"'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri "+
				"'none'; form-action 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		next.ServeHTTP(w, r)
	})
}

const (
	// streamPause is the shortest time between two states on the stream.
	streamPause = 250 * time.Millisecond
	// streamIdle is the longest: nodes become ready without the engine's doing.
	streamIdle = 2 * time.Second
	// streamShare is how many times longer than making a state the pause after it is, so that one who looks at a big
	// site does not slow it down.
	streamShare = 4
)

// stream sends the state whenever it has changed, as server-sent events, and else an event "same" now and then, by
// which the page knows that the engine is there.
func (s *Control) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	controller := http.NewResponseController(w)
	_, _ = io.WriteString(w, "retry: 1000\n\n") // an engine that was restarted is found again soon
	var sent State

	for {
		changed, begin := s.watchers.next(), time.Now()
		state := s.State()
		at := state.Time
		state.Time = sent.Time
		event := "event: same\ndata:\n\n"
		if !reflect.DeepEqual(state, sent) {
			state.Time = at
			encoded, err := json.Marshal(state)
			if err != nil {
				return
			}

			sent, event = state, "data: "+string(encoded)+"\n\n"
		}

		if _, err := io.WriteString(w, event); err != nil || controller.Flush() != nil {
			return
		}

		if !pause(r, s, time.After(max(streamPause, streamShare*time.Since(begin))),
			nil) || !pause(r, s, time.After(streamIdle), changed) {
			return
		}
	}
}

// pause waits for a time or a change; false means that the browser is gone.
func pause(r *http.Request, s *Control, wait <-chan time.Time, changed <-chan struct{}) bool {
	select {
	case <-r.Context().Done():
		return false
	case <-s.engine.Done():
		return false
	case <-wait:
	case <-changed:
	}

	return true
}
