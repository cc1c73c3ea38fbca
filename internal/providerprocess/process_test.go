package providerprocess

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/go-logr/logr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/confine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv/hostile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// holding is an environment variable. With it, this program starts a provider process, prints the process's folder, and
// waits.
const holding = "PROVIDERPROCESS_TEST_HOLDS"

func TestMain(m *testing.M) {
	RunIfChild()

	if os.Getenv(holding) != "" {
		child, err := startChild(nil, logr.Discard())
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}

		fmt.Println(child.dir)

		select {}
	}

	if len(os.Args) > 2 && os.Args[1] == "try" {
		fmt.Print(strings.Join(hostile.MakeAttempts(os.Args[2:]...), "\x00"))
		os.Exit(0)
	}

	os.Exit(m.Run())
}

// site is an engine, and an executor whose provider runs in a child of this process.
type site struct {
	t        *testing.T
	sim      *ovirtsim.Server
	provider *Provider
	executor *terraform.Executor
}

func newSite(t *testing.T, options ovirtsim.Options) *site {
	t.Helper()
	sim, err := ovirtsim.New(options)
	check.Error(t, err, "")
	t.Cleanup(sim.Close)

	s := &site{t: t, sim: sim, provider: &Provider{Sessions: &engine.Sessions{}}}
	t.Cleanup(s.provider.Close)
	s.executor = terraform.NewExecutor(testenv.FindExecutable(t), s.provider, t.TempDir())

	return s
}

// machine returns a machine of the default engine.
func (s *site) machine(name string) render.Machine {
	s.t.Helper()
	client, err := engine.New(engine.Config{
		URL: s.sim.URL(), Username: s.sim.Username(), Password: s.sim.Password(), CA: s.sim.CA(),
	})
	check.Error(s.t, err, "")

	defer func() { _ = client.Logout(context.Background()) }()

	ctx := s.t.Context()
	dc, err := client.FindDataCenter(ctx, "Default")
	check.Error(s.t, err, "")
	cluster, err := client.FindCluster(ctx, dc, "Default")
	check.Error(s.t, err, "")
	template, err := client.FindTemplate(ctx, dc, "ol9-k8s")
	check.Error(s.t, err, "")
	network, err := client.FindNetwork(ctx, dc, "kvm-vlan")
	check.Error(s.t, err, "")
	profile, err := client.FindVNICProfile(ctx, network, "kvm-vlan")
	check.Error(s.t, err, "")

	return render.Machine{
		Engine: render.Engine{
			URL: client.APIURL(), CA: string(s.sim.CA()), Username: s.sim.Username(), Password: s.sim.Password(),
		},
		Name: name, Comment: "capolvm owner=ns/" + name + " uid=u", ClusterID: cluster.ID.String(),
		TemplateID: template.ID.String(), Cores: 1, Sockets: 1, Threads: 1, Memory: 1 << 30,
		NICs: []render.NIC{{Name: "nic1", VNICProfileID: profile.ID.String()}},
		Guests: []render.GuestNIC{{Name: "enp1s0", IPv4: render.IP{
			Method: render.Static, Address: netip.MustParsePrefix("10.0.0.9/24"),
		}}},
		UserData: "#cloud-config\n",
	}
}

// apply creates a machine and returns its state.
func (s *site) apply(ctx context.Context, machine render.Machine, change func(*terraform.Request)) ([]byte, error) {
	s.t.Helper()
	configuration, err := render.MachineConfiguration(machine)
	check.Error(s.t, err, "")

	var state []byte

	request := terraform.Request{
		Configuration: configuration,
		Dir:           filepath.Join(s.t.TempDir(), "work"),
		Owner:         machine.Comment,
		Fresh:         true,
		Secrets:       []string{machine.Engine.Password},
		SaveState: func(_ context.Context, saved []byte, _ bool) error {
			state = slices.Clone(saved)
			return nil
		},
	}
	if change != nil {
		change(&request)
	}

	_, err = s.executor.Apply(ctx, request)

	return state, err
}

