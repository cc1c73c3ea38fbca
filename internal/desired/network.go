package desired

import (
	"context"
	"fmt"
	"slices"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// guests resolves what the guest is told about its network interfaces.
func guests(in Input, out *render.Machine) error {
	for _, nic := range in.NICs {
		g := nic.Guest
		if g == nil {
			continue
		}

		made := render.GuestNIC{Interface: g.Interface}
		if g.DHCPv4 {
			made.IPv4 = &render.IP{BootProtocol: render.DHCP}
		}

		if g.DHCPv6 {
			made.IPv6 = &render.IP{BootProtocol: render.DHCP}
		}

		for _, address := range in.Addresses[nic.VNICName] {
			family := &made.IPv6
			if address.Is4() {
				family = &made.IPv4
			}

			if *family != nil {
				return blocker.New(infrav1.AddressRangeInvalidReason,
					g.Field,
					"it gets two addresses of one family, %s is the second; give it one source for each family",
					address.Addr(),
				)
			}

			*family = &render.IP{Address: address.Addr().String(), Netmask: address.Netmask()}
			if address.Gateway.IsValid() {
				(*family).Gateway = address.Gateway.String()
			}
		}

		if in.NamePools && len(g.FromPools) > 0 && made.IPv4 == nil {
			made.IPv4 = &render.IP{Address: fmt.Sprintf("(of %s %s)", g.FromPools[0].Kind, g.FromPools[0].Name)}
		}

		// The engine refuses to tell guests of SLAAC; the bootstrap data does. See guestOf.
		if made.IPv4 != nil || made.IPv6 != nil {
			out.Guests = append(out.Guests, made)
		}

		out.DNSServers = union(out.DNSServers, g.DNSServers)
		out.SearchDomains = union(out.SearchDomains, g.SearchDomains)
	}

	return clusterDNS(in, out)
}

// networks resolves the network interfaces in the engine: the first has the node's address, others follow.
func networks(
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

	hardware, err := client.Hardware(ctx, template.ID)
	if err != nil {
		return nil, nil, err
	}

	for _, given := range hardware.NICs {
		if !slices.ContainsFunc(out.NICs, func(n render.NIC) bool { return n.Name == given.Name }) {
			return nil, nil, invalid(
				"spec.additionalNetworks",
				"template %q gives its VMs a network interface %q, which the machine does not name; name it as "+
					"vnicName, or remove it from the template",
				template.Name,
				given.Name,
			)
		}
	}

	return first, firstProfile, nil
}

// resolveNIC finds network and vNIC profile; either may be left out where the other decides.
func resolveNIC(
	ctx context.Context, client *engine.Client, dc *engine.DataCenter, n addressing.NIC,
) (*engine.Network, *engine.VNICProfile, error) {
	if n.NetworkName == "" {
		profiles, networks, err := client.VNICProfiles(ctx, dc, n.VNICProfileName)
		if err != nil {
			return nil, nil, err
		}

		if len(profiles) != 1 {
			var names []string
			for _, network := range networks {
				names = append(names, network.Name)
			}

			return nil, nil, &blocker.Error{
				Reason: infrav1.VNICProfileNotFoundReason,
				Field:  n.Field + "vnicProfileName",
				Message: fmt.Sprintf(
					"data center %q has %d vNIC profiles %q, on the networks %q; correct the name, or name the "+
						"network as networkName",
					dc.Name,
					len(profiles),
					n.VNICProfileName,
					names,
				),
			}
		}

		return &networks[0], &profiles[0], nil
	}

	network, err := client.Network(ctx, dc, n.NetworkName)
	if err != nil {
		return nil, nil, blocker.NotFound(err, infrav1.NetworkNotFoundReason, n.Field+"networkName")
	}

	var profile *engine.VNICProfile
	if n.VNICProfileName == "" {
		profile, err = client.DefaultVNICProfile(ctx, network)
	} else {
		profile, err = client.VNICProfile(ctx, network, n.VNICProfileName)
	}

	if err != nil {
		return nil, nil, blocker.NotFound(err, infrav1.VNICProfileNotFoundReason, n.Field+"vnicProfileName")
	}

	return network, profile, nil
}

// union appends what is not there yet.
func union[T comparable](list, more []T) []T {
	for _, item := range more {
		if !slices.Contains(list, item) {
			list = append(list, item)
		}
	}

	return list
}
