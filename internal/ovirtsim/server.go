package ovirtsim

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Options configure a simulated engine. The zero value is a usable one.
type Options struct {
	// Listen is the address to serve on; empty means a free port on 127.0.0.1.
	Listen string
	// Username and Password of the only user; empty means admin@internal and a random password.
	Username, Password string
	// TokenLifetime is how long a session lives; 0 means 30 minutes.
	TokenLifetime time.Duration
	// Inventory to start with; an empty one means DefaultInventory.
	Inventory Inventory
	// Timings of asynchronous operations; zero means DefaultTimings.
	Timings Timings
	// Guest is what runs in the VMs; nil means that they start and do nothing.
	Guest Guest
}

// Server is a running simulated engine.
type Server struct {
	options  Options
	registry *registry
	listener net.Listener
	http     *http.Server
	caPEM    []byte
	ctx      context.Context
	cancel   context.CancelFunc

	mu       sync.Mutex
	sessions map[string]time.Time // token -> expiry
	logins   int
	requests []Request
	faults   []*Fault
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
}

// Request is one request that the engine received.
type Request struct {
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	Path   string    `json:"path"`
	Query  string    `json:"query,omitempty"`
	Status int       `json:"status"`
}

// Fault makes matching requests fail.
type Fault struct {
	// Method to match; empty matches all.
	Method string `json:"method,omitempty"`
	// Path is a regular expression on the path below /ovirt-engine.
	Path string `json:"path"`
	// Status is the HTTP status to answer with; 0 lets the request through after the delay.
	Status int `json:"status,omitempty"`
	// DelayMillis is how long to wait before anything else.
	DelayMillis int `json:"delayMillis,omitempty"`
	// Count is how many requests are hit; 0 means all.
	Count int `json:"count,omitempty"`

	path *regexp.Regexp
	hits int
}

// maxRequests bounds the list of requests that the control API shows.
const maxRequests = 20000

// New starts a simulated engine. Close stops it.
func New(options Options) (*Server, error) {
	if options.Listen == "" {
		options.Listen = "127.0.0.1:0"
	}
	if options.Username == "" {
		options.Username = "admin@internal"
	}
	if options.Password == "" {
		options.Password = randomHex(12)
	}
	if options.TokenLifetime == 0 {
		options.TokenLifetime = 30 * time.Minute
	}
	if len(options.Inventory.DataCenters) == 0 {
		options.Inventory = DefaultInventory()
	}
	if options.Timings == (Timings{}) {
		options.Timings = DefaultTimings()
	}
	listener, err := net.Listen("tcp", options.Listen) //nolint:noctx // at once
	if err != nil {
		return nil, fmt.Errorf("failed to listen on %s: %w", options.Listen, err)
	}
	certificate, caPEM, err := certificateFor(listener.Addr())
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		options: options, registry: build(options.Inventory), listener: listener, caPEM: caPEM,
		ctx: ctx, cancel: cancel, sessions: map[string]time.Time{},
	}
	s.http = &http.Server{
		Handler:           s.handler(),
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() { _ = s.http.ServeTLS(listener, "", "") }()
	return s, nil
}

// URL of the engine, ending in /ovirt-engine.
func (s *Server) URL() string { return "https://" + s.listener.Addr().String() + "/ovirt-engine" }

// ControlURL is the base of the control API.
func (s *Server) ControlURL() string { return "https://" + s.listener.Addr().String() + "/ovirtsim" }

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
	if s.options.Guest != nil {
		s.options.Guest.Close()
	}
}

// Requests returns the requests received so far, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Logins counts the successful logins so far.
func (s *Server) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logins
}

// Inject adds a fault; later ones win. ClearFaults removes all.
func (s *Server) Inject(fault Fault) error {
	compiled, err := regexp.Compile(fault.Path)
	if err != nil {
		return fmt.Errorf("path is not a regular expression: %w", err)
	}
	fault.path = compiled
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append([]*Fault{&fault}, s.faults...)
	return nil
}

