package providerprocess

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/rpc"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/hashicorp/go-plugin"

	"github.com/capolvm/cluster-api-provider-olvm/internal/confine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
	"github.com/capolvm/cluster-api-provider-olvm/internal/scratchdir"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
)

const (
	// openLimit is the maximum time for opening an endpoint.
	openLimit = time.Minute
	// closeLimit is the maximum time for closing an endpoint. Pending requests to the engine end earlier.
	closeLimit = 2 * engine.DefaultTimeout
	// endGrace is the time in which an idle process can exit before it is killed.
	endGrace = 5 * time.Second

	portDNS = 53
)

// Provider serves the provider from a child process. It implements the Provider of internal/terraform.
type Provider struct {
	// Sessions log in to engines. Runs use these sessions.
	Sessions *engine.Sessions
	// Fence is called before and after the creation of a disk; nil allows the creation.
	Fence func(ctx context.Context) error
	// Log gets messages about processes that end unexpectedly. Its zero value drops them.
	Log logr.Logger

	mu      sync.Mutex
	current *process
	// processes are all running processes.
	processes map[*process]bool
	last      uint64 // number of the last run
	sessions  map[*engine.Client]string
}

// Address returns the provider's address in configurations.
func (p *Provider) Address() string { return tfprovider.Address }

// HoldsCredentials reports that configurations need no credentials, because runs borrow the manager's sessions.
func (p *Provider) HoldsCredentials() bool { return true }

// Serve opens an endpoint for a run. The returned function waits for pending calls and closes it.
func (p *Provider) Serve(ctx context.Context, use terraform.Use) (*plugin.ReattachConfig, func(), error) {
	run := &run{use: use, fence: p.Fence}
	request := OpenRequest{Owner: use.Owner, Types: use.Types, StateVMs: use.StateVMs}

	if use.Engine.URL != "" {
		var err error
		run.session, err = p.Sessions.Get(engine.Config{
			URL: use.Engine.URL, Username: use.Engine.Username, Password: use.Engine.Password,
			CA: []byte(use.Engine.CA), Insecure: use.Engine.Insecure,
		})
		if err != nil {
			return nil, nil, err
		}

		request.Engine = Engine{
			URL: use.Engine.URL, CA: use.Engine.CA, Insecure: use.Engine.Insecure, Session: p.sessionName(run.session),
		}
	}

	ports, err := findPorts(use.Engine.URL, http.ProxyFromEnvironment)
	if err != nil {
		return nil, nil, err
	}

	child, id, err := p.assignRun(ports, run)
	if err != nil {
		return nil, nil, err
	}

	request.Run = id

	opening, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()

	var reply OpenReply
	err = callProcess(opening, child.calls, childService+".Open", request, &reply)
	if err == nil {
		err = child.checkAddress(reply)
	}

	if err != nil {
		child.closeRun(id) // the child may have opened the endpoint although the answer was lost
		return nil, nil, fmt.Errorf("failed to serve the provider: %w", err)
	}

	watching, stopWatching := context.WithCancel(ctx)
	go child.forwardDecision(watching, id, use)

	return &plugin.ReattachConfig{
		Protocol:        plugin.Protocol(reply.Protocol),
		ProtocolVersion: reply.ProtocolVersion,
		Addr:            &net.UnixAddr{Net: reply.Network, Name: reply.Address},
		Pid:             reply.Pid,
		Test:            reply.Test,
	}, sync.OnceFunc(func() { stopWatching(); child.closeRun(id) }), nil
}

// sessionName returns the name of a session. Names are never used again, so a child cannot mistake a new session for an
// old one.
func (p *Provider) sessionName(session *engine.Client) string {
	p.mu.Lock()
	defer p.mu.Unlock()

	for other := range p.sessions {
		if !p.Sessions.HasClient(other) {
			delete(p.sessions, other)
		}
	}

	if p.sessions == nil {
		p.sessions = map[*engine.Client]string{}
	}

	if p.sessions[session] == "" {
		p.last++
		p.sessions[session] = strconv.FormatUint(p.last, 10)
	}

	return p.sessions[session]
}

