package clusterctl

import (
	"fmt"
	"strings"

	"github.com/go-logr/logr"
)

// retrying is a message of clusterctl after the API server has rejected a request. Its log level is normally hidden.
const retrying = "Retrying with backoff"

// sink converts the log of clusterctl to lines for users.
type sink struct {
	say  func(format string, args ...any)
	last string
}

// Init implements logr.LogSink.
func (s *sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s *sink) Enabled(int) bool { return true }

// Info implements logr.LogSink.
func (s *sink) Info(level int, message string, values ...any) {
	if level > 0 && message != retrying {
		return
	}

	line := message
	for i := 0; i+1 < len(values); i += 2 {
		line += fmt.Sprintf(" %v=%v", values[i], values[i+1])
	}

	if line = strings.TrimSpace(line); line != s.last {
		s.say("clusterctl: %s", line)
	}

	s.last = line
}

// Error implements logr.LogSink.
func (s *sink) Error(err error, message string, values ...any) {
	s.Info(0, message, append(values, "error", err)...)
}

// WithValues implements logr.LogSink.
func (s *sink) WithValues(...any) logr.LogSink { return s }

// WithName implements logr.LogSink.
func (s *sink) WithName(string) logr.LogSink { return s }
