package api

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// defaultVersion is the version of the imitated engine, unless the inventory names another one.
const defaultVersion = "4.5.8"

// Settings are the settings of an engine at its start.
type Settings struct {
	// Address is the address of the engine, as host:port.
	Address string
	// CA and Certificate are in PEM. SSHKeys holds the public keys of both for SSH, by their names for pki-resource.
	CA, Certificate []byte
	SSHKeys         map[string][]byte
	// TokenLifetime is the lifetime of a session.
	TokenLifetime time.Duration
	Timings       Timings
	// Clock measures everything with a duration; nil means the machine's clock.
	Clock Clock
	// Guest runs in the VMs; nil means that VMs start, but that nothing runs in them.
	Guest Guest
	// Images is the folder of uploaded images.
	Images string
	// Keycloak reports that the engine's users come from Keycloak; see keycloak.go.
	Keycloak bool
	// Changed is called after every change not made by a request.
	Changed func()
	// GuestFault reports whether a fault of this kind affects a VM now.
	GuestFault func(kind, vmName string) bool
}

// Engine responds like an oVirt engine, based on the objects in its store, and changes their statuses over time.
type Engine struct {
	settings   Settings
	version    string
	mux        *http.ServeMux
	ctx        context.Context
	cancel     context.CancelFunc
	guestCalls chan func() // in the order of their events

	// mu guards the store.
	mu    sync.Mutex
	store *store.Store
	// earlySearches maps the text of each search for a missing tag to the time of the search; mu guards it. A restart
	// empties it, as in an engine.
	earlySearches map[string]time.Time

	// sessionsMu guards the sessions.
	sessionsMu sync.Mutex
	sessions   map[string]session // by token
	logins     int
}

// NewEngine returns an engine based on a store. For a new store, it adds the VMs and affinity groups of the inventory.
// For a resumed store, it continues the pending operations. Close stops the engine.
func NewEngine(settings Settings, from *store.Store, inventory inventory.Inventory, resumed bool) (*Engine, error) {
	if settings.Clock == nil {
		settings.Clock = systemClock{}
	}

	ctx, cancel := context.WithCancel(context.Background())
	s := &Engine{
		settings: settings, version: cmp.Or(inventory.Version, defaultVersion), store: from, ctx: ctx, cancel: cancel,
		sessions: map[string]session{}, guestCalls: make(chan func(), 1<<16),
	}
	s.mux = newMux()
	go s.runGuestCalls()

	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.resumeOrSeed(inventory, resumed); err != nil {
		cancel()
		return nil, err
	}

	return s, nil
}

// engineStarted is the code of the event for an engine's start (VDC_START in the engine's sources). This event ensures
// that every engine has events.
const engineStarted = 1

// resumeOrSeed resumes a store, or fills a new one.
func (s *Engine) resumeOrSeed(inventory inventory.Inventory, resumed bool) error {
	if resumed {
		s.version = s.store.Counters.Get(store.VersionRow).Text
		s.recordEvent(engineStarted, "normal", "Starting oVirt Engine.", eventOf{})
		s.resumeOperations()

		return s.store.Flush()
	}

	if err := s.seedVMs(inventory); err != nil {
		return err
	}

	s.recordEvent(engineStarted, "normal", "Starting oVirt Engine.", eventOf{})
	s.store.Counters.Put(store.VersionRow, &store.Counter{Text: s.version})
	s.store.Counters.Put(store.SeededRow, &store.Counter{Value: 1})

	return s.store.Flush()
}

// URL returns the URL of the engine, ending in /ovirt-engine.
func (s *Engine) URL() string { return "https://" + s.settings.Address + wire.EnginePath }

// Version returns the version of the engine.
func (s *Engine) Version() string { return s.version }

// Guest returns the guest running in the VMs, or nil.
func (s *Engine) Guest() Guest { return s.settings.Guest }

// now returns the time of the engine's clock.
func (s *Engine) now() time.Time { return s.settings.Clock.Now() }