// TestRunsShareAProcessAndASession creates two machines and deletes one. Terraform gets no password.
func TestRunsShareAProcessAndASession(t *testing.T) {
	s := newSite(t, ovirtsim.Options{})
	first := s.machine("first")
	logins := s.sim.CountLogins()

	state, err := s.apply(t.Context(), first, func(r *terraform.Request) {
		r.Applied = func(context.Context, string, string) {
			content, err := os.ReadFile(filepath.Join(r.Dir, render.SecretsFile))
			check.Error(t, err, "")
			check.Lacks(t, "what Terraform is given", string(content), s.sim.Password())
			check.Lacks(t, "what Terraform is given", string(content), s.sim.Username())
		}
	})
	check.Error(t, err, "")

	child := s.provider.current.command.Process.Pid

	_, err = s.apply(t.Context(), s.machine("second"), nil)
	check.Error(t, err, "")
	check.Equal(t, "process of the second run", s.provider.current.command.Process.Pid, child)
	check.Equal(t, "VMs", len(s.sim.ListVMs()), 2)

	destroy, err := render.DestroyConfiguration(first.Engine, render.OwnVM)
	check.Error(t, err, "")
	_, err = s.apply(t.Context(), first, func(r *terraform.Request) {
		r.Configuration, r.Destroy, r.Fresh, r.State = destroy, true, false, state
	})
	check.Error(t, err, "")
	check.Equal(t, "VMs after a destruction", len(s.sim.ListVMs()), 1)
	check.Equal(t, "logins of runs", s.sim.CountLogins()-logins-1, 1) // and one for the lookup of the second machine
	check.Equal(t, "sessions that the manager holds", s.provider.current.runs, map[uint64]*run{})
}

// TestASessionIsRenewed makes the engine forget its sessions during a run.
func TestASessionIsRenewed(t *testing.T) {
	s := newSite(t, ovirtsim.Options{})

	_, err := s.apply(t.Context(), s.machine("m"), func(r *terraform.Request) {
		r.Applied = func(_ context.Context, address, _ string) {
			if address == render.VMAddress.String() {
				s.sim.ExpireSessions()
			}
		}
	})
	check.Error(t, err, "")
	check.Equal(t, "VMs", len(s.sim.ListVMs()), 1)
}

// TestTheFenceIsAskedForDisks runs as a former leader. Such a process creates nothing else, either.
func TestTheFenceIsAskedForDisks(t *testing.T) {
	s := newSite(t, ovirtsim.Options{})
	s.provider.Fence = func(context.Context) error { return fmt.Errorf("%w: other", engine.ErrSuperseded) }

	machine := s.machine("m")
	client, err := s.provider.Sessions.Get(engine.Config{
		URL: s.sim.URL(), Username: s.sim.Username(), Password: s.sim.Password(), CA: s.sim.CA(),
	})
	check.Error(t, err, "")
	dc, err := client.FindDataCenter(t.Context(), "Default")
	check.Error(t, err, "")
	domains, err := client.ListStorageDomains(t.Context(), dc)
	check.Error(t, err, "")

	machine.DataDisks = []render.DataDisk{{
		Name: "etcd", Size: 1 << 30, Format: "raw", StorageDomainID: domains[0].ID.String(), Interface: "virtio",
	}}
	_, err = s.apply(t.Context(), machine, nil)
	check.Error(t, err, "another manager leads")
	check.Equal(t, "disks beside that of the template", s.sim.Summarize().Disks, 0)
	check.Length(t, "VMs", s.sim.ListVMs(), 0)
}

