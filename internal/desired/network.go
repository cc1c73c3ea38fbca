package desired

import (
	"context"
	"errors"
	"fmt"
	"slices"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// resolveGuests resolves the network configuration inside the guest.
func resolveGuests(in Input, out *render.Machine) error {
	for _, nic := range in.NICs {
		if nic.Guest == nil || nic.Guest.Own {
			continue
		}

		made, err := resolveGuestNIC(nic, in)
		if err != nil {
			return err
		}

		out.Guests = append(out.Guests, made)
		out.DNSServers = appendMissing(out.DNSServers, nic.Guest.DNSServers)
		out.SearchDomains = appendMissing(out.SearchDomains, nic.Guest.SearchDomains)
	}

	return addClusterDNS(in, out)
}

// resolveGuestNIC returns the configuration of a network interface inside the guest.
func resolveGuestNIC(nic addressing.NIC, in Input) (render.GuestNIC, error) {
	g := nic.Guest
	out := render.GuestNIC{Name: g.Interface, DefaultRoute: g.First}
	if g.DHCPv4 {
		out.IPv4.Method = render.DHCP
	}

	switch {
	case g.DHCPv6:
		out.IPv6.Method = render.DHCP
	case g.AutoConf:
		out.IPv6.Method = render.AutoConf
	}

	for _, address := range in.Addresses[nic.VNICName] {
		family := &out.IPv6
		if address.Is4() {
			family = &out.IPv4
		}

		if family.Method != render.Off {
			return render.GuestNIC{}, blocker.New(infrav1.AddressRangeInvalidReason, g.Field,
				"it gets two addresses of one family, and %s is the second one; use one source per family",
				address.Addr())
		}

		*family = render.IP{Method: render.Static, Address: address.Prefix, Gateway: address.Gateway}
	}

	if in.NamePools && len(g.FromPools) > 0 && out.IPv4.Method == render.Off {
		pool := g.FromPools[0]
		out.IPv4 = render.IP{Method: render.Static, Placeholder: fmt.Sprintf("(of %s %s)", pool.Kind, pool.Name)}
	}

	return out, nil
}

// resolveNetworks resolves the network interfaces in the engine. The first interface has the node's address.
func resolveNetworks(
	ctx context.Context,
	client *engine.Client,
	dc *engine.DataCenter,
	template *engine.Template,
	nics []addressing.NIC,
	out *render.Machine,
) (*engine.Network, *engine.VNICProfile, error) {
	var first *engine.Network
	var firstProfile *engine.VNICProfile

	for i, n := range nics {
		network, profile, err := resolveNIC(ctx, client, dc, n)
		if err != nil {
			return nil, nil, err
		}

		out.NICs = append(out.NICs, render.NIC{
			Name:          n.VNICName,
			VNICProfileID: profile.ID.String(),
			MAC:           n.MACAddress,
			Interface:     n.InterfaceType,
		})
		if i == 0 {
			first, firstProfile = network, profile
		}
	}

	hardware, err := client.FetchHardware(ctx, template.ID)
	if err != nil {
		return nil, nil, err
	}

	for _, given := range hardware.NICs {
		isNamed := slices.ContainsFunc(out.NICs, func(n render.NIC) bool { return n.Name == given.Name })
		if !isNamed && !out.RemoveTemplateNICs {
			return nil, nil, newInvalidError(
				"spec.additionalNetworks",
				"template %q has a network interface %q that the machine does not name; name it in vnicName, set "+
					"spec.removeTemplateInterfaces to true, or remove it from the template",
				template.Name,
				given.Name,
			)
		}
	}

	return first, firstProfile, nil
}

// resolveNIC finds the network and the vNIC profile. A user may omit one of them if the other determines it.
func resolveNIC(
	ctx context.Context, client *engine.Client, dc *engine.DataCenter, n addressing.NIC,
) (*engine.Network, *engine.VNICProfile, error) {
	if n.NetworkName == "" {
		profiles, networks, err := client.ListVNICProfiles(ctx, dc, n.VNICProfileName)
		if err != nil {
			return nil, nil, err
		}

		if len(profiles) != 1 {
			var names []string
			for _, network := range networks {
				names = append(names, network.Name)
			}

			slices.Sort(names)

			return nil, nil, &blocker.Error{
				Reason: infrav1.VNICProfileNotFoundReason,
				Field:  n.Field + "vnicProfileName",
				Message: fmt.Sprintf(
					"data center %q has %d vNIC profiles %q, on the networks %q; correct the name, or add networkName",
					dc.Name, len(profiles), n.VNICProfileName, names,
				),
			}
		}

		return &networks[0], &profiles[0], nil
	}

	network, err := client.FindNetwork(ctx, dc, n.NetworkName)
	if err != nil {
		return nil, nil, blocker.WrapNotFound(err, infrav1.NetworkNotFoundReason, n.Field+"networkName")
	}

	var profile *engine.VNICProfile
	if n.VNICProfileName == "" {
		profile, err = client.FindDefaultVNICProfile(ctx, network)
	} else {
		profile, err = client.FindVNICProfile(ctx, network, n.VNICProfileName)
	}

	var choice *engine.ProfileChoiceError
	if errors.As(err, &choice) {
		return nil, nil, blocker.New(infrav1.VNICProfileNotFoundReason, n.Field+"vnicProfileName", "%v", choice)
	}

	if err != nil {
		return nil, nil, blocker.WrapNotFound(err, infrav1.VNICProfileNotFoundReason, n.Field+"vnicProfileName")
	}

	return network, profile, nil
}

// appendMissing appends the items of more that are missing from list.
func appendMissing[T comparable](list, more []T) []T {
	for _, item := range more {
		if !slices.Contains(list, item) {
			list = append(list, item)
		}
	}

	return list
}
