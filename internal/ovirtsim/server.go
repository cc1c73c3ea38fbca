package ovirtsim

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/localpage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/control"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// Options configure a simulated engine. The zero value is usable.
type Options struct {
	// Listen is the address on which the engine serves; "" means a free port on 127.0.0.1.
	Listen string
	// UI is a loopback address for a page that shows the engine's objects; "" means no page.
	UI string
	// Username and Password are the administrator's; "" means admin@internal and a random password.
	Username, Password string
	// Keycloak simulates an engine with Keycloak users. The default Username is then admin@ovirt@internalsso, and the
	// engine rejects HTTP Basic. No recording confirms the responses of such an engine.
	Keycloak bool
	// TokenLifetime is the lifetime of a session; 0 means 30 minutes.
	TokenLifetime time.Duration
	// Inventory is the initial content of the engine; an empty one means DefaultInventory. Existing data in the state
	// folder takes precedence.
	Inventory inventory.Inventory
	// StateFolder is the folder that keeps the objects across restarts; "" means that they are lost.
	StateFolder string
	// Timings are the durations of asynchronous operations; zero means DefaultTimings.
	Timings api.Timings
	// Clock measures these operations and sessions; nil means the machine's clock. Tests use their own clock.
	Clock api.Clock
	// Faults are the faults that exist from the beginning.
	Faults []control.Fault
	// Seed makes faults with a probability repeatable; 0 means random.
	Seed uint64
	// Guest runs in the VMs; nil means that VMs start, but that nothing runs in them.
	Guest api.Guest
	// Gate returns a handler in front of the engine, for tests that react to a request; nil means none.
	Gate func(engine http.Handler) http.Handler
}

// Server is a running simulated engine. It serves the API. Its Control is for tests and users.
type Server struct {
	*control.Control

	options  Options
	engine   *api.Engine
	identity *identity
	listener net.Listener
	http     *http.Server
	ui       *localpage.Server
	images   string
}

// Connection holds the data that a client needs. cmd/ovirtsim writes it as JSON.
type Connection struct {
	// URL is the URL of the engine, ending in /ovirt-engine.
	URL string `json:"url"`
	// CAFile is the path of the CA's certificate in PEM.
	CAFile string `json:"ca_file"`
	// Username and Password are for the login.
	Username string `json:"username"`
	Password string `json:"password"`
	// ControlURL is the URL of the control API, which sets faults and lists requests.
	ControlURL string `json:"control_url"`
	// UIURL is the URL of the page; "" means no page.
	UIURL string `json:"ui_url,omitempty"`
}

// New starts a simulated engine. Close stops it.
func New(options Options) (*Server, error) {
	options.setDefaults()
	if err := options.Inventory.Validate(); err != nil {
		return nil, fmt.Errorf("the inventory is not valid: %w", err)
	}

	control, err := control.New(options.Faults, options.Seed)
	if err != nil {
		return nil, err
	}

	s := &Server{Control: control, options: options}
	if err := s.startServing(); err != nil {
		s.Close()
		return nil, err
	}

	return s, nil
}

// setDefaults replaces zero values by the defaults.
func (o *Options) setDefaults() {
	o.Listen = cmp.Or(o.Listen, "127.0.0.1:0")
	if o.Keycloak {
		o.Username = cmp.Or(o.Username, api.KeycloakUser)
	}

	o.Username = cmp.Or(o.Username, "admin@internal")
	o.Password = cmp.Or(o.Password, wire.RandomHex(12))
	o.TokenLifetime = cmp.Or(o.TokenLifetime, 30*time.Minute)
	if len(o.Inventory.DataCenters) == 0 {
		o.Inventory = inventory.Default()
	}

	t := &o.Timings
	if *t == (api.Timings{}) {
		*t = api.DefaultTimings()
	}

	t.Disk = cmp.Or(t.Disk, t.Clone)
	t.Migrate = cmp.Or(t.Migrate, t.PowerUp)
	t.Fence = cmp.Or(t.Fence, 4*t.PowerDown)
}

