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

// defaultVersion is that of the engine whose answers the simulator follows.
const defaultVersion = "4.5.8"

// Settings are what an engine is started with.
type Settings struct {
	// Address that it is reached at, host:port.
	Address string
	// CA and Certificate in PEM, and the public keys of both for SSH, by the names that pki-resource has for them.
	CA, Certificate []byte
	SSHKeys         map[string][]byte
	// TokenLifetime is how long a session lives.
	TokenLifetime time.Duration
	Timings       Timings
	// Clock of what takes time; nil means the machine's.
	Clock Clock
	// Guest is what runs in the VMs; nil means that they start and do nothing.
	Guest Guest
	// Images is the folder of uploaded images.
	Images string
	// Keycloak has the users of the engine be those of Keycloak; see keycloak.go.
	Keycloak bool
	// Changed is called when something has changed that is not a request.
	Changed func()
	// GuestFault reports whether a fault of that kind is to meet a VM now.
	GuestFault func(kind, vmName string) bool
}

// Engine answers as an oVirt engine does, from the objects in its store, and has their statuses change with time.
type Engine struct {
	settings   Settings
	version    string
	mux        *http.ServeMux
	ctx        context.Context
	cancel     context.CancelFunc
	guestCalls chan func() // in their order

	// mu guards the store.
	mu    sync.Mutex
	store *store.Store
	// earlySearches are texts of searches for tags that did not exist, and when; mu guards them. An engine forgets them
	// when it restarts.
	earlySearches map[string]time.Time

	// sessionsMu guards the sessions.
	sessionsMu sync.Mutex
	sessions   map[string]session // by token
	logins     int
}

// NewEngine makes an engine that answers from a store, where a new one gets what the inventory wants beyond its
// objects. What was on its way in a store that was used before goes on. Close stops it.
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
	if err := s.begin(inventory, resumed); err != nil {
		cancel()
		return nil, err
	}

	return s, nil
}

// engineStarted is the code of the event of an engine's start, as the engine's sources have it (VDC_START). So there is
// no engine without events.
const engineStarted = 1

// begin goes on with a store that was used before, or fills a new one.
func (s *Engine) begin(inventory inventory.Inventory, resumed bool) error {
	if resumed {
		s.version = s.store.Counters.Get(store.VersionRow).Text
		s.event(engineStarted, "normal", "Starting oVirt Engine.", eventOf{})
		s.resume()

		return s.store.Flush()
	}

	if err := s.seed(inventory); err != nil {
		return err
	}

	s.event(engineStarted, "normal", "Starting oVirt Engine.", eventOf{})
	s.store.Counters.Put(store.VersionRow, &store.Counter{Text: s.version})
	s.store.Counters.Put(store.SeededRow, &store.Counter{Value: 1})

	return s.store.Flush()
}

// URL of the engine, ending in /ovirt-engine.
func (s *Engine) URL() string { return "https://" + s.settings.Address + wire.EnginePath }

// Version of the engine.
func (s *Engine) Version() string { return s.version }

// Guest is what runs in the VMs; nil means nothing.
func (s *Engine) Guest() Guest { return s.settings.Guest }

// now is the time of the engine's clock.
func (s *Engine) now() time.Time { return s.settings.Clock.Now() }

// Done is closed when the engine stops.
func (s *Engine) Done() <-chan struct{} { return s.ctx.Done() }

// Lock gives the store to the caller alone, until Unlock.
func (s *Engine) Lock() *store.Store {
	s.mu.Lock()
	return s.store
}

// Unlock gives the store back.
func (s *Engine) Unlock() { s.mu.Unlock() }

// Close stops the engine and everything that runs in its VMs.
func (s *Engine) Close() {
	s.cancel()
	if s.settings.Guest != nil {
		s.settings.Guest.Close()
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.Close()
}

// ServeHTTP answers a request of the API, for an image, or of what is beside them.
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

// serveOther are the calls outside of the API; none needs a session.
func (s *Engine) serveOther(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}

	switch method + " " + strings.TrimPrefix(r.URL.Path, wire.EnginePath) {
	case "POST /sso/oauth/token", "GET /sso/oauth/token":
		s.token(w, r)
	case "POST /services/sso-logout", "GET /services/sso-logout":
		s.logout(w, r)
	case "POST /sso/oauth/revoke":
		revoke(w, r)
	case "POST /sso/oauth/token-info":
		tokenInfo(w, r)
	case "GET /services/pki-resource":
		s.pkiResource(w, r)
	case "GET /services/health":
		localeCookie(w)
		w.Header().Set("Content-Type", "text/html;charset=ISO-8859-1")
		if r.Method == http.MethodHead {
			w.Header().Set("Content-Type", "text/html")
		}

		_, _ = w.Write([]byte("DB Up!Welcome to Health Status!"))
	case "GET ": // the entry of people, who log in with a browser
		s.entry(w, r)
	case "GET /login":
		s.loginPage(w, r)
	default:
		notFoundPage(w)
	}
}

// entry sends a browser on to the login.
func (s *Engine) entry(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(strings.SplitN(r.RequestURI, "?", 2)[0], "/") {
		w.Header().Set("Location", s.URL()+"/")
		w.WriteHeader(http.StatusFound)
		return
	}

	secured(w)
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // as the engine has it
		Name:     sessionCookie,
		Value:    wire.RandomHex(16),
		Path:     wire.EnginePath,
		HttpOnly: true,
	})
	w.Header().Set("Location", s.URL()+"/login?scope=ovirt-ext%3Dauth%3Aidentity")
	w.WriteHeader(http.StatusFound)
}

// loginPage is where a browser logs in.
func (s *Engine) loginPage(w http.ResponseWriter, r *http.Request) {
	// Not recorded. The client of the released provider expects redirects without an end where nobody keeps
	// cookies.
	if _, err := r.Cookie(sessionCookie); err != nil {
		w.Header().Set("Location", s.URL()+"/")
		w.WriteHeader(http.StatusFound)
		return
	}

	secured(w)
	w.Header().Set("Content-Type", "text/html;charset=UTF-8")
	_, _ = w.Write(
		[]byte(
			"<!DOCTYPE html><html><head><title>oVirt Engine</title></head><body><h1>Welcome to the oVirt Engine " +
				"simulator</h1></body></html>\n",
		),
	)
}

func notFoundPage(w http.ResponseWriter) {
	localeCookie(w)
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