// Done returns a channel that closes when the engine stops.
func (s *Engine) Done() <-chan struct{} { return s.ctx.Done() }

// Lock gives the caller exclusive access to the store, until Unlock.
func (s *Engine) Lock() *store.Store {
	s.mu.Lock()
	return s.store
}

// Unlock ends the exclusive access.
func (s *Engine) Unlock() { s.mu.Unlock() }

// Close stops the engine and all its guests.
func (s *Engine) Close() {
	s.cancel()
	if s.settings.Guest != nil {
		s.settings.Guest.Close()
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.Close()
}

// ServeHTTP answers requests for the API, for images, and for other paths.
func (s *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == wire.APIPath || strings.HasPrefix(path, wire.APIPath+"/"):
		s.serveAPI(w, r)
	case strings.HasPrefix(path, imagesPath):
		s.serveImage(w, r)
	default:
		s.serveOther(w, r)
	}
}

// serveOther answers calls outside the API. None of them needs a session.
func (s *Engine) serveOther(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}

	switch method + " " + strings.TrimPrefix(r.URL.Path, wire.EnginePath) {
	case "POST /sso/oauth/token", "GET /sso/oauth/token":
		s.serveToken(w, r)
	case "POST /services/sso-logout", "GET /services/sso-logout":
		s.serveLogout(w, r)
	case "POST /sso/oauth/revoke":
		serveRevoke(w, r)
	case "POST /sso/oauth/token-info":
		serveTokenInfo(w, r)
	case "GET /services/pki-resource":
		s.servePKIResource(w, r)
	case "GET /services/health":
		setLocaleCookie(w)
		w.Header().Set("Content-Type", "text/html;charset=ISO-8859-1")
		if r.Method == http.MethodHead {
			w.Header().Set("Content-Type", "text/html")
		}

		_, _ = w.Write([]byte("DB Up!Welcome to Health Status!"))
	case "GET ": // the page at which browsers enter
		s.redirectToLogin(w, r)
	case "GET /login":
		s.serveLoginPage(w, r)
	default:
		writeNotFoundPage(w)
	}
}

// redirectToLogin redirects a browser to the login page.
func (s *Engine) redirectToLogin(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(strings.SplitN(r.RequestURI, "?", 2)[0], "/") {
		w.Header().Set("Location", s.URL()+"/")
		w.WriteHeader(http.StatusFound)
		return
	}

	setSecurityHeaders(w)
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // as the engine has it
		Name:     sessionCookie,
		Value:    wire.RandomHex(16),
		Path:     wire.EnginePath,
		HttpOnly: true,
	})
	w.Header().Set("Location", s.URL()+"/login?scope=ovirt-ext%3Dauth%3Aidentity")
	w.WriteHeader(http.StatusFound)
}

// serveLoginPage serves the login page for browsers.
func (s *Engine) serveLoginPage(w http.ResponseWriter, r *http.Request) {
	// No recording confirms this. The client in the released provider expects endless redirects for requests without
	// cookies.
	if _, err := r.Cookie(sessionCookie); err != nil {
		w.Header().Set("Location", s.URL()+"/")
		w.WriteHeader(http.StatusFound)
		return
	}

	setSecurityHeaders(w)
	w.Header().Set("Content-Type", "text/html;charset=UTF-8")
	_, _ = w.Write(
		[]byte(
			"<!DOCTYPE html><html><head><title>oVirt Engine</title></head><body><h1>Welcome to the oVirt Engine " +
				"simulator</h1></body></html>\n",
		),
	)
}

func writeNotFoundPage(w http.ResponseWriter) {
	setLocaleCookie(w)
	w.Header().Set("Content-Language", "en-US")
	w.Header().Set("Content-Type", "text/html;charset=UTF-8")
	w.WriteHeader(http.StatusNotFound)
	_, _ = w.Write(
		[]byte(
			`<!DOCTYPE html><html><head><meta charset="utf-8"><title>404 - Page not found</title></head>` +
				`<body>The page was not found.</body></html>`,
		),
	)
}