// Hits counts the requests that met a fault of those that are set now, also while they are delayed.
func (s *Server) Hits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	hits := 0
	for _, fault := range s.faults {
		hits += fault.hits
	}
	return hits
}

// ClearFaults removes all faults.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// ExpireSessions makes every token invalid, as a restart of the engine does.
func (s *Server) ExpireSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions = map[string]time.Time{}
}

// handler composes routing, authentication, faults and the record of requests.
func (s *Server) handler() http.Handler {
	api := s.routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		for strings.Contains(path, "//") { // clients append "/vms" to a URL that ends in a slash
			path = strings.ReplaceAll(path, "//", "/")
		}
		if len(path) > 1 {
			path = strings.TrimSuffix(path, "/")
		}
		r.URL.Path, r.URL.RawPath = path, ""
		if strings.HasPrefix(path, "/ovirtsim") {
			s.control(w, r)
			return
		}
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		defer func() { s.record(r, recorder.status) }()
		if s.fail(recorder, r) {
			return
		}
		if strings.HasPrefix(path, "/ovirt-engine/api") && !s.authenticated(r) {
			recorder.Header().Set("WWW-Authenticate", `Bearer realm="oVirt Engine"`)
			refuse(recorder, http.StatusUnauthorized, "Unauthorized", "The session is missing or has expired")
			return
		}
		api.ServeHTTP(recorder, r)
	})
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (r *statusRecorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (s *Server) record(r *http.Request, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) >= maxRequests {
		s.requests = append([]Request(nil), s.requests[maxRequests/2:]...)
	}
	s.requests = append(s.requests, Request{
		Time: time.Now(), Method: r.Method, Path: strings.TrimPrefix(r.URL.Path, "/ovirt-engine"), Query: r.URL.RawQuery, Status: status,
	})
}

// fail applies the first fault that matches and says whether it answered.
func (s *Server) fail(w http.ResponseWriter, r *http.Request) bool {
	path := strings.TrimPrefix(r.URL.Path, "/ovirt-engine")
	s.mu.Lock()
	var hit *Fault
	for _, fault := range s.faults {
		if (fault.Method == "" || fault.Method == r.Method) && fault.path.MatchString(path) && (fault.Count == 0 || fault.hits < fault.Count) {
			fault.hits++
			hit = fault
			break
		}
	}
	s.mu.Unlock()
	if hit == nil {
		return false
	}
	select {
	case <-time.After(time.Duration(hit.DelayMillis) * time.Millisecond):
	case <-s.ctx.Done(): // not the request's: an engine finishes what a client gave up on
	}
	if hit.Status == 0 {
		return false
	}
	// A failing engine is seen through the web server before it, which speaks HTML.
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(hit.Status)
	_, _ = fmt.Fprintf(w, "<html><body><h1>%d %s</h1></body></html>", hit.Status, http.StatusText(hit.Status))
	return true
}

func (s *Server) authenticated(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	expiry, known := s.sessions[token]
	if !known || time.Now().After(expiry) {
		delete(s.sessions, token)
		return false
	}
	s.sessions[token] = time.Now().Add(s.options.TokenLifetime) // the engine counts from the last use
	return true
}

// token is the engine's SSO service.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	answer := func(status int, body map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	if err := r.ParseForm(); err != nil || r.PostForm.Get("grant_type") != "password" || r.PostForm.Get("scope") != "ovirt-app-api" {
		answer(http.StatusBadRequest, map[string]any{"error_code": "invalid_request", "error": "grant_type=password and scope=ovirt-app-api are required"})
		return
	}
	if r.PostForm.Get("username") != s.options.Username || r.PostForm.Get("password") != s.options.Password {
		answer(http.StatusUnauthorized, map[string]any{"error_code": "access_denied",
			"error": "Cannot authenticate user Invalid user credentials."})
		return
	}
	token := randomHex(32)
	expiry := time.Now().Add(s.options.TokenLifetime)
	s.mu.Lock()
	s.sessions[token] = expiry
	s.logins++
	s.mu.Unlock()
	answer(http.StatusOK, map[string]any{"access_token": token, "token_type": "bearer", "scope": "ovirt-app-api", "exp": expiry.UnixMilli()})
}

