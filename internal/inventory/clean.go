package inventory

import (
	"cmp"
	"context"
	"slices"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
)

// Owns reports whether the engine has a VM as that of a claim: its tag has the ID of the claim, or, if somebody took
// the tag away, its comment has the mark of the machine. A tag that cannot be read is an error.
func Owns(vm engine.DescribedVM, namespace string, claim infrav1.InventoryClaim) (bool, error) {
	if mark, tagged := MarkOn(vm); tagged {
		if !mark.Readable() {
			return false, unreadable(vm.ID)
		}

		return mark.sameClaim(claim), nil
	}

	owner, owned := ownermark.OwnerOf(vm.CommentText())

	return owned && owner.SameObject(ownermark.Owner{Namespace: namespace, Name: claim.MachineName}), nil
}

// networkOf is the network configuration of an initialization; nil where it has none.
func networkOf(of *engine.Initialization) *engine.Initialization {
	if of == nil || of.NICs == nil && of.DNSServers+of.DNSSearch == "" {
		return nil
	}

	return &engine.Initialization{NICs: of.NICs, DNSServers: of.DNSServers, DNSSearch: of.DNSSearch}
}

// Clean powers a VM off that a machine had, takes the machine's user data and host name from it, and gives it the
// network configuration that it is to have, one step at a time; nil keeps the one that it has. It reports whether
// nothing is left to do, and else what the VM is doing. A VM that has the mark of another machine, or of none, is left
// alone.
func Clean(
	ctx context.Context, session *engine.Client, id engine.ID, of ownermark.Owner, network *engine.Initialization,
) (bool, string, error) {
	vm, err := session.VMInFull(ctx, id)
	if engine.IsNotFound(err) {
		return true, "", nil
	} else if err != nil {
		return false, "", err
	}

	owner, owned := ownermark.OwnerOf(vm.CommentText())

	switch {
	case !owned || !owner.SameObject(of):
		return true, "", nil
	case vm.Status.Busy():
		return false, string(vm.Status), nil
	case !vm.Status.Off():
		if err := session.StopVM(ctx, id, true); err != nil && !engine.IsRefused(err) {
			return false, string(vm.Status), err
		}

		return false, string(vm.Status), nil
	}

	if network == nil {
		network = networkOf(vm.Initialization)
	}

	has := vm.Initialization
	if (has == nil || has.CustomScript+has.HostName == "") && sameNetwork(networkOf(has), network) {
		return true, "", nil
	}

	err = session.ReplaceInitialization(ctx, id, networkOf(network))

	return err == nil, string(vm.Status), err
}

// sameNetwork compares network configurations by what they say of the guest: an engine adds what it means to what it
// was told.
func sameNetwork(a, b *engine.Initialization) bool {
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
