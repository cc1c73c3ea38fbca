package ovirtsim

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"mime"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Options configure a simulated engine. The zero value is a usable one.
type Options struct {
	// Listen is the address to serve on; empty means a free port on 127.0.0.1.
	Listen string
	// UI is a loopback address to serve a page on that shows what is in the engine; empty means none.
	UI string
	// Username and Password of the administrator; empty means admin@internal and a random password.
	Username, Password string
	// TokenLifetime is how long a session lives; 0 means 30 minutes.
	TokenLifetime time.Duration
	// Inventory to start with; an empty one means DefaultInventory. A state folder that was used before wins over it.
	Inventory Inventory
	// StateFolder keeps the inventory over restarts; empty means that it is forgotten.
	StateFolder string
	// Timings of asynchronous operations; zero means DefaultTimings.
	Timings Timings
	// Faults that are set from the beginning.
	Faults []Fault
	// Seed makes faults with a probability repeatable; 0 means random.
	Seed uint64
	// Guest is what runs in the VMs; nil means that they start and do nothing.
	Guest Guest
	// Gate is a handler in front of the engine, for tests that must act at a request; nil means none.
	Gate func(engine http.Handler) http.Handler
}

// Timings are how long the engine's asynchronous operations take.
type Timings struct {
	// Clone is how long a new VM's disks stay locked; copied disks, and new templates, take twice as long.
	Clone time.Duration
	// Launch is how long a starting VM waits for its host.
	Launch time.Duration
	// PowerUp is how long the host takes until the guest runs.
	PowerUp time.Duration
	// PowerDown is how long stopping takes.
	PowerDown time.Duration
	// Disk is how long a disk is locked while it is made, resized or removed; 0 means as long as Clone.
	Disk time.Duration
	// Migrate is how long a VM moves between hosts; 0 means as long as PowerUp.
	Migrate time.Duration
	// Remove is how long a VM or disk that is removed can still be seen, locked; 0 means that it is gone at once.
	Remove time.Duration
	// Fence is how long after a host was lost its VMs are known to be down; 0 means four times PowerDown.
	Fence time.Duration
}

// DefaultTimings are short enough for a person to watch and long enough for every status to be seen.
func DefaultTimings() Timings {
	return Timings{Clone: 700 * time.Millisecond, Launch: 300 * time.Millisecond, PowerUp: time.Second, PowerDown: 500 * time.Millisecond, Remove: 200 * time.Millisecond}
}

// Faster divides all timings by a factor.
func (t Timings) Faster(factor float64) Timings {
	for _, d := range []*time.Duration{&t.Clone, &t.Launch, &t.PowerUp, &t.PowerDown, &t.Disk, &t.Migrate, &t.Fence, &t.Remove} {
		*d = time.Duration(float64(*d) / factor)
	}
	return t
}

// Server is a running simulated engine.
type Server struct {
	options  Options
	version  string
	listener net.Listener
	http     *http.Server
	ui       *http.Server
	uiURL    string
	mux      *http.ServeMux
	caPEM    []byte
	certPEM  []byte
	sshKeys  map[string][]byte // by the name of the certificate, as pki-resource has them
	images   string            // the folder of uploaded images
	ctx      context.Context
	cancel   context.CancelFunc
	watchers *watchers
	controls *http.ServeMux
	told     chan func() // to the guests

	// mu guards the inventory.
	mu    sync.Mutex
	store *store

	// front guards what is before the inventory.
	front    sync.Mutex
	sessions map[string]session // by token
	logins   int
	requests []*Request
	received int
	faults   []*Fault
	faultIDs int
	random   *mathrand.Rand
}

