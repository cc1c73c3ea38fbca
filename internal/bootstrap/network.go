package bootstrap

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// The priorities of NetworkManager profiles. Those for cloud-init guests go before what cloud-init itself writes.
const (
	ignitionPriority  = 100
	cloudInitPriority = 200
)

// networkFiles are the host name and the profiles of NetworkManager for a guest that the engine does not configure.
func (g *Guest) networkFiles() []File {
	out := g.profiles(ignitionPriority)
	if g.HostName != "" {
		out = append([]File{{Path: "/etc/hostname", Content: g.HostName + "\n", Mode: 0o644}}, out...)
	}

	return out
}

// slaac are the profiles of a cloud-init guest that has an interface which listens to routers, and the commands that
// put them to use; none for other guests. The engine cannot tell cloud-init of SLAAC: it refuses the boot protocol
// autoconf. Of a static address without a gateway, cloud-init makes a profile of NetworkManager that ignores routers.
func (g *Guest) slaac() (files []File, commands []string) {
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

	return g.profiles(cloudInitPriority), commands
}

// profiles of NetworkManager, one for each interface.
func (g *Guest) profiles(priority int) []File {
	var out []File

	// NetworkManager takes servers of a family with an interface that has this family, and domains with either.
	v4, v6, domains := filter(g.DNSServers, netip.Addr.Is4), filter(g.DNSServers, netip.Addr.Is6), g.SearchDomains
	for _, each := range g.Interfaces {
		var text strings.Builder
		fmt.Fprintf(&text, "[connection]\nid=%[1]s\ntype=ethernet\ninterface-name=%[1]s\nautoconnect-priority=%[2]d\n",
			each.Name, priority)
		section(&text, each, "ipv4", each.IPv4, v4, domains)
		if each.IPv4.Method != render.Off {
			v4, domains = nil, nil // once is enough
		}

		section(&text, each, "ipv6", each.IPv6, v6, domains)
		if each.IPv6.Method != render.Off {
			v6, domains = nil, nil
		}

		// NetworkManager ignores profiles that others may read.
		out = append(out, File{
			Path:    fmt.Sprintf("/etc/NetworkManager/system-connections/%s.nmconnection", each.Name),
			Content: text.String(),
			Mode:    0o600,
		})
	}

	return out
}

// followsRouters reports whether an interface takes its default route of IPv6 from what routers announce, although its
// address is static. NetworkManager then gives it an address of the announced prefix, too: it has no way to take the
// routes alone.
func followsRouters(of render.GuestNIC, family string, ip render.IP) bool {
	return family == "ipv6" && of.DefaultRoute && ip.Method == render.Static && !ip.Gateway.IsValid()
}

// section writes one address family.
func section(
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
		fmt.Fprintf(out, "dns=%s;\n", join(servers, ";"))
	}

	if len(domains) > 0 {
		fmt.Fprintf(out, "dns-search=%s;\n", strings.Join(domains, ";"))
	}
}

func filter[T any](list []T, keep func(T) bool) []T {
	var out []T

	for _, item := range list {
		if keep(item) {
			out = append(out, item)
		}
	}

	return out
}