// startServing loads the inventory, or restores the objects of the state folder, and serves the engine.
func (s *Server) startServing() error {
	var err error
	if s.listener, err = net.Listen("tcp", s.options.Listen); err != nil { //nolint:noctx // at once
		return fmt.Errorf("failed to listen on %s: %w", s.options.Listen, err)
	}

	if s.identity, err = newIdentity(s.options.StateFolder, s.listener.Addr()); err != nil {
		return err
	}

	if err := s.startEngine(); err != nil {
		return err
	}

	if s.ui, err = s.ServeUI(s.options.UI); err != nil {
		return err
	}

	var handler http.Handler = s.Control
	if s.options.Gate != nil {
		handler = asEngine(s.options.Gate(withoutCorrelation(handler)))
	}

	s.http = &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: localpage.QuietLog(),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{s.identity.tls}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = s.http.ServeTLS(s.listener, "", "") }()

	return nil
}

// startEngine starts the engine with the objects of the state folder. If there are none, it uses those of the
// inventory.
func (s *Server) startEngine() error {
	objects, resumed, err := s.openStore()
	if err != nil {
		return err
	}

	s.engine, err = api.NewEngine(api.Settings{
		Address:       s.listener.Addr().String(),
		CA:            s.identity.ca,
		Certificate:   s.identity.certificate,
		SSHKeys:       s.identity.sshKeys,
		TokenLifetime: s.options.TokenLifetime, Timings: s.options.Timings, Clock: s.options.Clock,
		Keycloak: s.options.Keycloak,
		Guest:    s.options.Guest, Images: s.images, Changed: s.NotifyObservers, GuestFault: s.GuestFault,
	}, objects, s.options.Inventory, resumed)
	if err != nil {
		objects.Close()
		return err
	}

	s.SetEngine(s.engine)

	return nil
}

// openStore opens the state folder, if there is one, and creates the folder of images.
func (s *Server) openStore() (objects *store.Store, resumed bool, err error) {
	objects = store.New()
	if folder := s.options.StateFolder; folder != "" {
		if resumed, err = objects.Open(folder); err != nil {
			return nil, false, err
		}

		s.images = filepath.Join(folder, "images")
	} else if s.images, err = os.MkdirTemp("", "ovirtsim-"); err != nil {
		return nil, false, fmt.Errorf("failed to make a folder for images: %w", err)
	}

	if err := os.MkdirAll(s.images, 0o700); err != nil {
		objects.Close()
		return nil, false, fmt.Errorf("failed to make a folder for images: %w", err)
	}

	if !resumed {
		s.options.Inventory.FillStore(objects)
	}

	objects.EnsureUser(s.options.Username, s.options.Password, api.SuperUser)

	return objects, resumed, nil
}

// URL returns the URL of the engine, ending in /ovirt-engine.
func (s *Server) URL() string { return s.engine.URL() }

// ControlURL returns the base URL of the control API.
func (s *Server) ControlURL() string {
	return "https://" + s.listener.Addr().String() + control.Path
}

// UIURL returns the URL of the page, or "" without a page.
func (s *Server) UIURL() string { return s.ui.URL() }

// CA returns the certificate of the engine's CA in PEM.
func (s *Server) CA() []byte { return s.identity.ca }

// Username returns the user name for the login.
func (s *Server) Username() string { return s.options.Username }

// Password returns the password for the login.
func (s *Server) Password() string { return s.options.Password }

// Close stops the engine and all its guests.
func (s *Server) Close() {
	if s.http != nil {
		_ = s.http.Close()
	} else if s.listener != nil {
		_ = s.listener.Close()
	}

	s.ui.Close()
	if s.engine != nil {
		s.engine.Close()
	}

	if s.options.StateFolder == "" && s.images != "" {
		_ = os.RemoveAll(s.images)
	}
}

// asEngine adds the correlation ID of the request to a gate's responses, so they look like the engine's. A gate that
// imitates something in front of the engine removes this header.
func asEngine(gate http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, wire.APIPath) {
			w.Header().Set(api.CorrelationHeader, api.CorrelationID(r))
		}

		gate.ServeHTTP(w, r)
	})
}

// withoutCorrelation removes this header for the engine, because the engine sets its own.
func withoutCorrelation(engine http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Del(api.CorrelationHeader)
		engine.ServeHTTP(w, r)
	})
}
