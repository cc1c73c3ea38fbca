package bootstrap

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// These are the priorities of NetworkManager profiles. Those for cloud-init guests override cloud-init's own profiles.
const (
	ignitionPriority  = 100
	cloudInitPriority = 200
)

// buildNetworkFiles returns the host name and the NetworkManager profiles for a guest that the engine does not
// configure.
func (g *Guest) buildNetworkFiles() []File {
	out := g.buildProfiles(ignitionPriority)
	if g.HostName != "" {
		out = append([]File{{Path: "/etc/hostname", Content: g.HostName + "\n", Mode: 0o644}}, out...)
	}

	return out
}

// buildSLAAC returns profiles for a cloud-init guest with an interface that follows router advertisements, and the
// commands that activate the profiles. For other guests, it returns none. The engine cannot configure SLAAC in
// cloud-init, because it rejects the boot protocol autoconf. For a static address without a gateway, cloud-init writes
// a NetworkManager profile without router advertisements.
func (g *Guest) buildSLAAC() (files []File, commands []string) {
	listens := func(i render.GuestNIC) bool {
		return i.IPv6.Method == render.AutoConf || followsRouters(i, "ipv6", i.IPv6)
	}
	if !slices.ContainsFunc(g.Interfaces, listens) {
		return nil, nil
	}

	commands = []string{"nmcli connection reload"}
	for _, each := range g.Interfaces {
		commands = append(commands, "nmcli --wait 60 connection up "+each.Name)
	}

	return g.buildProfiles(cloudInitPriority), commands
}

// buildProfiles returns one NetworkManager profile for each interface.
func (g *Guest) buildProfiles(priority int) []File {
	var out []File

	// NetworkManager accepts a DNS server only on an interface with an address of its family. It accepts domains with
	// either.
	v4, v6, domains := filterItems(
		g.DNSServers, netip.Addr.Is4,
	), filterItems(
		g.DNSServers, netip.Addr.Is6,
	), g.SearchDomains
	for _, each := range g.Interfaces {
		var text strings.Builder
		fmt.Fprintf(&text, "[connection]\nid=%[1]s\ntype=ethernet\ninterface-name=%[1]s\nautoconnect-priority=%[2]d\n",
			each.Name, priority)
		writeSection(&text, each, "ipv4", each.IPv4, v4, domains)
		if each.IPv4.Method != render.Off {
			v4, domains = nil, nil // one interface is enough
		}

		writeSection(&text, each, "ipv6", each.IPv6, v6, domains)
		if each.IPv6.Method != render.Off {
			v6, domains = nil, nil
		}

		// NetworkManager ignores profiles that others can read.
		out = append(out, File{
			Path:    fmt.Sprintf("/etc/NetworkManager/system-connections/%s.nmconnection", each.Name),
			Content: text.String(),
			Mode:    0o600,
		})
	}

	return out
}

// followsRouters reports whether an interface with a static IPv6 address takes its default route from router
// advertisements. NetworkManager cannot accept only the routes. It also gives the interface an address with the
// advertised prefix.
func followsRouters(of render.GuestNIC, family string, ip render.IP) bool {
	return family == "ipv6" && of.DefaultRoute && ip.Method == render.Static && !ip.Gateway.IsValid()
}

// writeSection writes the section of one address family.
func writeSection(
	out *strings.Builder, of render.GuestNIC, name string, ip render.IP, servers []netip.Addr, domains []string,
) {
	fmt.Fprintf(out, "\n[%s]\n", name)

	switch ip.Method {
	case render.Off:
		out.WriteString("method=disabled\n")
		return
	case render.DHCP:
		if name == "ipv6" {
			out.WriteString("method=dhcp\n")
		} else {
			out.WriteString("method=auto\n")
		}
	case render.AutoConf:
		out.WriteString("method=auto\naddr-gen-mode=eui64\n")
	case render.Static:
		method := "manual"
		if followsRouters(of, name, ip) {
			method = "auto\naddr-gen-mode=eui64"
		}

		fmt.Fprintf(out, "method=%s\naddress1=%s", method, ip.Address)
		if ip.Gateway.IsValid() {
			fmt.Fprintf(out, ",%s", ip.Gateway)
		}

		out.WriteString("\n")
	}

	if ip.Method != render.Static && !of.DefaultRoute {
		out.WriteString("never-default=true\n")
	}

	if len(servers) > 0 {
		fmt.Fprintf(out, "dns=%s;\n", joinAddresses(servers, ";"))
	}

	if len(domains) > 0 {
		fmt.Fprintf(out, "dns-search=%s;\n", strings.Join(domains, ";"))
	}
}

func filterItems[T any](list []T, keep func(T) bool) []T {
	var out []T

	for _, item := range list {
		if keep(item) {
			out = append(out, item)
		}
	}

	return out
}