// TestARunOfAnotherPortGetsAnotherProcess uses two engines with different ports. The first process ends with its last
// run.
func TestARunOfAnotherPortGetsAnotherProcess(t *testing.T) {
	s := newSite(t, ovirtsim.Options{})
	other, err := ovirtsim.New(ovirtsim.Options{})
	check.Error(t, err, "")
	t.Cleanup(other.Close)

	elsewhere := &site{t: t, sim: other, provider: s.provider, executor: s.executor}

	_, err = s.apply(t.Context(), s.machine("m"), nil)
	check.Error(t, err, "")

	first := s.provider.current

	_, err = elsewhere.apply(t.Context(), elsewhere.machine("m"), nil)
	check.Error(t, err, "")
	wait.Until(t, "the first process ends", func() bool {
		select {
		case <-first.ended:
			return true
		default:
			return false
		}
	})

	second := s.provider.current
	check.Equal(t, "it is another", second != first, true)

	_, err = s.apply(t.Context(), s.machine("n"), nil)
	check.Error(t, err, "")
	check.Equal(t, "the second may connect to both", s.provider.current == second, true)
	check.Equal(t, "VMs of the engines", []int{len(s.sim.ListVMs()), len(other.ListVMs())}, []int{2, 1})
}

// TestAProcessThatDiesIsReplaced kills the child in the middle of a run.
func TestAProcessThatDiesIsReplaced(t *testing.T) {
	var kill atomic.Pointer[os.Process]

	s := newSite(t, ovirtsim.Options{Gate: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)

			if victim := kill.Load(); victim != nil && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/vms") {
				_ = victim.Kill()
			}
		})
	}})
	machine := s.machine("m")

	_, err := s.apply(t.Context(), s.machine("n"), nil)
	check.Error(t, err, "")

	died := s.provider.current
	kill.Store(died.command.Process)
	_, err = s.apply(t.Context(), machine, nil)
	check.Equal(t, "the run fails", err != nil, true)
	kill.Store(nil)
	wait.Receive(t, "the process is gone", died.ended)

	_, err = s.apply(t.Context(), s.machine("o"), nil)
	check.Error(t, err, "")
	check.Equal(t, "another process serves", s.provider.current != died, true)
}

// TestALostLeaseEndsAllProcesses kills all processes during a run. The process of this run accepts no more runs.
func TestALostLeaseEndsAllProcesses(t *testing.T) {
	begun, killed := make(chan struct{}), make(chan struct{})
	s := newSite(t, ovirtsim.Options{Gate: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/vms") {
				close(begun)
				<-killed
			}

			next.ServeHTTP(w, r)
		})
	}})
	machine, ended := s.machine("m"), make(chan error, 1)

	go func() {
		_, err := s.apply(t.Context(), machine, nil)
		ended <- err
	}()

	wait.Receive(t, "the run makes its VM", begun)

	other, err := ovirtsim.New(ovirtsim.Options{})
	check.Error(t, err, "")
	t.Cleanup(other.Close)

	elsewhere := &site{t: t, sim: other, provider: s.provider, executor: s.executor}
	first := s.provider.current
	_, err = elsewhere.apply(t.Context(), elsewhere.machine("m"), nil)
	check.Error(t, err, "")

	second := s.provider.current
	check.Equal(t, "there are two processes", second != first && len(s.provider.processes) == 2, true)
	s.provider.KillProcesses()
	wait.Receive(t, "the first process is gone", first.ended)
	wait.Receive(t, "the second process is gone", second.ended)
	close(killed)
	check.Equal(t, "the run fails", <-ended != nil, true)
}

// TestAStuckProcessIsKilled halts the child, and then tells it to end.
func TestAStuckProcessIsKilled(t *testing.T) {
	s := newSite(t, ovirtsim.Options{})
	_, err := s.apply(t.Context(), s.machine("m"), nil)
	check.Error(t, err, "")

	child := s.provider.current
	check.Error(t, child.command.Process.Signal(syscall.SIGSTOP), "")
	s.provider.Close()
	wait.Receive(t, "the process is gone", child.ended)
}

