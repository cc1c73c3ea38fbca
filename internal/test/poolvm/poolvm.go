// Package poolvm creates VMs of a pool as an outside administrator does, and the OLVMInventory that lists them.
package poolvm

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// Tag is the tag of the pools in most tests.
const Tag = "pool"

// CreateVM creates a VM from the template ol9-k8s in the default site of the simulator. The VM has one network
// interface. CreateVM tags the VM as soon as a claim is possible. If address is not empty, it configures the guest with
// this address.
func CreateVM(t testing.TB, session *engine.Client, tag, name, address string) engine.ID {
	t.Helper()
	ctx := t.Context()
	dc, err := session.FindDataCenter(ctx, "Default")
	check.Error(t, err, "")
	cluster, err := session.FindCluster(ctx, dc, "Default")
	check.Error(t, err, "")
	template, err := session.FindTemplate(ctx, dc, "ol9-k8s")
	check.Error(t, err, "")
	network, err := session.FindNetwork(ctx, dc, "kvm-vlan")
	check.Error(t, err, "")
	profile, err := session.FindDefaultVNICProfile(ctx, network)
	check.Error(t, err, "")

	vm, err := session.CreateVM(ctx, &engine.VM{
		Name: name, Cluster: engine.NewRef(cluster.ID), Template: engine.NewRef(template.ID),
		Initialization: guestNetwork(address),
	}, nil)
	check.Error(t, err, "")
	wait.For(t, "the disks of VM "+name+" are made", func() error {
		now, err := session.FetchVM(ctx, vm.ID)
		if err == nil && now.Status != engine.VMDown {
			err = fmt.Errorf("the VM is %s", now.Status)
		}

		return err
	})
	_, err = session.CreateNIC(ctx, vm.ID, &engine.NIC{Name: "nic1", VNICProfile: engine.NewRef(profile.ID)})
	check.Error(t, err, "")
	check.Error(t, session.TagVM(ctx, vm.ID, ensureTag(t, session, tag)), "")

	return vm.ID
}

// guestNetwork returns the network configuration of a guest, or nil without an address.
func guestNetwork(address string) *engine.Initialization {
	if address == "" {
		return nil
	}

	return &engine.Initialization{NICs: &engine.NICConfigurations{Items: []engine.NICConfiguration{{
		Name: "enp1s0", OnBoot: true, BootProtocol: "static",
		IP: &engine.IP{Address: address, Netmask: "255.255.255.0", Gateway: "10.0.0.1"},
	}}}}
}

// ensureTag returns the ID of the tag with a name, and creates a missing tag.
func ensureTag(t testing.TB, session *engine.Client, name string) engine.ID {
	t.Helper()
	there, err := session.ListTagsNamed(t.Context(), name)
	check.Error(t, err, "")

	if len(there) > 0 {
		return there[0].ID
	}

	made, err := session.CreateTag(t.Context(), &engine.Tag{Name: name})
	check.Error(t, err, "")

	return made.ID
}

// NewInventory returns an inventory of the VMs with Tag, for the engine and the namespace of a cluster.
func NewInventory(cluster *infrav1.OLVMCluster, name string) *infrav1alpha1.OLVMInventory {
	return &infrav1alpha1.OLVMInventory{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: name},
		Spec: infrav1alpha1.OLVMInventorySpec{
			OLVMDatacenterName: "Default",
			OLVMOvirtAPIServer: cluster.Spec.OLVMOvirtAPIServer,
			VirtualMachines:    infrav1alpha1.InventoryVMs{Tag: Tag},
		},
	}
}
