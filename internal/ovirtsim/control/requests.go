package control

import (
	"net/http"
	"strings"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// Request is one request received by the engine.
type Request struct {
	// Seq counts the requests from 1.
	Seq    int       `json:"seq"`
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	// Path is the path below /ovirt-engine.
	Path  string `json:"path"`
	Query string `json:"query,omitempty"`
	// Status is the HTTP status of the answer. It is 0 while the answer is pending, or if the connection was cut.
	Status int `json:"status"`
	// Millis is the time until the answer in milliseconds.
	Millis int64 `json:"millis"`
	// Fault is the ID of the rule that applied to the request.
	Fault int `json:"fault,omitempty"`
}

// maxRequests limits the number of requests in the control API's list.
const maxRequests = 20000

// recordRequest records a received request.
func (s *Control) recordRequest(r *http.Request) *Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) >= maxRequests {
		s.requests = append([]*Request(nil), s.requests[maxRequests/2:]...)
	}

	s.received++
	entry := &Request{
		Seq:    s.received,
		Time:   time.Now(),
		Method: r.Method,
		Path:   strings.TrimPrefix(r.URL.Path, wire.EnginePath),
		Query:  r.URL.RawQuery,
	}
	s.requests = append(s.requests, entry)

	return entry
}

func (s *Control) recordAnswer(entry *Request, answer *wire.StatusRecorder) {
	s.mu.Lock()
	entry.Status, entry.Millis = answer.Status, time.Since(entry.Time).Milliseconds()
	s.mu.Unlock()
	s.NotifyObservers()
}

func (s *Control) noteFault(entry *Request, fault *Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entry.Fault = fault.ID
}

// ListRequests returns the requests received so far, the oldest first.
func (s *Control) ListRequests() []Request { return s.requestsAfter(0) }

func (s *Control) requestsAfter(seq int) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Request{}

	for _, r := range s.requests {
		if r.Seq > seq {
			out = append(out, *r)
		}
	}

	return out
}
