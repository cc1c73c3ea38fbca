package inventory

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// IsAssignedToClaim reports whether the engine assigns a VM to a claim. This is the case if the VM's tag has the ID of
// the claim. If a user has removed the tag, the owner mark in the comment decides. An unreadable tag is an error.
func IsAssignedToClaim(vm engine.DescribedVM, namespace string, claim infrav1alpha1.InventoryClaim) (bool, error) {
	if mark, tagged := GetMark(vm); tagged {
		if !mark.IsReadable() {
			return false, newUnreadableError(vm.ID)
		}

		return mark.isSameClaim(claim), nil
	}

	owner, owned := ownermark.ParseOwner(vm.CommentText())

	return owned && owner.IsSameObject(ownermark.Owner{Namespace: namespace, Name: claim.MachineName}), nil
}

// getNetwork returns the network configuration of an initialization, or nil.
func getNetwork(of *engine.Initialization) *engine.Initialization {
	if of == nil || of.NICs == nil && of.DNSServers+of.DNSSearch == "" {
		return nil
	}

	return &engine.Initialization{NICs: of.NICs, DNSServers: of.DNSServers, DNSSearch: of.DNSSearch}
}

// CleanVM powers off a released VM and restores its initialization, one step at a time. It reports whether nothing is
// left to do, or else returns the VM's status. It does not touch a VM with another machine's mark, or without a mark.
func CleanVM(
	ctx context.Context, session *engine.Client, id engine.ID, of ownermark.Owner, mark Mark,
) (bool, string, error) {
	vm, err := session.FetchFullVM(ctx, id)
	if engine.IsNotFound(err) {
		return true, "", nil
	} else if err != nil {
		return false, "", err
	}

	owner, owned := ownermark.ParseOwner(vm.CommentText())

	switch {
	case !owned || !owner.IsSameObject(of):
		return true, "", nil
	case vm.Status.IsBusy():
		return false, string(vm.Status), nil
	case !vm.Status.IsOff():
		if err := session.StopVM(ctx, id, true); err != nil && !engine.IsRefused(err) {
			return false, string(vm.Status), err
		}

		return false, string(vm.Status), nil
	}

	has := cmp.Or(vm.Initialization, &engine.Initialization{})
	wanted := mark.withoutMachineData(has)

	if *toGuest(has) == *toGuest(wanted) && isSameNetwork(has, wanted) {
		return true, "", nil
	}

	if reflect.DeepEqual(*wanted, engine.Initialization{}) {
		wanted = nil
	}

	err = session.ReplaceInitialization(ctx, id, wanted)

	return err == nil, string(vm.Status), err
}

// withoutMachineData returns the VM's initialization without a machine's data. It keeps user data that Terraform has
// restored. If the machine's state was lost, the machine's user data is still there, and withoutMachineData removes it.
// The VM's earlier user data is then unknown, because only its host name and network are recorded.
func (m Mark) withoutMachineData(has *engine.Initialization) *engine.Initialization {
	out := *has

	if m.Guest == nil || m.Guest.UserData != toGuest(has).UserData {
		out.CustomScript = ""
	}

	out.HostName = cmp.Or(m.Guest, &Guest{}).HostName

	if m.Network != nil {
		out.NICs, out.DNSServers, out.DNSSearch = m.Network.NICs, m.Network.DNSServers, m.Network.DNSSearch
	}

	return &out
}

// isSameNetwork compares the meaning of two network configurations, because an engine adds defaults to a configuration.
func isSameNetwork(a, b *engine.Initialization) bool {
	return slices.Equal(networkWords(a), networkWords(b))
}

func networkWords(of *engine.Initialization) []string {
	if of == nil {
		of = &engine.Initialization{}
	}

	out := []string{of.DNSServers, of.DNSSearch}
	if of.NICs == nil {
		return out
	}

	for _, nic := range of.NICs.Items {
		out = append(out, nic.Name, cmp.Or(nic.BootProtocol, "none"), cmp.Or(nic.IPv6Boot, "none"))

		for _, ip := range []*engine.IP{nic.IP, nic.IPv6} {
			if ip == nil {
				ip = &engine.IP{}
			}

			out = append(out, ip.Address, ip.Netmask, ip.Gateway)
		}
	}

	return out
}