// Connection is what a client needs; cmd/ovirtsim writes it as JSON.
type Connection struct {
	// URL of the engine, ending in /ovirt-engine.
	URL string `json:"url"`
	// CAFile holds the PEM certificate of the CA.
	CAFile string `json:"ca_file"`
	// Username and Password to log in with.
	Username string `json:"username"`
	Password string `json:"password"`
	// ControlURL is where faults are set and requests are listed.
	ControlURL string `json:"control_url"`
	// UIURL is the page to look at; empty without one.
	UIURL string `json:"ui_url,omitempty"`
}

// defaultVersion is that of the engine whose answers the simulator follows.
const defaultVersion = "4.5.8"

// enginePath is what all paths of the engine begin with.
const enginePath = "/ovirt-engine"

// New starts a simulated engine. Close stops it.
func New(options Options) (*Server, error) {
	options.Listen = orElse(options.Listen, "127.0.0.1:0")
	options.Username = orElse(options.Username, "admin@internal")
	options.Password = orElse(options.Password, randomHex(12))
	options.TokenLifetime = orElse(options.TokenLifetime, 30*time.Minute)
	if len(options.Inventory.DataCenters) == 0 {
		options.Inventory = DefaultInventory()
	}
	if options.Timings == (Timings{}) {
		options.Timings = DefaultTimings()
	}
	t := &options.Timings
	t.Disk, t.Migrate, t.Fence = orElse(t.Disk, t.Clone), orElse(t.Migrate, t.PowerUp), orElse(t.Fence, 4*t.PowerDown)
	if err := options.Inventory.Validate(); err != nil {
		return nil, fmt.Errorf("the inventory is not valid: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		options: options, version: orElse(options.Inventory.Version, defaultVersion), store: newStore(), ctx: ctx, cancel: cancel,
		sessions: map[string]session{}, random: newRandom(options.Seed), watchers: newWatchers(), told: make(chan func(), 1<<16),
	}
	for _, fault := range options.Faults {
		if err := s.Inject(fault); err != nil {
			cancel()
			return nil, fmt.Errorf("fault: %w", err)
		}
	}
	go s.telling()
	if err := s.start(); err != nil {
		cancel()
		s.store.close()
		return nil, err
	}
	return s, nil
}

// start fills or restores the inventory and serves.
func (s *Server) start() error {
	resumed := false
	if folder := s.options.StateFolder; folder != "" {
		var err error
		if resumed, err = s.store.open(folder); err != nil {
			return err
		}
		s.images = filepath.Join(folder, "images")
	} else {
		temporary, err := os.MkdirTemp("", "ovirtsim-")
		if err != nil {
			return fmt.Errorf("failed to make a folder for images: %w", err)
		}
		s.images = temporary
	}
	if err := os.MkdirAll(s.images, 0o700); err != nil {
		return fmt.Errorf("failed to make a folder for images: %w", err)
	}
	if !resumed {
		s.store.fill(s.options.Inventory)
	}
	s.store.ensureUser(s.options.Username, s.options.Password, superUser)
	listener, err := net.Listen("tcp", s.options.Listen) //nolint:noctx // at once
	if err != nil {
		return fmt.Errorf("failed to listen on %s: %w", s.options.Listen, err)
	}
	certificate, err := s.certificate(listener.Addr())
	if err != nil {
		_ = listener.Close()
		return err
	}
	s.listener, s.mux, s.controls = listener, s.routes(), s.controlRoutes()
	s.mu.Lock()
	if resumed {
		s.version = s.store.counters.get(versionRow).Text
		s.resume()
	} else if err = s.seed(s.options.Inventory); err == nil {
		s.store.counters.put(versionRow, &counter{Text: s.version})
		s.store.counters.put(seededRow, &counter{Value: 1})
	}
	if err == nil {
		err = s.store.flush()
	}
	s.mu.Unlock()
	if err != nil {
		_ = listener.Close()
		return err
	}
	if err := s.serveUI(); err != nil {
		_ = listener.Close()
		return err
	}
	var handler http.Handler = http.HandlerFunc(s.serve)
	if s.options.Gate != nil {
		handler = s.options.Gate(handler)
	}
	s.http = &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: quietLog(),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = s.http.ServeTLS(listener, "", "") }()
	return nil
}

