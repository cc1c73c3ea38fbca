package engine

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
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

// Collectors are the metrics of all clients in this process.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{requestsTotal, requestSeconds, receivedBytes}
}

// measured counts requests.
type measured struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (m measured) RoundTrip(r *http.Request) (*http.Response, error) {
	resource, begin := resourceOf(r.URL.Path), time.Now()
	response, err := m.next.RoundTrip(r)
	requestSeconds.WithLabelValues(r.URL.Host, r.Method, resource).Observe(time.Since(begin).Seconds())
	code := "error"
	if err == nil {
		code = strconv.Itoa(response.StatusCode)
		response.Body = counted{response.Body, receivedBytes.WithLabelValues(r.URL.Host, resource)}
	}

	requestsTotal.WithLabelValues(r.URL.Host, r.Method, resource, code).Inc()

	return response, err
}

// counted counts the bytes that are read of an answer.
type counted struct {
	io.ReadCloser
	bytes prometheus.Counter
}

// Read implements io.Reader.
func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes.Add(float64(n))

	return n, err
}

// resourceOf is the kind of thing that a path is about: vms/nics for /ovirt-engine/api/vms/UUID/nics. IDs would make a
// metric of each VM.
func resourceOf(path string) string {
	if strings.Contains(path, "/sso/") || strings.Contains(path, "/services/") {
		return "session"
	}

	_, path, _ = strings.Cut(path+"/", "/api/")
	var kinds []string

	for part := range strings.SplitSeq(path, "/") {
		if _, number := strconv.Atoi(part); part != "" && uuid.Validate(part) != nil && number != nil {
			kinds = append(kinds, part)
		}
	}

	if len(kinds) == 0 {
		return "api"
	}

	return strings.Join(kinds, "/")
}
