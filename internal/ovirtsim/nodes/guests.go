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

// Options configure the environment of guests.
type Options struct {
	// Images are the images that VMs boot. The Kubernetes version of a VM's template selects the image.
	Images []nodeimage.Image
	// Dir is the folder with the VMs' disks.
	Dir string
	// NetNS is the network namespace with the VMs' networks; "" means the namespace of this process.
	NetNS string
	// Group is the name of the parent cgroup of all VMs.
	Group string
	// Log receives the guests' messages.
	Log logr.Logger
}

// Guests are the guests of one engine.
type Guests struct {
	options Options
	ctx     context.Context
	cancel  context.CancelFunc
	// boots waits for the runs of VMs.
	boots sync.WaitGroup

	mu sync.Mutex
	// running holds the machines by VM ID, and nodes the nodes that their agents last saw. bridges holds the bridges by
	// the name of the network.
	running map[string]*machine.Machine
	// disks holds the plugged disks of running VMs, by the IDs of the VM and the disk. changed holds the wanted disks
	// of VMs whose machine does not run yet.
	disks   map[string]map[string]machine.Disk
	changed map[string][]api.GuestDisk
	nodes   map[string]*api.GuestNode
	bridges map[string]string
	// turns holds a lock for each VM, because one machine must end before the next one starts.
	turns map[string]*sync.Mutex
	// ports counts all links so far, for their names. Names are never used again, because the kernel removes links with
	// a delay.
	ports int
}

var _ api.Guest = &Guests{}

// New returns the guests of an engine. Programs must call machine.Main before.
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

// Boot runs the machine of a VM. A machine that reboots by itself finds the same drive.
func (g *Guests) Boot(ctx context.Context, vm api.GuestVM, ready func(store.AgentReport)) error {
	leave, ok := g.waitForTurn(vm.ID)
	if !ok {
		return nil
	}

	defer leave()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()

	for ctx.Err() == nil {
		config, err := g.prepareConfig(vm)
		if err != nil {
			return err
		}

		m, err := machine.Start(config)
		if err != nil {
			g.closeDisks(vm.ID)
			return err
		}

		g.setRunning(vm.ID, m)
		g.applyChangedDisks(vm.ID)
		stop := context.AfterFunc(ctx, m.CutPower) // even while the agent is busy
		g.runAgent(ctx, vm.ID, m, ready)
		stop()
		m.CutPower() // the machine may not have ended by itself
		g.unsetRunning(vm.ID)
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

// waitForTurn waits until the previous machine of a VM has ended. It returns false after Close. The returned function
// ends the turn.
func (g *Guests) waitForTurn(vmID string) (leave func(), ok bool) {
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

// setRunning records the running machine of a VM.
func (g *Guests) setRunning(vmID string, m *machine.Machine) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running[vmID] = m
}

// unsetRunning removes the record of a VM's machine.
func (g *Guests) unsetRunning(vmID string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.running, vmID)
}

// findMachine returns the running machine of a VM, or nil.
func (g *Guests) findMachine(vmID string) *machine.Machine {
	g.mu.Lock()
	defer g.mu.Unlock()

	return g.running[vmID]
}

// vmDir returns the folder of a VM.
func (g *Guests) vmDir(vmID string) string { return filepath.Join(g.options.Dir, vmID) }

// prepareConfig returns the configuration of a VM's machine. It removes what is left of the VM's former root disks.
func (g *Guests) prepareConfig(vm api.GuestVM) (machine.Config, error) {
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

	drive, err := WriteDrive(vm, filepath.Join(g.vmDir(vm.ID), "drive"))
	if err != nil {
		return machine.Config{}, err
	}

	if err := g.removeFormerDisks(vm); err != nil {
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

	nics, err := g.connectNICs(vm)

	return machine.Config{
		Name: vm.Name, ID: vm.ID,
		RootFS: image.RootFS(), Store: image.Store(),
		Disk: filepath.Join(g.vmDir(vm.ID), vm.RootDisk), Drive: drive, Before: before,
		Disks: disks,
		Group: g.options.Group + "/" + vm.ID,
		NetNS: g.options.NetNS, NICs: nics,
	}, err
}

// imageOf returns the image with the Kubernetes version of the VM's template.
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

// removeFormerDisks removes what is left of the VM's former root disks.
func (g *Guests) removeFormerDisks(vm api.GuestVM) error {
	entries, err := os.ReadDir(g.vmDir(vm.ID))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}

	for _, entry := range entries {
		if entry.Name() != vm.RootDisk && entry.Name() != "drive" {
			if err := os.RemoveAll(filepath.Join(g.vmDir(vm.ID), entry.Name())); err != nil {
				return err
			}
		}
	}

	return nil
}

// Shutdown asks systemd to end the machine.
func (g *Guests) Shutdown(vmID string) bool {
	m := g.findMachine(vmID)
	return m != nil && m.PowerOff() == nil
}

// HandleHalt does nothing, because a machine ends with the context of its run.
func (g *Guests) HandleHalt(string) {}

// HandleRemoval removes the disk of a VM after the VM's machine has ended.
func (g *Guests) HandleRemoval(vmID string) {
	go func() {
		leave, ok := g.waitForTurn(vmID)
		if !ok {
			return
		}

		defer leave()

		g.mu.Lock()
		delete(g.nodes, vmID)
		delete(g.turns, vmID) // no later VM has the same ID
		g.mu.Unlock()

		if err := os.RemoveAll(g.vmDir(vmID)); err != nil {
			g.options.Log.Error(err, "Failed to remove the disk of a VM")
		}
	}()
}

// SetNodeReady starts or stops the kubelet of a VM. A stopped kubelet does not report, so its node becomes Unknown.
func (g *Guests) SetNodeReady(vmID, status, _ string) error {
	m := g.findMachine(vmID)
	if m == nil {
		return fmt.Errorf("VM %s does not run, so its kubelet reports nothing", vmID)
	}

	command := map[string]string{"True": "start", "Unknown": "stop"}[status]
	if command == "" {
		return fmt.Errorf("the node of a machine can be made True or Unknown, not %q", status)
	}

	ctx, cancel := context.WithTimeout(g.ctx, 30*time.Second)
	defer cancel()
	_, err := m.RunCommand(ctx, "systemctl", command, "kubelet")

	return err
}

// Close cuts the power of all machines and waits until they have ended.
func (g *Guests) Close() {
	g.mu.Lock()
	g.cancel()
	g.mu.Unlock()
	g.boots.Wait()
}
