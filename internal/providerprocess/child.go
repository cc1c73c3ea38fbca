package providerprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
)

// RunIfChild runs the child and never returns, if this process was started as a child. Commands with children must call
// it first.
func RunIfChild() {
	if len(os.Args) != 2 || os.Args[1] != argument {
		return
	}

	// Only the manager stops its child. A terminal sends the interrupt to both processes, but the child must first
	// finish its runs.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)

	requests, err := openInheritedSocket(firstFile)
	if err == nil {
		var calls net.Conn

		if calls, err = openInheritedSocket(firstFile + 1); err == nil {
			serveManager(requests, calls)
		}
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, "provider:", err)
		os.Exit(1)
	}

	os.Exit(0)
}

// openInheritedSocket opens a socket inherited by the process.
func openInheritedSocket(number uintptr) (net.Conn, error) {
	file := os.NewFile(number, "socket")
	if file == nil {
		return nil, fmt.Errorf("file descriptor %d is not open; only the manager can start this process", number)
	}

	defer file.Close()

	connection, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("file descriptor %d is not a socket; only the manager can start this process: %w",
			number, err)
	}

	return connection, nil
}

// serveManager answers the manager's calls until the manager ends.
func serveManager(requests, calls net.Conn) {
	c := &child{
		manager: rpc.NewClient(calls),
		runs:    map[uint64]*childRun{},
		clients: map[string]*sharedClient{},
	}

	server := rpc.NewServer()
	if err := server.RegisterName(childService, &Child{c}); err != nil {
		panic(err) // impossible, because the methods are those of this package
	}

	server.ServeConn(requests)
}

// child is the state of the child.
type child struct {
	manager *rpc.Client

	mu      sync.Mutex
	runs    map[uint64]*childRun
	clients map[string]*sharedClient
	seen    []engine.Observation
}

// childRun is a run with an endpoint.
type childRun struct {
	endpoint *tfprovider.Endpoint
	approval chan error
	session  string
}

// sharedClient is a client of an engine shared by several runs. It uses the session of one of these runs.
type sharedClient struct {
	client *engine.Client
	runs   map[uint64]bool
}

// Child has the methods that the manager calls.
type Child struct{ child *child }

// Open starts an endpoint for a run.
func (c *Child) Open(request OpenRequest, reply *OpenReply) error {
	client, err := c.child.ensureClient(request)
	if err != nil {
		return err
	}

	run := &childRun{approval: make(chan error, 1), session: request.Engine.Session}

	var decided decision

	run.endpoint, err = tfprovider.Serve(context.Background(), tfprovider.Options{
		ReturnOnStart: true,
		Owner:         request.Owner,
		Types:         request.Types,
		StateVMs:      request.StateVMs,
		Engine: &tfprovider.Engine{
			URL: request.Engine.URL, CA: request.Engine.CA, Insecure: request.Engine.Insecure,
		},
		Session:  client,
		Approved: func(ctx context.Context) error { return decided.waitForAnswer(ctx, run.approval) },
		Fence:    func(ctx context.Context) error { return c.child.checkMayAct(ctx, request.Run) },
	})
	if err != nil {
		c.child.releaseClient(request.Run, request.Engine.Session)
		return err
	}

	c.child.mu.Lock()
	c.child.runs[request.Run] = run
	c.child.mu.Unlock()

	at := run.endpoint.Config
	*reply = OpenReply{
		Network: at.Addr.Network(), Address: at.Addr.String(), Protocol: string(at.Protocol),
		ProtocolVersion: at.ProtocolVersion, Pid: at.Pid, Test: at.Test,
	}

	return nil
}

// Approve passes the decision about the plan to the run.
func (c *Child) Approve(request ApproveRequest, _ *Nothing) error {
	run := c.child.getRun(request.Run)
	if run == nil {
		return nil // the run has already ended
	}

	var refused error
	if request.Refusal != "" {
		refused = errors.New(request.Refusal)
	}

	select {
	case run.approval <- refused:
	default: // only the first answer counts
	}

	return nil
}

// Close ends the endpoint of a run after its pending calls, and forgets the run's session.
func (c *Child) Close(id uint64, reply *CloseReply) error {
	run := c.child.getRun(id)
	if run == nil {
		return nil
	}

	run.endpoint.Close()
	c.child.releaseClient(id, run.session)

	c.child.mu.Lock()
	defer c.child.mu.Unlock()

	delete(c.child.runs, id)
	reply.Observations, c.child.seen = c.child.seen, nil

	return nil
}

