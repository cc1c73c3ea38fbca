package localpage

import (
	"crypto/subtle"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"strings"
	"time"
)

// assets are the files that all pages share. They refer to no other sites.
//
//go:embed assets
var assets embed.FS

// Options configure a page.
type Options struct {
	// Address is the address on which the server listens, as HOST:PORT with a loopback host.
	Address string
	// Token is the first part of each path, for pages that only some users of the machine may read; "" means no token.
	Token string
	// Page contains index.html and the files to which it refers, except the shared assets. Those are below base/.
	Page fs.FS
	// Routes maps paths without the token, such as "state", to their handlers.
	Routes map[string]http.Handler
}

// Server serves a page. A nil Server means that there is no page.
type Server struct {
	server *http.Server
	url    string
}

// URL returns the URL of the page with the token, or "" without a page.
func (s *Server) URL() string {
	if s == nil {
		return ""
	}

	return s.url
}

// Close stops the server.
func (s *Server) Close() {
	if s != nil {
		_ = s.server.Close()
	}
}

// Serve serves a page over plain HTTP. It serves only on loopback, because a browser trusts no certificate that this
// program could create.
func Serve(o Options) (*Server, error) {
	if err := checkAddress(o.Address); err != nil {
		return nil, err
	}

	listener, err := net.Listen("tcp", o.Address) //nolint:noctx // at once
	if err != nil {
		return nil, fmt.Errorf("failed to listen on %s for the page: %w", o.Address, err)
	}

	out := &Server{
		server: &http.Server{
			Handler:           guardLoopback(withToken(o.Token, o.newMux())),
			ReadHeaderTimeout: 10 * time.Second,
			ErrorLog:          QuietLog(),
		},
		url: "http://" + listener.Addr().String() + "/",
	}
	if o.Token != "" {
		out.url += o.Token + "/"
	}

	go func() { _ = out.server.Serve(listener) }()

	return out, nil
}

// checkAddress returns an error for an address that other machines can reach.
func checkAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("the address of the page %q is not HOST:PORT: %w", address, err)
	}

	if !isLoopback(host) {
		return fmt.Errorf("the page is served only on loopback, not on %q; use 127.0.0.1:PORT", host)
	}

	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)

	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// newMux returns the handler of the page's files and routes. All of them are read-only.
func (o *Options) newMux() *http.ServeMux {
	mux := http.NewServeMux()

	for name, handler := range o.Routes {
		mux.Handle("GET /"+name, handler)
	}

	shared, _ := fs.Sub(assets, "assets") // cannot fail, because the folder is embedded
	mux.Handle("GET /base/{file}", newFileHandler(shared))
	mux.Handle("GET /page/{file}", newFileHandler(o.Page))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { serveFile(w, r, o.Page, "index.html") })

	return mux
}

func newFileHandler(from fs.FS) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { serveFile(w, r, from, r.PathValue("file")) }
}

func serveFile(w http.ResponseWriter, r *http.Request, from fs.FS, name string) {
	w.Header().Set("Cache-Control", "no-store")
	http.ServeFileFS(w, r, from, name)
}

// withToken accepts only requests that contain the token. For all others, the response reveals nothing else.
func withToken(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, rest, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if !found || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			http.Error(w, "open the URL printed at the start, with its token", http.StatusForbidden)
			return
		}

		inner := r.Clone(r.Context())
		inner.URL.Path, inner.URL.RawPath = "/"+rest, ""
		next.ServeHTTP(w, inner)
	})
}

// guardLoopback protects the page from other sites. Another site cannot read the page through a host name that resolves
// to loopback, and the page loads nothing from other sites.
func guardLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = strings.Trim(r.Host, "[]")
		}

		if !isLoopback(host) {
			http.Error(w, "this page is for loopback", http.StatusForbidden)
			return
		}

		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; "+
			"connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "+
			"require-trusted-types-for 'script'; trusted-types 'none'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Referrer-Policy", "no-referrer")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// QuietLog returns a logger for HTTP servers that drops messages, because errors of clients do not matter to us.
func QuietLog() *log.Logger { return log.New(io.Discard, "", 0) }
