package providerprocess

import (
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// The manager and its child call each other over two sockets, one for each direction, that the child inherits. Nobody
// else has an end of them.
const (
	// argument is the only one of the child's command line.
	argument = "serve-terraform-provider"
	// firstFile is the number of the first file that a process inherits beside standard input, output and error.
	firstFile = 3

	childService   = "Child"
	managerService = "Manager"
)

// Engine is the engine of a run. Session tells the sessions of engines apart; runs that have the same share a client.
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

// OpenReply is how Terraform attaches to the endpoint.
type OpenReply struct {
	Network, Address string
	Protocol         string
	ProtocolVersion  int
	Pid              int
	Test             bool
}

// ApproveRequest tells whether the plan of a run is accepted. Refusal is why it is not; empty if it is.
type ApproveRequest struct {
	Run     uint64
	Refusal string
}

// CloseReply is what the metrics count of the requests since the reply before.
type CloseReply struct{ Observations []engine.Observation }

// TokenRequest asks for the token of the engine's session. Refused is one that the engine did not accept.
type TokenRequest struct {
	Run     uint64
	Refused string
}

// TokenReply is the token, or why there is none. Auth is set if the engine refuses the credentials.
type TokenReply struct {
	Token   string
	Auth    *engine.AuthError
	Problem string
}

// MayActReply says whether the manager still leads; its zero value means that it does. If Superseded, another manager
// leads. Otherwise, Problem says why the leader is unknown.
type MayActReply struct {
	Superseded bool
	Problem    string
}

// Nothing is the argument or the reply of a call that has none.
type Nothing struct{}