// TestARunSaysThatItsUserIsRefused makes the engine end its sessions and reject the next login.
func TestARunSaysThatItsUserIsRefused(t *testing.T) {
	s := newSite(t, ovirtsim.Options{})

	_, err := s.apply(t.Context(), s.machine("m"), func(r *terraform.Request) {
		r.Applied = func(_ context.Context, address, _ string) {
			if address == render.VMAddress.String() {
				s.sim.ExpireSessions()
				check.Error(t, s.sim.Inject(ovirtsim.Fault{
					Path: "/sso/oauth/token", Status: http.StatusBadRequest, MediaType: "application/json",
					Body: `{"error_code":"access_denied","error":"Cannot authenticate user 'admin@internal'"}`,
				}), "")
			}
		}
	})
	check.Error(t, err, "engine refuses user")
}

// TestAnEndpointIsInTheFolderOfItsProcess covers answers that a compromised child could give.
func TestAnEndpointIsInTheFolderOfItsProcess(t *testing.T) {
	c := &process{dir: "/tmp/provider-1"}
	check.Error(t, c.checkAddress(OpenReply{Network: "unix", Address: "/tmp/provider-1/plugin"}), "")

	for _, reply := range []OpenReply{
		{Network: "tcp", Address: "192.0.2.1:80"},
		{Network: "unix", Address: "/var/run/docker.sock"},
		{Network: "unix", Address: "/tmp/provider-1/../docker.sock"},
		{Network: "unix", Address: "@abstract"},
	} {
		check.Error(t, c.checkAddress(reply), "which is not in its folder")
	}
}

// TestAnInterruptIsNotTheChilds interrupts all processes of the manager, as a terminal does.
func TestAnInterruptIsNotTheChilds(t *testing.T) {
	s := newSite(t, ovirtsim.Options{})

	_, err := s.apply(t.Context(), s.machine("m"), func(r *terraform.Request) {
		r.Applied = func(context.Context, string, string) {
			check.Error(t, s.provider.current.command.Process.Signal(os.Interrupt), "")
		}
	})
	check.Error(t, err, "")
}

// TestTheProcessEndsWithTheManager closes the child's connection to the manager.
func TestTheProcessEndsWithTheManager(t *testing.T) {
	s := newSite(t, ovirtsim.Options{})
	_, err := s.apply(t.Context(), s.machine("m"), nil)
	check.Error(t, err, "")

	child := s.provider.current
	check.Error(t, child.calls.Close(), "")
	wait.Receive(t, "the process is gone", child.ended)

	_, err = os.Stat(child.dir)
	check.Equal(t, "its folder is gone", errors.Is(err, os.ErrNotExist), true)
}

// TestTheFolderOfAKilledManagerIsRemovedByTheNext kills a process with a child, and starts another child.
func TestTheFolderOfAKilledManagerIsRemovedByTheNext(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())

	killed := exec.CommandContext(t.Context(), os.Args[0])
	killed.Env = append(os.Environ(), holding+"=1")
	said, err := killed.StdoutPipe()
	check.Error(t, err, "")
	check.Error(t, killed.Start(), "")

	line, err := bufio.NewReader(said).ReadString('\n')
	check.Error(t, err, "")
	check.Error(t, killed.Process.Kill(), "")
	check.Error(t, killed.Wait(), "signal: killed")

	folder := strings.TrimSpace(line)
	_, err = os.Stat(folder)
	check.Error(t, err, "")

	next, err := startChild(nil, logr.Discard())
	check.Error(t, err, "")
	t.Cleanup(func() { next.killChild(); <-next.ended })

	_, err = os.Stat(folder)
	check.Equal(t, "whether the folder is gone", errors.Is(err, os.ErrNotExist), true)
}