// assignRun assigns a run to a process that has access to the ports. It starts a process if there is none.
func (p *Provider) assignRun(ports []uint16, run *run) (*process, uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.last++
	id := p.last

	if p.current != nil && p.current.addRun(id, run, ports) {
		return p.current, id, nil
	}

	allowed := ports
	if p.current != nil {
		allowed = append(slices.Clone(p.current.ports), ports...)
		p.current.drainRuns()
		p.current = nil
	}

	slices.Sort(allowed)

	started, err := startChild(slices.Compact(allowed), p.Log)
	if err != nil {
		return nil, 0, err
	}

	if p.processes == nil {
		p.processes = map[*process]bool{}
	}

	p.current, p.processes[started] = started, true

	go func() {
		<-started.ended

		p.mu.Lock()
		defer p.mu.Unlock()

		delete(p.processes, started)
	}()

	started.addRun(id, run, ports)

	return started, id, nil
}

// Close stops all processes. After endGrace, it kills those that still run. Callers must end all runs before. A later
// run starts a new process.
func (p *Provider) Close() {
	stopped := p.takeProcesses()
	for _, one := range stopped {
		one.drainRuns()
	}

	late := time.After(endGrace)

	for _, one := range stopped {
		select {
		case <-one.ended:
		case <-late:
			p.killAll(stopped)
			return
		}
	}
}

// KillProcesses kills all processes of a former leader, because another manager may act at any moment.
func (p *Provider) KillProcesses() { p.killAll(p.takeProcesses()) }

func (p *Provider) killAll(processes []*process) {
	for _, one := range processes {
		one.killChild()
	}

	for _, one := range processes {
		<-one.ended
	}
}

// takeProcesses returns all running processes. Later runs use new processes.
func (p *Provider) takeProcesses() []*process {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.current = nil

	return slices.Collect(maps.Keys(p.processes))
}

// run holds what the manager needs to answer the child's questions about a run.
type run struct {
	use     terraform.Use
	session *engine.Client // nil if the run has no engine
	fence   func(ctx context.Context) error
}

// process is a running child.
type process struct {
	command *exec.Cmd
	calls   *rpc.Client
	ports   []uint16
	dir     string
	remove  func() error
	ended   chan struct{}

	mu       sync.Mutex
	runs     map[uint64]*run
	draining bool
}

// addRun adds a run to the process. It returns false if the process has ended or is draining, or if it may not connect
// to one of the ports.
func (c *process) addRun(id uint64, added *run, ports []uint16) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	select {
	case <-c.ended:
		return false
	default:
	}

	if c.draining || slices.ContainsFunc(ports, func(port uint16) bool { return !slices.Contains(c.ports, port) }) {
		return false
	}

	c.runs[id] = added

	return true
}

// removeRun removes a run from the process. In a draining process, the last run also ends the process.
func (c *process) removeRun(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()

	delete(c.runs, id)
	c.stopIfUnused()
}

// drainRuns makes the process accept no more runs, and end with its last run.
func (c *process) drainRuns() {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.draining = true
	c.stopIfUnused()
}

// stopIfUnused stops a draining process without runs. The caller must hold mu.
func (c *process) stopIfUnused() {
	if !c.draining || len(c.runs) > 0 {
		return
	}

	_ = c.calls.Close() // this ends the child
	time.AfterFunc(endGrace, func() {
		select {
		case <-c.ended:
		default:
			_ = c.command.Process.Kill()
		}
	})
}

// killChild kills the process.
func (c *process) killChild() {
	c.mu.Lock()
	c.draining = true
	c.mu.Unlock()

	_ = c.command.Process.Kill()
}

// isDraining reports whether the process is about to end.
func (c *process) isDraining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.draining
}

// checkAddress returns an error if an endpoint is not a socket in the folder of the process.
func (c *process) checkAddress(reply OpenReply) error {
	if reply.Network != "unix" || filepath.Dir(filepath.Clean(reply.Address)) != filepath.Clean(c.dir) {
		return fmt.Errorf("the provider process opened %s %s, which is not in its folder", reply.Network, reply.Address)
	}

	return nil
}

