package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/nodeimage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

// Options say where guests run.
type Options struct {
	// Images that VMs boot from: that of the version of Kubernetes which their template has.
	Images []nodeimage.Image
	// Dir has the disks of VMs.
	Dir string
	// NetNS is the network namespace with the networks of VMs, by its name; empty for that of this process.
	NetNS string
	// Group is the name of the cgroup that the VMs' are in.
	Group string
	// Log gets what guests do.
	Log logr.Logger
}

// Guests are those of one engine.
type Guests struct {
	options Options
	ctx     context.Context
	cancel  context.CancelFunc
	// boots are the runs of VMs.
	boots sync.WaitGroup

	mu sync.Mutex
	// running are the machines by the IDs of VMs, nodes what they were when their agents last looked, and bridges the
	// networks' by their names.
	running map[string]*machine.Machine
	// disks are those that are plugged into VMs that run, by the IDs of both, and changed those that VMs shall have
	// whose machines do not run yet.
	disks   map[string]map[string]machine.Disk
	changed map[string][]api.GuestDisk
	nodes   map[string]*api.GuestNode
	bridges map[string]string
	// turns are held by the VMs whose machines run: one is gone before the next begins.
	turns map[string]*sync.Mutex
	// ports is how many links there have been: a name is not used twice, for the kernel removes links late.
	ports int
}

var _ api.Guest = &Guests{}

// New returns the guests of an engine. machine.Main has been called before.
func New(options Options) *Guests {
	g := &Guests{
		options: options,
		running: map[string]*machine.Machine{},
		disks:   map[string]map[string]machine.Disk{},
		changed: map[string][]api.GuestDisk{},
		nodes:   map[string]*api.GuestNode{},
		bridges: map[string]string{},
		turns:   map[string]*sync.Mutex{},
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())

	return g
}

// Boot runs the machine of a VM. A machine that starts itself again finds the same drive.
func (g *Guests) Boot(ctx context.Context, vm api.GuestVM, ready func(store.AgentReport)) error {
	leave, ok := g.enter(vm.ID)
	if !ok {
		return nil
	}

	defer leave()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()

	for ctx.Err() == nil {
		config, err := g.configOf(vm)
		if err != nil {
			return err
		}

		m, err := machine.Start(config)
		if err != nil {
			g.closeDisks(vm.ID)
			return err
		}

		g.set(vm.ID, m)
		g.plugChanged(vm.ID)
		stop := context.AfterFunc(ctx, m.Cut) // whatever the agent does
		g.agent(ctx, vm.ID, m, ready)
		stop()
		m.Cut() // where it has not ended by itself
		g.unset(vm.ID)
		g.closeDisks(vm.ID)
		g.options.Log.Info("A machine has ended", "vm", vm.Name, "how", m.How())

		switch {
		case ctx.Err() != nil:
			return nil
		case m.How() == machine.PoweredOff:
			return api.ErrPoweredOff
		case m.How() == machine.Cut:
			return api.ErrCrashed
		}
	}

	return nil
}

// enter waits for the turn of a VM, until its last machine is gone; false after Close. The returned function leaves.
func (g *Guests) enter(vmID string) (leave func(), ok bool) {
	g.mu.Lock()
	if g.ctx.Err() != nil {
		g.mu.Unlock()
		return nil, false
	}

	g.boots.Add(1)

	turn := g.turns[vmID]
	if turn == nil {
		turn = &sync.Mutex{}
		g.turns[vmID] = turn
	}

	g.mu.Unlock()

	turn.Lock()

	return func() {
		turn.Unlock()
		g.boots.Done()
	}, true
}

// set notes the machine of a VM.
func (g *Guests) set(vmID string, m *machine.Machine) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running[vmID] = m
}

// unset notes that it has ended.
func (g *Guests) unset(vmID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.running, vmID)
}

// machine is that of a VM; nil while it does not run.
func (g *Guests) machine(vmID string) *machine.Machine {
	g.mu.Lock()
	defer g.mu.Unlock()

	return g.running[vmID]
}

// dir is the folder of a VM.
func (g *Guests) dir(vmID string) string { return filepath.Join(g.options.Dir, vmID) }

