package reliability

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
)

// toBeEdited is full, with an affinity group to leave.
func toBeEdited(spec *infrav1.OLVMMachineSpec) {
	full(spec)
	spec.VirtualMachine.Placement = infrav1.Placement{AffinityGroupNames: []string{"far"}}
}

// edit changes a machine made by toBeEdited: its memory, its CPU, a data disk, a network interface, a tag, mediated
// devices and its affinity group.
func edit(spec *infrav1.OLVMMachineSpec) {
	spec.VirtualMachine.Memory = "5GB"
	spec.VirtualMachine.CPU.Topology.Sockets = 3
	spec.VirtualMachine.DataDisks = append(spec.VirtualMachine.DataDisks, infrav1.DataDisk{Name: "images", Size: "1GB"})
	spec.VirtualMachine.Tags = []string{"prod"}
	spec.VirtualMachine.Placement = infrav1.Placement{AffinityGroupNames: []string{"near"}}
	spec.VirtualMachine.MediatedDevices = []infrav1.MediatedDevice{{Type: "nvidia-63"}, {Type: "nvidia-63"}}
	spec.AdditionalNetworks = append(spec.AdditionalNetworks, infrav1.AdditionalNetwork{
		OLVMNetwork: infrav1.OLVMNetwork{NetworkName: "ovirtmgmt", VNICProfileName: "ovirtmgmt", VNICName: "backup"},
	})
}

// hardware describes a VM by the fields that edit changes.
type hardware struct {
	memory, sockets                     int64
	nics, disks, tags, mdevs, near, far int
}

// before and after are the hardware of a machine made by toBeEdited, and of the same machine after edit.
var (
	before = hardware{memory: 4 << 30, sockets: 2, nics: 2, disks: 2, far: 1}
	after  = hardware{memory: 5 << 30, sockets: 3, nics: 3, disks: 3, tags: 1, mdevs: 2, near: 1}
)

// hardwareOf returns the hardware of the engine's only VM. It counts all disks, even those without a VM.
func (b *bench) hardwareOf(s *testsite.Site) (hardware, error) {
	ctx, session := context.Background(), s.NewSession()
	vms := s.Sim.ListVMs()
	if len(vms) != 1 {
		return hardware{}, fmt.Errorf("the engine has %d VMs", len(vms))
	}

	id := engine.ID(vms[0].ID)
	settings, err := session.FetchVMSettings(ctx, id)
	if err != nil {
		return hardware{}, err
	}

	nics, nicErr := session.ListNICs(ctx, id)
	tags, tagErr := session.ListVMTags(ctx, id)
	devices, deviceErr := session.ListMediatedDevices(ctx, id)

	// An engine reduces memory and sockets of a VM at its next start.
	return hardware{
		memory: ptr.Deref(settings.Next.Memory, 0), sockets: settings.Next.CPU.Topology.Sockets,
		nics: len(nics), disks: s.Sim.Summarize().Disks, tags: len(tags), mdevs: len(devices),
		near: memberships(s, "near"), far: memberships(s, "far"),
	}, errors.Join(nicErr, tagErr, deviceErr)
}

// memberships counts the VMs in an affinity group.
func memberships(s *testsite.Site, name string) (count int) {
	for _, dc := range s.Sim.DescribeSite().DataCenters {
		for _, c := range dc.Clusters {
			for _, group := range c.AffinityGroups {
				if strings.Contains(group.Name, "_"+name+"_") {
					count += len(group.VMs)
				}
			}
		}
	}

	return count
}

// editedGroups requests the groups of toBeEdited and edit.
func editedGroups(c *infrav1.OLVMCluster) {
	c.Spec.AffinityGroups = []infrav1.AffinityGroup{{Name: "near", Positive: true}, {Name: "far"}}
}

// change applies a change to the spec of a machine.
func (b *bench) change(s *testsite.Site, m *infrav1.OLVMMachine, apply func(*infrav1.OLVMMachineSpec)) {
	s.T.Helper()
	s.Eventually("the machine is changed", func() error {
		if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}

		apply(&m.Spec)

		return s.Client.Update(context.Background(), m)
	})
}

// whatIs returns the result for a machine, and its hardware. The result is "applied" or the reason of the machine's
// UpToDate condition. During a run, or if the condition belongs to an earlier spec, it returns an error.
func (b *bench) whatIs(s *testsite.Site, m *infrav1.OLVMMachine) (string, hardware, error) {
	if err := s.Client.Get(context.Background(), client.ObjectKeyFromObject(m), m); err != nil {
		return "", hardware{}, err
	}

	applied := conditions.Get(m, infrav1.UpToDateCondition)
	if applied == nil || applied.ObservedGeneration != m.Generation || len(b.ListExecutors()) > 0 {
		return "", hardware{}, errors.New("it is not known yet")
	}

	store := &tfstate.Store{Client: s.Client, Reader: s.Client}
	state, err := store.Load(context.Background(), m)
	if err != nil {
		return "", hardware{}, err
	}

	has, err := b.hardwareOf(s)
	if applied.Status != "True" {
		return applied.Reason, has, err
	}

	if state.AppliedDigest == "" || state.ChangingFrom != "" {
		return "", has, fmt.Errorf("the state is marked %q, %q", state.AppliedDigest, state.ChangingFrom)
	}

	return "applied", has, err
}