// URL of the engine, ending in /ovirt-engine.
func (s *Server) URL() string { return "https://" + s.listener.Addr().String() + enginePath }

// ControlURL is the base of the control API.
func (s *Server) ControlURL() string { return "https://" + s.listener.Addr().String() + controlPath }

// CA is the PEM certificate that signs the engine's.
func (s *Server) CA() []byte { return s.caPEM }

// Username to log in with.
func (s *Server) Username() string { return s.options.Username }

// Password to log in with.
func (s *Server) Password() string { return s.options.Password }

// Close stops the engine and everything that runs in its VMs.
func (s *Server) Close() {
	s.cancel()
	_ = s.http.Close()
	if s.ui != nil {
		_ = s.ui.Close()
	}
	if s.options.Guest != nil {
		s.options.Guest.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.close()
	if s.options.StateFolder == "" {
		_ = os.RemoveAll(s.images)
	}
}

// serve composes routing, authentication, faults and the record of requests.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	for strings.Contains(path, "//") { // clients append "/vms" to a URL that ends in a slash
		path = strings.ReplaceAll(path, "//", "/")
	}
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	r.URL.Path, r.URL.RawPath = path, ""
	if strings.HasPrefix(path, controlPath) {
		s.controls.ServeHTTP(w, r)
		return
	}
	recorder := &statusRecorder{ResponseWriter: w}
	r = r.WithContext(context.WithValue(r.Context(), arrivalKey{}, time.Now()))
	entry := s.record(r)
	defer func() { s.recorded(entry, recorder) }()
	fault := s.faultFor(r)
	if fault != nil {
		s.noteFault(entry, fault)
		if s.before(fault, recorder, r) {
			return
		}
	}
	if !fault.late() {
		s.dispatch(recorder, r)
		return
	}
	back := &held{header: http.Header{}}
	s.dispatch(back, r)
	fault.after(back, recorder)
}

func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	switch path := r.URL.Path; {
	case path == apiPath || strings.HasPrefix(path, apiPath+"/"):
		s.serveAPI(w, r)
	case strings.HasPrefix(path, imagesPath):
		s.serveImage(w, r)
	default:
		s.serveOther(w, r)
	}
}

// serveOther are the calls outside of the API; none needs a session.
func (s *Server) serveOther(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	switch method + " " + strings.TrimPrefix(r.URL.Path, enginePath) {
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
		_, _ = w.Write([]byte("DB Up!Welcome to Health Status!"))
	case "GET ": // the entry of people, who log in with a browser
		if !strings.HasSuffix(strings.SplitN(r.RequestURI, "?", 2)[0], "/") {
			w.Header().Set("Location", s.URL()+"/")
			w.WriteHeader(http.StatusFound)
			return
		}
		secured(w)
		http.SetCookie(w, &http.Cookie{Name: sessionCookie, Value: randomHex(16), Path: enginePath, HttpOnly: true}) //nolint:gosec // as the engine has it
		w.Header().Set("Location", s.URL()+"/login?scope=ovirt-ext%3Dauth%3Aidentity")
		w.WriteHeader(http.StatusFound)
	case "GET /login":
		// Not recorded. The client of the released provider expects redirects without an end where nobody keeps cookies.
		if _, err := r.Cookie(sessionCookie); err != nil {
			w.Header().Set("Location", s.URL()+"/")
			w.WriteHeader(http.StatusFound)
			return
		}
		secured(w)
		w.Header().Set("Content-Type", "text/html;charset=UTF-8")
		_, _ = w.Write([]byte("<!DOCTYPE html><html><head><title>oVirt Engine</title></head><body><h1>Welcome to the oVirt Engine simulator</h1></body></html>\n"))
	default:
		localeCookie(w)
		w.Header().Set("Content-Language", "en-US")
		w.Header().Set("Content-Type", "text/html;charset=UTF-8")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`<!DOCTYPE html><html><head><meta charset="utf-8"><title>404 - Page not found</title></head><body>The page was not found.</body></html>`))
	}
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (r *statusRecorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *statusRecorder) Write(body []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(body)
}

