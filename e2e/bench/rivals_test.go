package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// rivalEnv is the environment variable with the job of a rival. A rival is this program in a separate process, so that
// its CPU time is measurable.
const rivalEnv = "CAPOLVM_BENCH_RIVAL"

// atOnce is the number of machines on which a rival works in parallel. It equals our manager's number of parallel runs.
const atOnce = 4

// job is the job of a rival.
type job struct {
	Contender string
	Machines  int
	URL       string
	Username  string
	Password  string
	CA        []byte
	Executor  string
	Mirror    string
	Dir       string
}

func runRival(t *testing.T, contender string, n int) round {
	t.Helper()
	site := testsite.New(t, suite.API.Client, testsite.Options{Inventory: spacious()})
	text, err := json.Marshal(job{
		Contender: contender,
		Machines:  n,
		URL:       site.Sim.URL(),
		Username:  site.Sim.Username(),
		Password:  site.Sim.Password(),
		CA:        site.Sim.CA(),
		Executor:  suite.Program.Executor.Path, Mirror: filepath.Join(suite.Dir, "mirror"), Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}

	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), rivalEnv+"="+string(text))
	var stderr bytes.Buffer
	command.Stderr = &stderr
	answer, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", contender, err, stderr.String())
	}

	var out round
	if err := json.Unmarshal(answer, &out); err != nil {
		t.Fatalf("%s: %v in %s", contender, err, answer)
	}

	if got := site.Sim.Summarize(); got.VMs+got.NICs+got.Disks != 0 {
		t.Errorf("%s left %+v", contender, got)
	}

	return out
}

// rival creates and deletes machines, and prints the resulting round.
func rival(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}

	config := engine.Config{URL: j.URL, Username: j.Username, Password: j.Password, CA: j.CA}
	session, err := engine.New(config)
	if err != nil {
		return err
	}

	machine, err := plainMachine(session, config)
	if err != nil {
		return err
	}

	create, remove := natively(session, machine)
	if j.Contender == forkPerRun {
		create, remove = j.forking(machine)
	}

	out := round{Contender: j.Contender, Machines: j.Machines}
	for _, half := range []struct {
		work func(name string) error
		into *effort
	}{{create, &out.Create}, {remove, &out.Delete}} {
		begin, before := time.Now(), allCPU()
		if err := each(j.Machines, half.work); err != nil {
			return err
		}

		*half.into = newEffort(j.Machines, time.Since(begin), allCPU().minus(before))
	}

	_, self := rusage(syscall.RUSAGE_SELF)
	_, child := rusage(syscall.RUSAGE_CHILDREN)
	out.PeakMiB = self
	if child > 0 {
		// of Terraform and its provider, this counts only the process with more memory
		out.PeakMiB += child * min(atOnce, float64(j.Machines))
	}

	return json.NewEncoder(os.Stdout).Encode(out)
}

func allCPU() cpu {
	self, _ := rusage(syscall.RUSAGE_SELF)
	children, _ := rusage(syscall.RUSAGE_CHILDREN)
	return cpu{self, children}
}

// each calls work for each machine, with several calls in parallel.
func each(n int, work func(name string) error) error {
	var group sync.WaitGroup

	slots, failed := make(chan struct{}, atOnce), make(chan error, n)
	for i := range n {
		group.Add(1)
		slots <- struct{}{}
		go func() {
			defer group.Done()
			defer func() { <-slots }()
			if err := work(fmt.Sprintf("m%d", i)); err != nil {
				failed <- err
			}
		}()
	}

	group.Wait()
	close(failed)

	return <-failed
}

// plainMachine returns a machine that equals those of the manager.
func plainMachine(session *engine.Client, config engine.Config) (render.Machine, error) {
	ctx := context.Background()
	dc, err := session.FindDataCenter(ctx, "Default")
	if err != nil {
		return render.Machine{}, err
	}

	cluster, err := session.FindCluster(ctx, dc, "Default")
	if err != nil {
		return render.Machine{}, err
	}

	template, err := session.FindTemplate(ctx, dc, "ol9-k8s")
	if err != nil {
		return render.Machine{}, err
	}

	network, err := session.FindNetwork(ctx, dc, "kvm-vlan")
	if err != nil {
		return render.Machine{}, err
	}

	profile, err := session.FindVNICProfile(ctx, network, "kvm-vlan")
	if err != nil {
		return render.Machine{}, err
	}

	return render.Machine{
		Engine: render.Engine{
			URL:      session.APIURL(),
			CA:       string(config.CA),
			Username: config.Username,
			Password: config.Password,
		},
		Comment:    "bench",
		ClusterID:  cluster.ID.String(),
		TemplateID: template.ID.String(),
		Cores:      2,
		Sockets:    1,
		Threads:    1,
		Memory:     4 << 30,
		NICs:       []render.NIC{{Name: "nic1", VNICProfileID: profile.ID.String()}},
		Guests: []render.GuestNIC{
			{Name: "enp1s0", IPv4: render.IP{
				Method:  render.Static,
				Address: netip.MustParsePrefix("10.0.0.9/24"),
				Gateway: netip.MustParseAddr("10.0.0.1"),
			}},
		},
		UserData: "## template: jinja\n#cloud-config\nwrite_files: []\n",
	}, nil
}