// expectHardware waits until a machine has one of several results with the matching hardware.
func (b *bench) expectHardware(s *testsite.Site, m *infrav1.OLVMMachine, results map[string]hardware) {
	s.T.Helper()
	s.Eventually("the machine is as it is asked for", func() error {
		what, has, err := b.whatIs(s, m)
		if err != nil {
			return err
		}

		want, ok := results[what]
		if what == infrav1.ReplaceRefusedReason {
			has.near = want.near // the VM joins a group once the cluster has made it, perhaps too late
		}

		if !ok || has != want {
			return fmt.Errorf("it is %s with %+v, and should be one of %+v", what, has, results)
		}

		return nil
	})
}

// ignoreCalls makes all gates let calls pass without counting them. With false, it ends this.
func (b *bench) ignoreCalls(resting bool) {
	for _, g := range b.gates() {
		g.rest(resting)
	}
}

// editedLife makes a machine, edits it, takes the finished edit back, and deletes the machine. Faults hit the edit.
func (b *bench) editedLife(t *testing.T, name string) { b.editLife(t, name, false) }

// undoneLife is like editedLife, but reverts the edit after the fault.
func (b *bench) undoneLife(t *testing.T, name string) { b.editLife(t, name, true) }

func (b *bench) editLife(t *testing.T, name string, undo bool) {
	t.Helper()
	s := b.site.ForSubtest(t)
	b.ignoreCalls(true)
	m := s.CreateMachine(name, toBeEdited)
	b.expectReady(s, m)
	b.expectHardware(s, m, map[string]hardware{"applied": before})
	original := m.Spec.DeepCopy()

	b.ignoreCalls(false)
	b.change(s, m, edit)
	if sprung := b.sprung(); undo && sprung != nil {
		select {
		case <-sprung:
		case <-time.After(time.Minute):
			t.Error("the edit had no such call")
		}

		b.takeBack(s, m, original)
		// A fully applied change outlasts its reversal: machines are immutable. Added memory leaves the VM at its next
		// start.
		b.expectHardware(s, m, map[string]hardware{
			"applied": before, infrav1.WaitingForRestartReason: before, infrav1.ReplaceRefusedReason: after,
		})
	} else {
		b.expectHardware(s, m, map[string]hardware{"applied": after})
	}

	b.ignoreCalls(true)

	if !undo && !testing.Short() { // the edit is done: its reversal would delete a disk
		b.takeBack(s, m, original)
		b.expectHardware(s, m, map[string]hardware{infrav1.ReplaceRefusedReason: after})
	}

	s.Delete(m)
	s.ExpectGone(m)
	b.expectNone(s)
}

// takeBack restores the spec of a machine.
func (b *bench) takeBack(s *testsite.Site, m *infrav1.OLVMMachine, original *infrav1.OLVMMachineSpec) {
	s.T.Helper()
	b.change(s, m, func(spec *infrav1.OLVMMachineSpec) {
		provider := spec.ProviderID
		*spec = *original.DeepCopy()
		spec.ProviderID = provider
	})
}

// sprung returns a channel, closed once the trap of the case has acted. It is nil in a life without a trap.
func (b *bench) sprung() <-chan struct{} {
	for _, g := range b.gates() {
		if sprung := g.sprung(); sprung != nil {
			return sprung
		}
	}

	return nil
}

// editBench returns a bench whose hosts have mediated devices.
func editBench(t *testing.T, live func(*bench) func(*testing.T, string)) *bench {
	t.Helper()
	b := newColdBenchIn(t, editInventory(), editedGroups)
	b.live = live(b)
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}

	return b
}

// editInventory returns an inventory with mediated devices and a tag.
func editInventory() ovirtsim.Inventory {
	inventory := ovirtsim.DefaultInventory()

	for c := range inventory.DataCenters[0].Clusters {
		for h := range inventory.DataCenters[0].Clusters[c].Hosts {
			inventory.DataCenters[0].Clusters[c].Hosts[h].MediatedDeviceTypes = []string{"nvidia-63"}
		}
	}

	inventory.Tags = append(inventory.Tags, "prod")

	return inventory
}

// duringEdits selects those calls of an edit that change parts of the machine.
func duringEdits(c call) bool {
	return !strings.HasPrefix(c.name, "GET ") && !strings.Contains(c.name, "olvmclusters") &&
		!slices.Contains([]string{"PATCH configmaps"}, c.name) && !strings.Contains(c.name, "/sso")
}

// TestCrashMatrixOfAnEdit interrupts each call of an edit. It kills the manager, only Terraform, or only the provider,
// or cuts the connection. Afterwards, the edit must be complete and without duplicates.
func TestCrashMatrixOfAnEdit(t *testing.T) {
	crashMatrix(t, func(t *testing.T) *bench {
		t.Helper()
		return editBench(t, func(b *bench) func(*testing.T, string) { return b.editedLife })
	}, duringEdits)
}

// TestCrashMatrixOfAnEditThatIsTakenBack does the same, and then reverts the edit. Nothing of the edit may be left.
func TestCrashMatrixOfAnEditThatIsTakenBack(t *testing.T) {
	testenv.SkipInShort(t, "repeats the calls of TestCrashMatrixOfAnEdit")
	crashMatrix(t, func(t *testing.T) *bench {
		t.Helper()
		return editBench(t, func(b *bench) func(*testing.T, string) { return b.undoneLife })
	}, duringEdits)
}