// wantsJSON says whether the client likes JSON better than XML, which it gets where it does not say.
func wantsJSON(r *http.Request) bool {
	weight := func(media string) float64 {
		best := -1.0
		for _, one := range strings.Split(strings.ToLower(r.Header.Get("Accept")), ",") {
			name, parameters, err := mime.ParseMediaType(one)
			if err != nil || name != media {
				continue
			}
			q := 1.0
			if parsed, err := strconv.ParseFloat(parameters["q"], 64); err == nil {
				q = parsed
			}
			best = max(best, q)
		}
		return best
	}
	return weight("application/json") > weight("application/xml")
}

// encode renders a document in the form that the client accepts.
func (s *Server) encode(r *http.Request, document *element) (media string, body []byte) {
	var out bytes.Buffer
	if wantsJSON(r) {
		document.writeJSON(&out)
		return "application/json", out.Bytes()
	}
	out.WriteString(`<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n")
	document.writeXML(&out)
	return "application/xml;charset=UTF-8", out.Bytes()
}

func (s *Server) reply(w http.ResponseWriter, r *http.Request, status int, document *element) {
	media, body := s.encode(r, document)
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// certificate makes a CA, or takes that of the state folder, and a certificate for the address that is served.
func (s *Server) certificate(address net.Addr) (tls.Certificate, error) {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return tls.Certificate{}, errors.New("the listener has no TCP address")
	}
	ca, caKey, err := s.authority()
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("failed to make the server's key: %w", err)
	}
	der, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "ovirtsim"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{tcp.IP, net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, &key.PublicKey, caKey)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("failed to make the server's certificate: %w", err)
	}
	s.caPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})
	s.certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	s.sshKeys = map[string][]byte{}
	for name, public := range map[string]*ecdsa.PublicKey{"ca-certificate": &caKey.PublicKey, "engine-certificate": &key.PublicKey} {
		encoded, err := ssh.NewPublicKey(public)
		if err != nil {
			return tls.Certificate{}, fmt.Errorf("failed to encode the key of the %s for SSH: %w", name, err)
		}
		s.sshKeys[name] = ssh.MarshalAuthorizedKey(encoded)
	}
	return tls.Certificate{Certificate: [][]byte{der, ca.Raw}, PrivateKey: key}, nil
}

func sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().AddDate(1, 0, 0)
	return x509.CreateCertificate(rand.Reader, template, parent, public, signer)
}

// authority is the CA. A state folder keeps it, for clients trust it over a restart.
func (s *Server) authority() (*x509.Certificate, *ecdsa.PrivateKey, error) {
	file := ""
	if s.options.StateFolder != "" {
		file = filepath.Join(s.options.StateFolder, "ca.pem")
		if content, err := os.ReadFile(file); err == nil {
			certBlock, rest := pem.Decode(content)
			keyBlock, _ := pem.Decode(rest)
			if certBlock == nil || keyBlock == nil {
				return nil, nil, fmt.Errorf("%s does not hold a certificate and a key; remove it to get new ones", file)
			}
			cert, err := x509.ParseCertificate(certBlock.Bytes)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", file, err)
			}
			key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", file, err)
			}
			return cert, key, nil
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to make the CA's key: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "ovirtsim CA " + randomHex(4)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to make the CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to make the CA: %w", err)
	}
	if file != "" {
		keyDER, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return nil, nil, fmt.Errorf("failed to encode the CA's key: %w", err)
		}
		content := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})...)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return nil, nil, fmt.Errorf("failed to keep the CA: %w", err)
		}
	}
	return cert, key, nil
}

func randomHex(n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw)
	return hex.EncodeToString(raw)
}