// natively returns functions that make the calls of a machine's life directly.
func natively(session *engine.Client, machine render.Machine) (create, remove func(name string) error) {
	ctx := context.Background()
	var mu sync.Mutex
	ids := map[string]string{}
	waitFor := func(id string, status engine.VMStatus) error {
		return engine.Wait(ctx, string(status), func(ctx context.Context) (bool, string, error) {
			vm, err := session.FetchVM(ctx, engine.ID(id))
			if err != nil {
				return false, "", err
			}

			return vm.Status == status, string(vm.Status), nil
		}, nil)
	}
	create = func(name string) error {
		if found, err := session.FindVMs(ctx, nil, name); err != nil || len(found) > 0 {
			return errors.Join(err, fmt.Errorf("%d VMs of the name", len(found)))
		}

		vm, err := session.CreateVM(ctx, &engine.VM{
			Name:           name,
			Comment:        &machine.Comment,
			Cluster:        engine.NewRef(engine.ID(machine.ClusterID)),
			Template:       engine.NewRef(engine.ID(machine.TemplateID)),
			Memory:         &machine.Memory,
			Initialization: &engine.Initialization{CustomScript: machine.UserData, HostName: name},
		}, nil)
		if err != nil {
			return err
		}

		mu.Lock()
		ids[name] = vm.ID.String()
		mu.Unlock()
		if err := waitFor(vm.ID.String(), engine.VMDown); err != nil {
			return err
		}

		_, err = session.CreateNIC(ctx, vm.ID, &engine.NIC{
			Name:        "nic1",
			VNICProfile: engine.NewRef(engine.ID(machine.NICs[0].VNICProfileID)),
		})
		if err != nil {
			return err
		}

		if err := session.StartVM(ctx, vm.ID, false); err != nil {
			return err
		}

		return waitFor(vm.ID.String(), engine.VMUp)
	}
	remove = func(name string) error {
		mu.Lock()
		id := ids[name]
		mu.Unlock()
		if err := session.StopVM(ctx, engine.ID(id), true); err != nil {
			return err
		}

		if err := waitFor(id, engine.VMDown); err != nil {
			return err
		}

		return session.DeleteVM(ctx, engine.ID(id))
	}

	return create, remove
}

// forking returns functions that run one Terraform per step in each machine's folder, with the provider from a mirror.
func (j job) forking(machine render.Machine) (create, remove func(name string) error) {
	home := filepath.Join(j.Dir, "home")
	rc := filepath.Join(j.Dir, "terraformrc")
	config := fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", j.Mirror)
	failed := errors.Join(os.MkdirAll(home, 0o700), os.WriteFile(rc, []byte(config), 0o600))
	terraform := func(name string, args ...string) error {
		command := exec.Command(j.Executor, args...) //nolint:noctx // exits by itself
		command.Dir = filepath.Join(j.Dir, name)
		command.Env = []string{
			"HOME=" + home,
			"PATH=" + os.Getenv("PATH"),
			"TF_CLI_CONFIG_FILE=" + rc,
			"CHECKPOINT_DISABLE=1",
			"TF_IN_AUTOMATION=1",
		}
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("terraform %s: %w\n%s", strings.Join(args, " "), err, output)
		}

		return nil
	}
	create = func(name string) error {
		if failed != nil {
			return failed
		}

		machine := machine
		machine.Name = name
		configuration, err := render.MachineConfiguration(machine)
		if err != nil {
			return err
		}

		for file, content := range configuration.Files {
			path := filepath.Join(j.Dir, name, filepath.FromSlash(file))
			err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600))
			if err != nil {
				return err
			}
		}

		for _, args := range [][]string{
			{"init", "-input=false"},
			{"plan", "-input=false", "-out=plan"},
			{"apply", "-input=false", "plan"},
			{"output", "-json"},
		} {
			if err := terraform(name, args...); err != nil {
				return err
			}
		}

		return nil
	}
	remove = func(name string) error { return terraform(name, "apply", "-destroy", "-auto-approve", "-input=false") }

	return create, remove
}