// TestARefusedPlanChangesNothing uses a plan that contains an undeclared object. The child receives the reason.
func TestARefusedPlanChangesNothing(t *testing.T) {
	s := newSite(t, ovirtsim.Options{})

	machine := s.machine("m")
	machine.NICs = append(machine.NICs, machine.NICs[0])
	machine.NICs[1].Name = "nic2"

	_, err := s.apply(t.Context(), machine, func(r *terraform.Request) {
		r.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(a render.Address) bool {
			return a == render.NICAddress(1)
		})
	})
	check.Error(t, err, "which the configuration does not declare")
	check.Equal(t, "VMs", len(s.sim.ListVMs()), 0)
}

// TestTheProcessHasNothingWorthTaking runs hostile code in place of the child, with the same confinement.
func TestTheProcessHasNothingWorthTaking(t *testing.T) {
	if confine.Version() == 0 {
		t.Fatal("this kernel has no Landlock, and what confines the provider cannot be tried")
	}

	t.Setenv("KUBECONFIG", "/somewhere/kubeconfig")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "a secret")

	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	check.Error(t, os.WriteFile(token, []byte("eyJhbGciOiJSUzI1NiJ9"), 0o600), "")

	allowed, denied := listen(t), listen(t)
	self, err := os.Executable()
	check.Error(t, err, "")

	sockets := t.TempDir()
	attempts := []string{
		"connect:" + allowed.Addr().String(),
		"read:/etc/hosts",
		"read:" + token,
		"write:" + filepath.Join(dir, "new"),
		"link:" + token,
		"run:/bin/sh",
		"connect:" + denied.Addr().String(),
		"signal:" + strconv.Itoa(os.Getpid()),
		"spy:",
		"read:/proc/self/environ",
	}
	environ := buildChildEnvironment(sockets)

	try := func(start func(func() error) error) []string {
		var output strings.Builder

		command := &exec.Cmd{
			Path: self, Args: append([]string{self, "try"}, attempts...), Dir: sockets, Env: environ, Stdout: &output,
			Stderr: os.Stderr,
		}
		check.Error(t, start(command.Start), "")
		check.Error(t, command.Wait(), "")

		return strings.Split(output.String(), "\x00")
	}

	port := allowed.Addr().(*net.TCPAddr).AddrPort().Port()
	open := try(func(start func() error) error { return start() })
	confined := try(func(start func() error) error { return startConfined(self, sockets, []uint16{port}, start) })

	for i, attempt := range attempts {
		check.Contains(t, "without confinement", open[i], hostile.Got)
		check.Equal(t, attempt+" works in the child: "+confined[i], strings.Contains(confined[i], hostile.Got), i < 2)
	}

	for _, variable := range environ {
		check.Lacks(t, "environment", variable, "secret")
		check.Lacks(t, "environment", variable, "kubeconfig")
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check.Error(t, err, "")
	t.Cleanup(func() { _ = listener.Close() })

	return listener
}

func TestPortsToAnEngine(t *testing.T) {
	for name, test := range map[string]struct {
		url, proxy string
		want       []uint16
		problem    string
	}{
		"none":                {"", "", nil, ""},
		"the usual one":       {"https://engine.example.com/ovirt-engine/api", "", []uint16{443}, ""},
		"its own":             {"https://engine.example.com:8443", "", []uint16{8443}, ""},
		"that of a proxy":     {"https://engine.example.com", "http://proxy.example.com:3128", []uint16{3128}, ""},
		"a proxy without one": {"https://engine.example.com", "http://proxy.example.com", []uint16{80}, ""},
		"none that fits":      {"https://engine.example.com:99999", "", nil, "has no valid TCP port"},
		"no engine":           {"ftp://engine.example.com", "", nil, "must begin with https"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := findPorts(test.url, func(*http.Request) (*url.URL, error) {
				if test.proxy == "" {
					return nil, nil
				}

				return url.Parse(test.proxy)
			})
			check.Error(t, err, test.problem)
			check.Equal(t, "ports", got, test.want)
		})
	}
}