// findRun returns a run of the process. It returns an error if the run has ended or never existed.
func (c *process) findRun(id uint64) (*run, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if found := c.runs[id]; found != nil {
		return found, nil
	}

	return nil, errors.New("the run has ended or never existed")
}

// forwardDecision waits for the decision about a run's plan, and sends the decision to the child.
func (c *process) forwardDecision(ctx context.Context, id uint64, use terraform.Use) {
	request := ApproveRequest{Run: id}

	if use.Approved != nil {
		if err := use.Approved(ctx); err != nil {
			request.Refusal = err.Error()
		}
	}

	if ctx.Err() == nil {
		_ = callProcess(ctx, c.calls, childService+".Approve", request, &Nothing{})
	}
}

// maxObservations is the maximum number of requests that count for a run.
const maxObservations = 100_000

// closeRun ends the endpoint of a run. A process that does not respond gets no more runs, and ends with its last run.
func (c *process) closeRun(id uint64) {
	defer c.removeRun(id)

	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()

	var reply CloseReply
	if err := callProcess(ctx, c.calls, childService+".Close", id, &reply); err != nil {
		c.drainRuns()
		return
	}

	for _, seen := range reply.Observations[:min(len(reply.Observations), maxObservations)] {
		if seen.IsValid() {
			seen.AddToMetrics()
		}
	}
}

// Manager has the methods that the child calls.
type Manager struct{ process *process }

// Token returns the token of the session with the engine.
func (m *Manager) Token(request TokenRequest, reply *TokenReply) error {
	found, err := m.process.findRun(request.Run)
	if err != nil {
		return err
	}

	if found.session == nil {
		return errors.New("the run has no engine")
	}

	ctx, cancel := context.WithTimeout(context.Background(), engine.DefaultTimeout)
	defer cancel()

	reply.Token, err = found.session.ShareToken(ctx, request.Refused)
	if err != nil && !errors.As(err, &reply.Auth) {
		reply.Problem = err.Error()
	}

	return nil
}

// MayAct reports whether the manager still leads.
func (m *Manager) MayAct(id uint64, reply *MayActReply) error {
	found, err := m.process.findRun(id)
	if err != nil {
		return err
	}

	if found.fence == nil {
		return nil
	}

	ctx, cancel := context.WithTimeout(context.Background(), engine.DefaultTimeout)
	defer cancel()

	if err := found.fence(ctx); err != nil {
		*reply = MayActReply{Superseded: errors.Is(err, engine.ErrSuperseded), Problem: err.Error()}
	}

	return nil
}

// startChild starts a child with access to the ports.
func startChild(ports []uint16, log logr.Logger) (*process, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("failed to find this program: %w", err)
	}

	dir, remove, err := scratchdir.Make(scratchdir.Provider) // folder for the child's sockets
	if err != nil {
		return nil, err
	}

	requests, calls, theirs, err := newSocketPairs()
	if err != nil {
		return nil, errors.Join(err, remove())
	}

	c := &process{
		command: &exec.Cmd{
			Path: executable, Args: []string{executable, argument}, Dir: dir, Env: buildChildEnvironment(dir),
			Stderr:      os.Stderr,
			ExtraFiles:  theirs,
			SysProcAttr: hostos.OwnGroup(),
		},
		calls:  rpc.NewClient(calls),
		ports:  ports,
		dir:    dir,
		remove: remove,
		ended:  make(chan struct{}),
		runs:   map[uint64]*run{},
	}

	err = startConfined(executable, dir, ports, c.command.Start)

	for _, file := range theirs {
		_ = file.Close()
	}

	if err != nil {
		_ = errors.Join(requests.Close(), calls.Close(), remove())
		return nil, fmt.Errorf("failed to start the provider: %w", err)
	}

	go c.answerRequests(requests)
	go c.waitForEnd(requests, log)

	return c, nil
}

// newSocketPairs returns the manager's ends of the two sockets: for requests of the child, and for calls to the child.
// It also returns the child's ends, with the socket for calls first.
func newSocketPairs() (requests, calls net.Conn, theirs []*os.File, err error) {
	requests, theirRequests, err := newSocketPair()
	if err != nil {
		return nil, nil, nil, err
	}

	calls, theirCalls, err := newSocketPair()
	if err != nil {
		_ = errors.Join(requests.Close(), theirRequests.Close())
		return nil, nil, nil, err
	}

	return requests, calls, []*os.File{theirCalls, theirRequests}, nil
}