// configOf is what the machine of a VM is made of. Disks that the VM has no longer are removed.
func (g *Guests) configOf(vm api.GuestVM) (machine.Config, error) {
	image, err := g.imageOf(vm)
	if err != nil {
		return machine.Config{}, err
	}

	if vm.Ignition && !image.Ignition {
		return machine.Config{}, errors.New("the image has no Ignition: install libblkid-dev and a C compiler, and " +
			"run make node-image again, or use a template with cloud-init")
	}

	if vm.RootDisk == "" {
		return machine.Config{}, errors.New("no bootable device")
	}

	drive, err := WriteDrive(vm, filepath.Join(g.dir(vm.ID), "drive"))
	if err != nil {
		return machine.Config{}, err
	}

	if err := g.keepOnly(vm); err != nil {
		return machine.Config{}, err
	}

	before := ""
	if vm.Ignition && drive != "" {
		before = "/usr/local/bin/ignition-first-boot"
	}

	disks, err := g.openDisks(vm)
	if err != nil {
		return machine.Config{}, err
	}

	nics, err := g.connect(vm)

	return machine.Config{
		Name: vm.Name, ID: vm.ID,
		RootFS: image.RootFS(), Store: image.Store(),
		Disk: filepath.Join(g.dir(vm.ID), vm.RootDisk), Drive: drive, Before: before,
		Disks: disks,
		Group: g.options.Group + "/" + vm.ID,
		NetNS: g.options.NetNS, NICs: nics,
	}, err
}

// imageOf is the image of the Kubernetes that the VM's template has.
func (g *Guests) imageOf(vm api.GuestVM) (nodeimage.Image, error) {
	var known []string

	for _, image := range g.options.Images {
		if image.Kubernetes == vm.KubernetesVersion {
			return image, nil
		}

		known = append(known, image.Kubernetes)
	}

	return nodeimage.Image{}, fmt.Errorf("no image of a node has Kubernetes %q, which the template of VM %s names; "+
		"there are: %s", vm.KubernetesVersion, vm.Name, strings.Join(known, ", "))
}

// keepOnly removes the disks that the VM had before.
func (g *Guests) keepOnly(vm api.GuestVM) error {
	entries, err := os.ReadDir(g.dir(vm.ID))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}

	for _, entry := range entries {
		if entry.Name() != vm.RootDisk && entry.Name() != "drive" {
			if err := os.RemoveAll(filepath.Join(g.dir(vm.ID), entry.Name())); err != nil {
				return err
			}
		}
	}

	return nil
}

// Shutdown asks systemd to end the machine.
func (g *Guests) Shutdown(vmID string) bool {
	m := g.machine(vmID)
	return m != nil && m.PowerOff() == nil
}

// Halted has nothing to do: a machine ends with the context of its run.
func (g *Guests) Halted(string) {}

// Removed removes the disk of a VM, once its machine has ended.
func (g *Guests) Removed(vmID string) {
	go func() {
		leave, ok := g.enter(vmID)
		if !ok {
			return
		}

		defer leave()

		g.mu.Lock()
		delete(g.nodes, vmID)
		delete(g.turns, vmID) // no VM has this ID again
		g.mu.Unlock()

		if err := os.RemoveAll(g.dir(vmID)); err != nil {
			g.options.Log.Error(err, "Failed to remove the disk of a VM")
		}
	}()
}

// SetNodeReady starts or stops the kubelet of a VM: one that is stopped reports nothing, and its node becomes Unknown.
func (g *Guests) SetNodeReady(vmID, status, _ string) error {
	m := g.machine(vmID)
	if m == nil {
		return fmt.Errorf("VM %s does not run, so its kubelet reports nothing", vmID)
	}

	command := map[string]string{"True": "start", "Unknown": "stop"}[status]
	if command == "" {
		return fmt.Errorf("the node of a machine can be made True or Unknown, not %q", status)
	}

	ctx, cancel := context.WithTimeout(g.ctx, 30*time.Second)
	defer cancel()
	_, err := m.Run(ctx, "systemctl", command, "kubelet")

	return err
}

// Close cuts the power of all machines, and waits for their end.
func (g *Guests) Close() {
	g.mu.Lock()
	g.cancel()
	g.mu.Unlock()
	g.boots.Wait()
}
