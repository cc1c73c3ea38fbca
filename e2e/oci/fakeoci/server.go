package fakeoci

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/guest"
)

// core is the version of the APIs for compute, networks, identity and work requests.
const core = "20160918"

// Settings are the initial state of the cloud.
type Settings struct {
	// Tenancy and User are OCIDs. The key with Fingerprint must sign all requests.
	Tenancy, User, Fingerprint string
	// Region is the name of a region, such as us-ashburn-1. RegionKey is its key, such as IAD.
	Region, RegionKey string
	// Compartments are paths below the tenancy, such as parent and parent/child.
	Compartments []string
	// Guests run in instances; nil means that nothing runs in them.
	Guests *guest.Guests
	// Endpoint is the address of network load balancers. The guests serve at this address.
	Endpoint string
	// Slow is the duration of launches and imports.
	Slow time.Duration
}

// Server is the cloud.
type Server struct {
	settings Settings
	http     *httptest.Server
	ctx      context.Context
	cancel   context.CancelFunc

	mu          sync.Mutex
	collections map[string]*collection
	objects     map[string]*record
	// tokens maps retry tokens to the OCIDs of the objects that were created with them.
	tokens  map[string]string
	buckets map[string]map[string][]byte
	uploads map[string]map[int][]byte
	calls   []string
	faults  []*Fault
	minted  int
	// console holds the messages of guests that failed.
	console []string
}

// record is an object of the cloud.
type record struct {
	collection *collection
	fields     object
	// rules are the rules of a network security group.
	rules []object
	// off stops the guest of an instance.
	off context.CancelFunc
}

type object = map[string]any

// Fault is a wrong answer to a call.
type Fault struct {
	// Call matches the text "METHOD /path" of a call.
	Call *regexp.Regexp
	// Times is the number of wrong answers.
	Times int
	// Status, Code and Message are the parts of the answer.
	Status        int
	Code, Message string
}

// Start serves a cloud over TLS on loopback.
func Start(settings Settings) *Server {
	s := &Server{
		settings: settings,
		objects:  map[string]*record{},
		tokens:   map[string]string{},
		buckets:  map[string]map[string][]byte{},
		uploads:  map[string]map[int][]byte{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	s.collections = collections()

	for _, c := range s.collections {
		s.serve(mux, c)
	}

	s.serveIdentity(mux)
	s.serveNetworks(mux)
	s.serveCompute(mux)
	s.serveBalancers(mux)
	s.serveStorage(mux)
	s.serveWorkRequests(mux)
	s.http = httptest.NewTLSServer(s.guard(mux))

	return s
}

// Close stops the guests and the server.
func (s *Server) Close() {
	s.cancel()
	s.http.Close()
}

// URL returns the URL of all services.
func (s *Server) URL() string { return s.http.URL }

// CA returns the certificate of the server, in PEM.
func (s *Server) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

// Fail adds a fault.
func (s *Server) Fail(fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &fault)
}

// Calls returns the past calls whose text "METHOD /path" matches a pattern.
func (s *Server) Calls(pattern string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	expression := regexp.MustCompile(pattern)

	return slices.DeleteFunc(slices.Clone(s.calls), func(call string) bool { return !expression.MatchString(call) })
}

// Console returns the messages of guests that failed.
func (s *Server) Console() []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return slices.Clone(s.console)
}

// Objects returns the existing objects of a collection, such as instances, in the form of their JSON.
func (s *Server) Objects(path string) []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []map[string]any

	for _, r := range s.objects {
		if r.collection.path == path && !r.gone() {
			out = append(out, clone(r.fields))
		}
	}

	return out
}

// guard records each call, refuses calls of other users, and injects faults.
func (s *Server) guard(next http.Handler) http.Handler {
	key := fmt.Sprintf("keyId=%q", s.settings.Tenancy+"/"+s.settings.User+"/"+s.settings.Fingerprint)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("opc-request-id", r.Header.Get("opc-client-request-id"))
		call := r.Method + " " + r.URL.Path
		s.mu.Lock()
		s.calls = append(s.calls, call)
		fault := s.fault(call)
		s.mu.Unlock()

		switch {
		case !strings.Contains(r.Header.Get("Authorization"), key):
			fail(w, http.StatusUnauthorized, "NotAuthenticated", "The required information to complete "+
				"authentication was not provided or was incorrect.")
		case fault != nil:
			fail(w, fault.Status, fault.Code, fault.Message)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// fault returns the fault for a call, or nil. The caller must hold s.mu.
func (s *Server) fault(call string) *Fault {
	for _, fault := range s.faults {
		if fault.Times > 0 && fault.Call.MatchString(call) {
			fault.Times--
			return fault
		}
	}

	return nil
}

// handle serves a pattern while s.mu is held. If the error is a refusal, it becomes the answer.
func (s *Server) handle(mux *http.ServeMux, pattern string, serve func(http.ResponseWriter, *http.Request) error) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()

		if err := serve(w, r); err != nil {
			refused, ok := err.(*refusal) //nolint:errorlint // handlers return it unwrapped
			if !ok {
				refused = &refusal{http.StatusInternalServerError, "InternalServerError", err.Error()}
			}

			fail(w, refused.status, refused.code, refused.message)
		}
	})
}

// refusal is an error of the cloud.
type refusal struct {
	status        int
	code, message string
}

func (e *refusal) Error() string { return e.message }

func notFound(what string) error {
	return &refusal{http.StatusNotFound, "NotAuthorizedOrNotFound", "Authorization failed or requested resource " +
		"not found: " + what}
}

func invalid(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, "InvalidParameter", fmt.Sprintf(format, args...)}
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"code": code, "message": message})
}

func answer(w http.ResponseWriter, value any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(value)
}

// mint returns a new OCID. The caller must hold s.mu.
func (s *Server) mint(kind string) string {
	s.minted++
	region := strings.ToLower(s.settings.RegionKey)
	if kind == "compartment" || kind == "tenancy" {
		region = ""
	}

	return fmt.Sprintf("ocid1.%s.oc1.%s.%060d", kind, region, s.minted)
}

// page returns the part of a list that the parameters limit and page select.
func page(w http.ResponseWriter, r *http.Request, all []object) []object {
	from, _ := strconv.Atoi(r.URL.Query().Get("page"))
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit < 1 {
		limit = defaultPage
	}

	from = min(from, len(all))
	to := min(from+limit, len(all))
	if to < len(all) {
		w.Header().Set("opc-next-page", strconv.Itoa(to))
	}

	return append([]object{}, all[from:to]...)
}

// defaultPage is the number of entries per page. It is small, so that tests find clients that read only one page.
const defaultPage = 5

// decode decodes a body strictly into a type of the SDK, and returns the body in the form of its JSON.
func decode(r *http.Request, into any) (object, error) {
	content, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	if err != nil {
		return nil, err
	}

	decoder := json.NewDecoder(strings.NewReader(string(content)))
	decoder.DisallowUnknownFields()

	if err := decoder.Decode(into); err != nil {
		return nil, invalid("%v", err)
	}

	var out object
	if err := json.Unmarshal(content, &out); err != nil {
		return nil, invalid("%v", err)
	}

	return out, nil
}

func clone(fields object) object {
	content, err := json.Marshal(fields)
	if err != nil {
		panic(err) // impossible, because the values come from JSON
	}

	var out object
	if err := json.Unmarshal(content, &out); err != nil {
		panic(err)
	}

	return out
}
