package tfprovider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfprovider"
)

// quick has the timings for tests that do not depend on the time between two statuses.
var quick = ovirtsim.Timings{
	Clone:     50 * time.Millisecond,
	Launch:    20 * time.Millisecond,
	PowerUp:   50 * time.Millisecond,
	PowerDown: 20 * time.Millisecond,
}

// site is an engine, and the names of its initial objects.
type site struct {
	sim    *ovirtsim.Server
	client *engine.Client
	// ids replace the variables of configurations: $cluster, $template, $profile, $storage, $block.
	ids map[string]string
}

func newSite(t *testing.T, timings ovirtsim.Timings) *site {
	t.Helper()

	return newSiteWith(t, ovirtsim.Options{Timings: timings})
}

// newHeldSite returns a site whose engine needs no time for its operations. While holds returns true, no operation
// advances.
func newHeldSite(t *testing.T, holds func(*site) bool) *site {
	t.Helper()
	clock := ovirtsim.NewManualClock()
	s := newSiteWith(t, ovirtsim.Options{Timings: quick, Clock: clock})
	go func() {
		for ; t.Context().Err() == nil; time.Sleep(time.Millisecond) {
			if !holds(s) {
				clock.Step()
			}
		}
	}()

	return s
}

func newSiteWith(t *testing.T, options ovirtsim.Options, edits ...func(*ovirtsim.Inventory)) *site {
	t.Helper()

	inventory := ovirtsim.DefaultInventory()
	for _, edit := range edits {
		edit(&inventory)
	}

	storages := &inventory.DataCenters[0].StorageDomains
	*storages = append(*storages, ovirtsim.StorageDomain{Name: "block", Type: "iscsi"})

	for i := range inventory.DataCenters[0].Clusters[0].Hosts {
		host := &inventory.DataCenters[0].Clusters[0].Hosts[i]
		host.Devices, host.MediatedDeviceTypes = []string{"pci_0000_3b_00_0"}, []string{"nvidia-63"}
	}

	inventory.DataCenters = append(inventory.DataCenters, options.Inventory.DataCenters...)
	options.Inventory = inventory
	sim, err := ovirtsim.New(options)
	must(t, err)
	t.Cleanup(sim.Close)
	client, err := engine.New(engine.Config{
		URL:      sim.URL(),
		Username: sim.Username(),
		Password: sim.Password(),
		CA:       sim.CA(),
	})
	must(t, err)
	ctx := t.Context()
	dc, err := client.FindDataCenter(ctx, "Default")
	must(t, err)
	cluster, err := client.FindCluster(ctx, dc, "Default")
	must(t, err)
	template, err := client.FindTemplate(ctx, dc, "ol9-k8s")
	must(t, err)
	network, err := client.FindNetwork(ctx, dc, "kvm-vlan")
	must(t, err)
	profile, err := client.FindVNICProfile(ctx, network, "kvm-vlan")
	must(t, err)
	storage, err := client.FindStorageDomain(ctx, dc, "olvm-data")
	must(t, err)
	block, err := client.FindStorageDomain(ctx, dc, "block")
	must(t, err)

	return &site{
		sim:    sim,
		client: client,
		ids: map[string]string{
			"$cluster":  cluster.ID.String(),
			"$template": template.ID.String(),
			"$profile":  profile.ID.String(),
			"$storage":  storage.ID.String(),
			"$block":    block.ID.String(),
		},
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// vm returns the only VM with this name.
func (s *site) vm(t *testing.T, name string) *engine.VM {
	t.Helper()
	vms, err := s.client.FindVMs(t.Context(), nil, name)
	must(t, err)
	if len(vms) != 1 {
		t.Fatalf("the engine has %d VMs named %s", len(vms), name)
	}

	return &vms[0]
}

// deleteVM deletes a VM as soon as the engine allows it.
func (s *site) deleteVM(t *testing.T, id engine.ID) {
	t.Helper()
	wait.For(t, "the VM is deleted", func() error { return s.client.DeleteVM(t.Context(), id) })
}

// count counts the requests with this method and this end of the path.
func (s *site) count(method, suffix string) int {
	n := 0

	for _, r := range s.sim.ListRequests() {
		if r.Method == method && strings.HasSuffix(r.Path, suffix) {
			n++
		}
	}

	return n
}

// workspace is a configuration and its state. A real executor runs it against the provider in this process.
type workspace struct {
	t       *testing.T
	site    *site
	dir     string
	options tfprovider.Options
	// url and ca are those of the engine or of a proxy.
	url string
	ca  []byte
}

func newWorkspace(t *testing.T, s *site) *workspace {
	t.Helper()
	return &workspace{t: t, site: s, dir: t.TempDir(), url: s.sim.URL() + "/api/", ca: s.sim.CA()}
}

// config writes the resources into the configuration.
func (w *workspace) config(resources string) *workspace {
	w.t.Helper()

	for name, id := range w.site.ids {
		resources = strings.ReplaceAll(resources, name, id)
	}

	header := fmt.Sprintf(`terraform {
  required_providers {
    ovirt = {
      source = "registry.terraform.io/ovirt/ovirt"
    }
  }
}
provider "ovirt" {
  url           = %q
  username      = %q
  password      = %q
  tls_ca_bundle = %q
}
`, w.url, w.site.sim.Username(), w.site.sim.Password(), w.ca)
	must(w.t, os.WriteFile(filepath.Join(w.dir, "main.tf"), []byte(header+resources), 0o600))

	return w
}

// command prepares a run. The caller must call end after the run.
func (w *workspace) command(ctx context.Context, args ...string) (command *exec.Cmd, end func()) {
	w.t.Helper()
	endpoint, err := tfprovider.Serve(ctx, w.options)
	must(w.t, err)
	c := endpoint.Config
	attach, err := json.Marshal(map[string]any{tfprovider.Address: map[string]any{
		"Protocol": string(c.Protocol), "ProtocolVersion": c.ProtocolVersion, "Pid": c.Pid, "Test": c.Test,
		"Addr": map[string]string{"Network": c.Addr.Network(), "String": c.Addr.String()},
	}})
	must(w.t, err)
	command = exec.CommandContext(ctx, testenv.FindExecutable(w.t).Path, args...)
	command.Dir = w.dir
	command.Env = []string{
		"PATH=" + os.Getenv(
			"PATH",
		),
		"HOME=" + w.dir,
		"TF_CLI_CONFIG_FILE=" + os.DevNull,
		"CHECKPOINT_DISABLE=1",
		"TF_IN_AUTOMATION=1",
		"GOGC=off",
		"GOMEMLIMIT=512MiB",
		"GOMAXPROCS=1", // as in a run of the manager
		"TF_REATTACH_PROVIDERS=" + string(attach),
	}

	return command, endpoint.Close
}

// run runs the executor, and returns its output and exit status.
func (w *workspace) run(args ...string) (output string, exit int) {
	w.t.Helper()
	command, end := w.command(w.t.Context(), args...)
	defer end()
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		w.t.Fatal(err)
	}

	return out.String(), command.ProcessState.ExitCode()
}

func (w *workspace) succeed(args ...string) string {
	w.t.Helper()
	output, exit := w.run(args...)
	if exit != 0 {
		w.t.Fatalf("%s ended with %d:\n%s", strings.Join(args, " "), exit, output)
	}

	return output
}

func (w *workspace) apply() string {
	w.t.Helper()
	return w.succeed("apply", "-auto-approve", "-no-color", "-input=false")
}

func (w *workspace) destroy() string {
	w.t.Helper()
	return w.succeed("destroy", "-auto-approve", "-no-color", "-input=false")
}

func (w *workspace) importID(address, id string) {
	w.t.Helper()
	w.succeed("import", "-no-color", "-input=false", address, id)
}

// fail applies the configuration, expects an error, and returns the executor's output as one line.
func (w *workspace) fail() string {
	w.t.Helper()
	output, exit := w.run("apply", "-auto-approve", "-no-color", "-input=false")
	if exit == 0 {
		w.t.Fatalf("apply succeeded:\n%s", output)
	}

	return unwrapped(output)
}

// unwrapped returns the executor's messages as one line. The executor wraps and frames them for the terminal.
func unwrapped(output string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", "", "╷", "", "╵", "").Replace(output)), " ")
}

// settled fails the test unless a plan is empty.
func (w *workspace) settled() {
	w.t.Helper()
	if output, exit := w.run("plan", "-detailed-exitcode", "-no-color", "-input=false"); exit != 0 {
		w.t.Fatalf("the plan is not empty (%d):\n%s", exit, output)
	}
}

// plans returns the actions of a plan by address.
func (w *workspace) plans() map[string]string {
	w.t.Helper()
	out := map[string]string{}

	for line := range strings.Lines(w.succeed("plan", "-json", "-input=false")) {
		var message struct {
			Type   string
			Change struct {
				Resource struct{ Addr string }
				Action   string
			}
		}
		if json.Unmarshal([]byte(line), &message) != nil || message.Type != "planned_change" {
			continue
		}

		switch action := message.Change.Action; action {
		case "noop", "read", "import", "move":
		case "replace":
			out[message.Change.Resource.Addr] = "delete+create"
		default:
			out[message.Change.Resource.Addr] = action
		}
	}

	return out
}

// wants fails the test unless the plan consists of exactly these pairs of address and action.
func (w *workspace) wants(pairs ...string) {
	w.t.Helper()

	got := w.plans()
	for i := 0; i+1 < len(pairs); i += 2 {
		if got[pairs[i]] != pairs[i+1] {
			w.t.Errorf("the plan for %s is %q, want %s", pairs[i], got[pairs[i]], pairs[i+1])
		}

		delete(got, pairs[i])
	}

	if len(got) > 0 {
		w.t.Errorf("the plan also has %v", got)
	}
}

// value returns an attribute of a resource in the state.
func (w *workspace) value(address, attribute string) any {
	w.t.Helper()
	content, err := os.ReadFile(filepath.Join(w.dir, "terraform.tfstate"))
	must(w.t, err)
	var state struct {
		Resources []struct {
			Mode, Type, Name string
			Instances        []struct{ Attributes map[string]any }
		}
	}
	must(w.t, json.Unmarshal(content, &state))

	for _, r := range state.Resources {
		name := r.Type + "." + r.Name
		if r.Mode == "data" {
			name = "data." + name
		}

		if name == address && len(r.Instances) == 1 {
			return r.Instances[0].Attributes[attribute]
		}
	}

	return nil
}

func (w *workspace) text(address, attribute string) string {
	w.t.Helper()
	text, _ := w.value(address, attribute).(string)
	return text
}

// forget deletes the state, as if it were lost.
func (w *workspace) forget() {
	w.t.Helper()

	for _, name := range []string{"terraform.tfstate", "terraform.tfstate.backup"} {
		if err := os.Remove(filepath.Join(w.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			w.t.Fatal(err)
		}
	}
}

// interruptWhen applies the configuration, and interrupts the executor once the condition holds. It returns the
// output.
func (w *workspace) interruptWhen(condition func() bool) string {
	w.t.Helper()
	command, end := w.command(w.t.Context(), "apply", "-auto-approve", "-no-color", "-input=false")
	defer end()
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	must(w.t, command.Start())
	wait.Until(w.t, "it is time for the interrupt", condition)
	must(w.t, command.Process.Signal(syscall.SIGINT))
	if err := command.Wait(); err == nil {
		w.t.Fatalf("the interrupted apply succeeded:\n%s", out.String())
	}

	return out.String()
}
