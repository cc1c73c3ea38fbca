package providerprocess

import (
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// The manager and its child call each other over two inherited sockets, one for each direction. No other process has an
// end of these sockets.
const (
	// argument is the only command-line argument of the child.
	argument = "serve-terraform-provider"
	// firstFile is the number of the first inherited file after standard input, output and error.
	firstFile = 3

	childService   = "Child"
	managerService = "Manager"
)

// Engine is the engine of a run. Session identifies the session with the engine. Runs with the same session share a
// client.
type Engine struct {
	URL, CA  string
	Insecure bool
	Session  string
}

// OpenRequest asks the child for an endpoint for a run.
type OpenRequest struct {
	Run      uint64
	Owner    string
	Types    []string
	StateVMs []string
	Engine   Engine
}

// OpenReply contains the endpoint's address for Terraform.
type OpenReply struct {
	Network, Address string
	Protocol         string
	ProtocolVersion  int
	Pid              int
	Test             bool
}

// ApproveRequest contains the decision about a run's plan. Refusal is the reason for a rejection; "" means approval.
type ApproveRequest struct {
	Run     uint64
	Refusal string
}

// CloseReply contains the counts of requests since the previous reply, for the metrics.
type CloseReply struct{ Observations []engine.Observation }

// TokenRequest asks for the token of the session with the engine. Refused is a token that the engine has rejected.
type TokenRequest struct {
	Run     uint64
	Refused string
}

// TokenReply contains the token, or the reason why there is none. Auth is set if the engine rejects the credentials.
type TokenReply struct {
	Token   string
	Auth    *engine.AuthError
	Problem string
}

// MayActReply reports whether the manager still leads. Its zero value means yes. If Superseded is set, another manager
// leads. Otherwise, Problem explains why it is unknown which manager leads.
type MayActReply struct {
	Superseded bool
	Problem    string
}

// Nothing is the argument or the reply of calls that need none.
type Nothing struct{}