// answerRequests answers the requests of the child until it has ended.
func (c *process) answerRequests(requests net.Conn) {
	server := rpc.NewServer()
	if err := server.RegisterName(managerService, &Manager{c}); err != nil {
		panic(err) // impossible, because the methods are those of this package
	}

	server.ServeConn(requests)
}

// waitForEnd waits until the child ends, and removes the child's files.
func (c *process) waitForEnd(requests net.Conn, log logr.Logger) {
	err := c.command.Wait()
	if !c.isDraining() {
		log.Error(err, "The provider process ended; runs that use it fail, and the next one starts a new process")
	}

	_ = errors.Join(c.calls.Close(), requests.Close(), c.remove())

	close(c.ended)
}

// startConfined starts the child, and confines it to the resources that it needs.
func startConfined(executable, dir string, ports []uint16, begin func() error) error {
	if confine.Version() == 0 {
		return begin()
	}

	return confine.Start(confine.Rules{
		Run:     append([]string{executable}, confine.Libraries...),
		Read:    append(slices.Clone(resolverFiles), findCertificateFiles()...),
		Sockets: []string{dir},
		Connect: append([]uint16{portDNS}, ports...),
	}, begin)
}

// resolverFiles are the files that configure the lookup of host names.
var resolverFiles = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"}

// findCertificateFiles returns the paths of the system's CA bundles.
func findCertificateFiles() []string {
	out := []string{
		"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/certs",
		"/etc/pki/tls/cacert.pem",
		"/etc/pki/ca-trust/extracted", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
	}
	if file := os.Getenv("SSL_CERT_FILE"); file != "" {
		out = append(out, file)
	}

	return append(out, filepath.SplitList(os.Getenv("SSL_CERT_DIR"))...)
}

// buildChildEnvironment returns the environment of a child. It contains only those of the manager's variables that
// matter for connections to engines.
func buildChildEnvironment(dir string) []string {
	out := []string{
		"TMPDIR=" + dir,
		// The child may not read the cgroup's files, from which Go would compute GOMAXPROCS.
		"GOMAXPROCS=" + strconv.Itoa(runtime.GOMAXPROCS(0)),
	}

	for _, name := range []string{
		"HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
	} {
		if value, set := os.LookupEnv(name); set {
			out = append(out, name+"="+value)
		}
	}

	return out
}

// newSocketPair returns two connected sockets, one for this process and one for a child.
func newSocketPair() (net.Conn, *os.File, error) {
	own, theirs, err := hostos.SocketPair()
	if err != nil {
		return nil, nil, err
	}
	defer own.Close()

	connection, err := net.FileConn(own)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, fmt.Errorf("failed to use a socket: %w", err)
	}

	return connection, theirs, nil
}

// findPorts returns the TCP ports of connections to an engine: the engine's port, or the port of its proxy.
func findPorts(engineURL string, proxyOf func(*http.Request) (*url.URL, error)) ([]uint16, error) {
	if engineURL == "" {
		return nil, nil
	}

	base, err := engine.ParseBaseURL(engineURL)
	if err != nil {
		return nil, err
	}

	proxy, err := proxyOf(&http.Request{URL: base})
	if err != nil {
		return nil, fmt.Errorf("the proxy in HTTPS_PROXY is not a valid URL: %w", err)
	}

	if proxy != nil {
		base = proxy
	}

	port, err := getPort(base)
	if err != nil {
		return nil, err
	}

	return []uint16{port}, nil
}

// defaultPorts are the TCP ports of engines and proxies whose URLs contain no port.
var defaultPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}

// getPort returns the TCP port of a URL.
func getPort(at *url.URL) (uint16, error) {
	text := at.Port()
	if text == "" {
		text = defaultPorts[strings.ToLower(at.Scheme)]
	}

	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("the URL %s has no valid TCP port", at.Redacted())
	}

	return uint16(port), nil
}
