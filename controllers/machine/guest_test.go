package machine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// agent is a guest that only reports addresses.
type agent ovirtsim.AgentReport

func (a agent) Boot(ctx context.Context, _ ovirtsim.GuestVM, ready func(ovirtsim.AgentReport)) error {
	ready(ovirtsim.AgentReport(a))
	<-ctx.Done()

	return nil
}

func (agent) Shutdown(string) bool                      { return true }
func (agent) HandleHalt(string)                         {}
func (agent) HandleRemoval(string)                      {}
func (agent) SetDisks(string, []ovirtsim.GuestDisk)     {}
func (agent) HandleDiskRemoval(string)                  {}
func (agent) Node(string) (ovirtsim.GuestNode, bool)    { return ovirtsim.GuestNode{}, false }
func (agent) SetNodeReady(string, string, string) error { return nil }
func (agent) Close()                                    {}

// dynamicNIC returns a network interface with an IPv4 address from DHCP.
func dynamicNIC(name, device string) addressing.NIC {
	return addressing.NIC{
		OLVMNetwork: infrav1.OLVMNetwork{VNICName: name}, Guest: &addressing.GuestNIC{Interface: device, DHCPv4: true},
	}
}

// at returns the time this long ago, in the engine's format.
func at(ago time.Duration) string { return time.Now().Add(-ago).Format(time.RFC3339) }

// TestReconcileGuest covers when to request a guest's addresses, and when to repeat the request.
func TestReconcileGuest(t *testing.T) {
	static := addressing.NIC{OLVMNetwork: infrav1.OLVMNetwork{VNICName: "nic0"}, Guest: &addressing.GuestNIC{}}
	one, two := dynamicNIC("nic1", "enp1s0"), dynamicNIC("nic2", "enp2s0")
	up := func(started string) *engine.VM { return &engine.VM{ID: vmID, Status: engine.VMUp, StartTime: started} }
	fresh, settled := at(time.Second), at(guestSettlePeriod+time.Minute)

	for name, tt := range map[string]struct {
		vm    *engine.VM
		nics  []addressing.NIC
		alone bool // only this guest was requested, not those of all VMs
		asked bool
		after time.Duration
	}{
		"there is no VM": {vm: nil, nics: []addressing.NIC{one}},
		"the VM is not up": {
			vm: &engine.VM{ID: vmID, Status: engine.VMPoweringUp}, nics: []addressing.NIC{one},
		},
		"all addresses were given to it": {vm: up(fresh), nics: []addressing.NIC{static}},
		"it has booted, and says all": {
			vm: up(fresh), nics: []addressing.NIC{static, one}, alone: true, asked: true, after: steadyInterval,
		},
		"it has booted, and one address is missing": {
			vm: up(fresh), nics: []addressing.NIC{one, two}, alone: true, asked: true, after: bootingInterval,
		},
		"it runs for long, and one address is missing": {
			vm: up(settled), nics: []addressing.NIC{one, two}, asked: true, after: steadyInterval,
		},
		"it runs for long, and a lease may change": {
			vm: up(settled), nics: []addressing.NIC{one}, asked: true, after: steadyInterval,
		},
		"nobody knows for how long it runs": {
			vm: up(""), nics: []addressing.NIC{two}, asked: true, after: steadyInterval,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := withGuest(t, "10.0.0.77")
			scope := b.connected()
			scope.vm.current, scope.network.nics = tt.vm, tt.nics
			before := len(b.sim.ListRequests())
			after, err := b.r.reconcileGuest(t.Context(), scope)
			check.Error(t, errors.Join(err, scope.vm.err), "")
			check.Equal(t, "asked", scope.guest.asked, tt.asked)

			if tt.after == steadyInterval {
				within(t, "when to look again", after, steadyInterval)
			} else {
				check.Equal(t, "when to look again", after, tt.after)
			}

			alone := slices.ContainsFunc(b.sim.ListRequests()[before:], func(r ovirtsim.Request) bool {
				return strings.HasSuffix(r.Path, "/reporteddevices")
			})
			check.Equal(t, "it alone was asked", alone, tt.alone)

			if tt.asked {
				check.Equal(t, "what it says", joined(scope.guest.interfaces[0].IPv4), "10.0.0.77")
			} else {
				check.Length(t, "requests", b.sim.ListRequests()[before:], 0)
			}
		})
	}
}

// withGuest returns a bench with a VM. Its guest has reported this address of enp1s0.
func withGuest(t *testing.T, address string) *bench {
	t.Helper()
	inventory := ovirtsim.DefaultInventory()
	vm := ownVM(true)
	vm.Cluster, vm.Template = "Default", "ol9-k8s"
	inventory.DataCenters[0].VMs = []ovirtsim.VM{vm}
	guest := agent{Interfaces: []ovirtsim.ReportedInterface{{Name: "enp1s0", Addresses: []string{address}}}}
	b := withOptions(t, ovirtsim.Options{Inventory: inventory, Guest: guest}, (*objects).hasVM)
	b.eventually("the guest reports", func() bool {
		found, err := b.session.ListGuestInterfaces(t.Context(), vmID)
		check.Error(t, err, "")

		return len(found) > 0
	})

	return b
}

func TestAnEngineThatDoesNotAnswerForAGuest(t *testing.T) {
	for name, started := range map[string]string{"that has booted": at(time.Second),
		"that runs for long": at(time.Hour)} {
		b := withGuest(t, "10.0.0.77")
		check.Error(t, b.sim.Inject(ovirtsim.Fault{Path: "/api/vms", Status: 503}), "")
		scope := b.connected()
		scope.vm.current = &engine.VM{ID: vmID, Status: engine.VMUp, StartTime: started}
		scope.network.nics = []addressing.NIC{dynamicNIC("nic1", "enp1s0")}
		after, err := b.r.reconcileGuest(t.Context(), scope)
		check.Error(t, err, "")
		check.Equal(t, name+": when to look again", after, engineRetry)
		check.Equal(t, name+": asked", scope.guest.asked, false)
		check.Error(t, scope.vm.err, "failed to list the addresses")
	}
}