// logout ends a session as the engine's SDKs do it.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.PostForm.Get("scope") != "ovirt-app-api" || r.PostForm.Get("token") == "" {
		http.Error(w, `{"error":"invalid_request"}`, http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	delete(s.sessions, r.PostForm.Get("token"))
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{}"))
}

// control is the API for tests and for people who look: requests, faults, VMs with what their guests did.
func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	answer := func(body any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body)
	}
	switch r.Method + " " + strings.TrimPrefix(r.URL.Path, "/ovirtsim") {
	case "GET /requests":
		answer(s.Requests())
	case "GET /summary":
		answer(s.Summary())
	case "GET /vms":
		answer(s.VMs())
	case "POST /faults":
		var fault Fault
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&fault)
		if err == nil {
			err = s.Inject(fault)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer(fault)
	case "DELETE /faults":
		s.ClearFaults()
		answer(struct{}{})
	case "POST /expire-sessions":
		s.ExpireSessions()
		answer(struct{}{})
	default:
		http.Error(w, "known: GET /requests, /summary, /vms; POST /faults, /expire-sessions; DELETE /faults", http.StatusNotFound)
	}
}

// Summary counts what is in the engine.
type Summary struct {
	VMs      int `json:"vms"`
	NICs     int `json:"nics"`
	Disks    int `json:"disks"`
	Sessions int `json:"sessions"`
	Logins   int `json:"logins"`
}

// Summary counts what is in the engine now.
func (s *Server) Summary() Summary {
	s.registry.mu.Lock()
	out := Summary{VMs: len(s.registry.vms), NICs: len(s.registry.nics), Disks: len(s.registry.disks)}
	s.registry.mu.Unlock()
	s.mu.Lock()
	out.Sessions, out.Logins = len(s.sessions), s.logins
	s.mu.Unlock()
	return out
}

// VMInfo is a VM as the control API shows it.
type VMInfo struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Comment    string   `json:"comment"`
	Status     string   `json:"status"`
	Host       string   `json:"host,omitempty"`
	Addresses  []string `json:"addresses,omitempty"`
	GuestError string   `json:"guestError,omitempty"`
}

// VMs lists the VMs by name, with what their guests did.
func (s *Server) VMs() []VMInfo {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	out := []VMInfo{}
	for _, v := range s.registry.sortedVMs() {
		info := VMInfo{ID: v.id, Name: v.name, Comment: v.comment, Status: v.status, Addresses: v.addresses, GuestError: v.guestError}
		if h := byID(s.registry.hosts, v.host); h != nil {
			info.Host = h.name
		}
		out = append(out, info)
	}
	return out
}

// certificateFor makes a CA and a certificate for the address that is served.
func certificateFor(address net.Addr) (tls.Certificate, []byte, error) {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return tls.Certificate{}, nil, errors.New("the listener has no TCP address")
	}
	sign := func(template, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey) ([]byte, error) {
		serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 100))
		if err != nil {
			return nil, err
		}
		template.SerialNumber = serial
		template.NotBefore = time.Now().Add(-time.Hour)
		template.NotAfter = time.Now().AddDate(1, 0, 0)
		return x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("failed to make the CA's key: %w", err)
	}
	ca := &x509.Certificate{
		Subject: pkix.Name{CommonName: "ovirtsim CA " + randomHex(4)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := sign(ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("failed to make the CA: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("failed to make the server's key: %w", err)
	}
	der, err := sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "ovirtsim"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{tcp.IP, net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, &key.PublicKey, caKey)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("failed to make the server's certificate: %w", err)
	}
	caPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	return tls.Certificate{Certificate: [][]byte{der, caDER}, PrivateKey: key}, caPEM, nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}