func (c *child) getRun(id uint64) *childRun {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.runs[id]
}

// ensureClient returns the client of a run's engine, or nil if the run has no engine.
func (c *child) ensureClient(request OpenRequest) (*engine.Client, error) {
	if request.Engine.Session == "" {
		return nil, nil
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	shared := c.clients[request.Engine.Session]
	if shared == nil {
		shared = &sharedClient{runs: map[uint64]bool{}}

		var err error
		if shared.client, err = engine.New(engine.Config{
			URL:      request.Engine.URL,
			CA:       []byte(request.Engine.CA),
			Insecure: request.Engine.Insecure,
			Token: func(ctx context.Context, refused string) (string, error) {
				return c.fetchToken(ctx, shared, refused)
			},
			MayAct:  func(ctx context.Context) error { return c.checkNotSuperseded(ctx, shared) },
			Observe: c.storeObservation,
		}); err != nil {
			return nil, err
		}

		c.clients[request.Engine.Session] = shared
	}

	shared.runs[request.Run] = true

	return shared.client, nil
}

// releaseClient forgets a client and its session if no run uses the client any longer.
func (c *child) releaseClient(run uint64, session string) {
	c.mu.Lock()
	defer c.mu.Unlock()

	shared := c.clients[session]
	if shared == nil {
		return
	}

	if delete(shared.runs, run); len(shared.runs) == 0 {
		shared.client.DropSession()
		delete(c.clients, session)
	}
}

// anyRun returns the ID of a run with this client.
func (c *child) anyRun(shared *sharedClient) (run uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for run = range shared.runs {
		break
	}

	return run
}

// checkNotSuperseded returns an error if another manager leads. If the API server is unreachable, runs continue,
// because their results are in their states.
func (c *child) checkNotSuperseded(ctx context.Context, shared *sharedClient) error {
	if err := c.checkMayAct(ctx, c.anyRun(shared)); errors.Is(err, engine.ErrSuperseded) {
		return err
	}

	return nil
}

// fetchToken asks the manager for the token of a client's session, on behalf of one of its runs.
func (c *child) fetchToken(ctx context.Context, shared *sharedClient, refused string) (string, error) {
	var reply TokenReply
	err := callProcess(
		ctx, c.manager, managerService+".Token", TokenRequest{Run: c.anyRun(shared), Refused: refused}, &reply,
	)

	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return "", &engine.CancelledError{Err: context.Cause(ctx)}
	case err != nil:
		return "", &engine.UnreachableError{Err: err}
	case reply.Auth != nil:
		return "", reply.Auth
	case reply.Problem != "":
		return "", &engine.UnreachableError{Err: errors.New(reply.Problem)}
	}

	return reply.Token, nil
}

// checkMayAct asks the manager whether it still leads.
func (c *child) checkMayAct(ctx context.Context, run uint64) error {
	var reply MayActReply
	if err := callProcess(ctx, c.manager, managerService+".MayAct", run, &reply); err != nil {
		return err
	}

	switch {
	case reply.Superseded:
		return fmt.Errorf("%w: %s", engine.ErrSuperseded, reply.Problem)
	case reply.Problem != "":
		return errors.New(reply.Problem)
	}

	return nil
}

// storeObservation stores an observation for the metrics until the manager fetches it.
func (c *child) storeObservation(seen engine.Observation) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.seen = append(c.seen, seen)
}

// decision caches the manager's decision about the plan of a run, because several calls wait for it.
type decision struct {
	mu      sync.Mutex
	decided bool
	err     error
}

// waitForAnswer waits for the decision and returns it.
func (d *decision) waitForAnswer(ctx context.Context, answer <-chan error) error {
	d.mu.Lock()
	defer d.mu.Unlock()

	if d.decided {
		return d.err
	}

	select {
	case d.err = <-answer:
		d.decided = true
		return d.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// callProcess calls the other process. The call ends with the context.
func callProcess(ctx context.Context, client *rpc.Client, method string, request, reply any) error {
	pending := client.Go(method, request, reply, make(chan *rpc.Call, 1))

	select {
	case <-pending.Done:
		if errors.Is(pending.Error, rpc.ErrShutdown) || errors.Is(pending.Error, io.ErrUnexpectedEOF) {
			return errGone
		}

		return pending.Error
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// errGone is the error of calls after the other process has ended.
var errGone = errors.New("the provider process has ended; the next run starts a new one")
