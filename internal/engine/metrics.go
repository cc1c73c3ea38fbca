package engine

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	requestsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capolvm_engine_requests_total",
		Help: "Requests to engines by their status code; the code is error where no answer came.",
	}, []string{"engine", "method", "resource", "code"})
	requestSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "capolvm_engine_request_seconds",
		Help:    "How long engines took to answer in seconds, until the first byte.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"engine", "method", "resource"})
	receivedBytes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capolvm_engine_received_bytes_total",
		Help: "Bytes of the answers of engines, as they were read.",
	}, []string{"engine", "resource"})
)

// Collectors returns the metrics of all clients in this process.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{requestsTotal, requestSeconds, receivedBytes}
}

// Observation is the contribution of one request to the metrics: an answer, or a number of bytes read.
type Observation struct {
	// Engine is the engine's host. Resource is the kind of the requested object.
	Engine, Resource string
	// Method and Code are the request's method and the answer's status code. They are empty for bytes.
	Method, Code string
	// Seconds is the time until the first byte of the answer.
	Seconds float64
	// Bytes is the number of bytes read.
	Bytes int64
}

const (
	// maxCollection limits the name of a collection or an action in characters.
	maxCollection = 40
	// maxResources limits the number of kinds of objects in the metrics.
	maxResources = 200
)

// resources are the kinds of objects in the metrics.
var resources struct {
	sync.Mutex
	known map[string]bool
}

// isKnownResource reports whether the metrics have this kind of object. It adds new kinds, up to maxResources.
func isKnownResource(name string) bool {
	resources.Lock()
	defer resources.Unlock()

	if !resources.known[name] && len(resources.known) < maxResources {
		if resources.known == nil {
			resources.known = map[string]bool{}
		}

		resources.known[name] = true
	}

	return resources.known[name]
}

// IsValid reports whether a client can have made the observation, because another process may have forged it.
func (o Observation) IsValid() bool {
	for part := range strings.SplitSeq(o.Resource, "/") {
		if !isCollection(part) {
			return false
		}
	}

	methods := []string{"", http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete}
	code, err := strconv.Atoi(o.Code)
	isCode := o.Code == "" || o.Code == "error" || err == nil && code >= 100 && code < 600

	return isCode && slices.Contains(methods, o.Method) &&
		o.Seconds >= 0 && o.Seconds < time.Hour.Seconds() && o.Bytes >= 0 && o.Bytes < 1<<40
}

// AddToMetrics adds the observation to the metrics of this process.
func (o Observation) AddToMetrics() {
	if !isKnownResource(o.Resource) {
		o.Resource = "other"
	}

	if o.Method != "" {
		requestSeconds.WithLabelValues(o.Engine, o.Method, o.Resource).Observe(o.Seconds)
		requestsTotal.WithLabelValues(o.Engine, o.Method, o.Resource, o.Code).Inc()
	}

	if o.Bytes > 0 {
		receivedBytes.WithLabelValues(o.Engine, o.Resource).Add(float64(o.Bytes))
	}
}

// measured is a transport that calls observe for each request.
type measured struct {
	next    http.RoundTripper
	observe func(Observation)
}

// RoundTrip implements http.RoundTripper.
func (m measured) RoundTrip(r *http.Request) (*http.Response, error) {
	resource, begin := getResource(r.URL.Path), time.Now()
	response, err := m.next.RoundTrip(r)
	seen := Observation{Engine: r.URL.Host, Resource: resource, Method: r.Method, Code: "error"}
	seen.Seconds = time.Since(begin).Seconds()

	if err == nil {
		seen.Code = strconv.Itoa(response.StatusCode)
		response.Body = &counted{ReadCloser: response.Body, done: func(bytes int64) {
			m.observe(Observation{Engine: seen.Engine, Resource: resource, Bytes: bytes})
		}}
	}

	m.observe(seen)

	return response, err
}

// counted is a body that counts the bytes read until it is closed.
type counted struct {
	io.ReadCloser
	bytes int64
	done  func(bytes int64)
	once  sync.Once
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes += int64(n)

	return n, err
}

// Close implements io.Closer.
func (c *counted) Close() error {
	c.once.Do(func() { c.done(c.bytes) })

	return c.ReadCloser.Close()
}

// isCollection reports whether a segment of a path is the name of a collection or an action, not an ID.
func isCollection(part string) bool {
	return part != "" && len(part) <= maxCollection && strings.Trim(part, "abcdefghijklmnopqrstuvwxyz") == ""
}

// getResource returns the kind of object in a path: vms/nics for /ovirt-engine/api/vms/UUID/nics. It drops the IDs,
// because they would create a metric per VM.
func getResource(path string) string {
	if strings.Contains(path, "/sso/") || strings.Contains(path, "/services/") {
		return "session"
	}

	_, path, _ = strings.Cut(path+"/", "/api/")
	var kinds []string

	for part := range strings.SplitSeq(path, "/") {
		if isCollection(part) {
			kinds = append(kinds, part)
		}
	}

	if len(kinds) == 0 {
		return "api"
	}

	return strings.Join(kinds, "/")
}
