package ovirtsim

import (
	"slices"
	"strings"
)

// This file has what a VM tells its guest at the first boot: how it is kept, checked and shown.

// nicDefaults are the elements that the engine always shows of a network configuration.
var nicDefaults = []string{"ip", "ipv6"}

// layInitialization lays the initialization of a request over the one that is there. An empty one takes all away.
func layInitialization(there, in *element, fail failure) (*element, error) {
	switch {
	case in == nil:
		return there, nil
	case len(in.kids) == 0:
		return nil, nil
	}
	out := el("initialization")
	if there != nil {
		out = there.clone()
	}
	out.merge(in, []string{"cloud_init", "configuration"})
	if host := in.value("cloud_init", "host", "address"); host != "" { // the form of old clients
		out.put(host, "host_name")
	}
	return out, checkInitialization(out, fail)
}

// checkInitialization refuses what the engine cannot hand to cloud-init. It looks at few things: addresses, names and
// netmasks go through as they are.
func checkInitialization(e *element, fail failure) error {
	for _, n := range e.list("nic_configurations", "nic_configuration") {
		v4, v6 := n.value("boot_protocol"), n.value("ipv6_boot_protocol")
		switch {
		case v4 == "autoconf" || v4 == "poly_dhcp_autoconf":
			return invalidValue("Boot protocol = '%s' is not applicable for IPv4.", strings.ToUpper(v4))
		case v6 == "autoconf" || v6 == "poly_dhcp_autoconf":
			return fail("Option 'autoconf' in cloud-init configuration is not supported.")
		case !n.yes("on_boot"):
			return fail("Start On Boot selection in cloud-init configuration is invalid. Only 'true' is supported.")
		case v4 == "static" && n.value("ip", "address") == "":
			return fail("Static IPv4 address is missing in cloud-init configuration.")
		case v6 == "static" && n.value("ipv6", "address") == "":
			return fail("Static IPv6 address is missing in cloud-init configuration.")
		}
	}
	return nil
}

// shownInitialization is the initialization of a VM as the engine tells it: passwords as stars, and what was left out as
// what it means.
func shownInitialization(there *element) *element {
	if there == nil || len(there.kids) == 0 {
		return nil
	}
	out := there.clone()
	if out.has("root_password") {
		out.put("******", "root_password")
	}
	if !out.has("regenerate_ssh_keys") {
		out.flag("regenerate_ssh_keys", false)
	}
	if !out.has("nic_configurations") {
		out.add(el("nic_configurations"))
	}
	for _, n := range out.list("nic_configurations", "nic_configuration") {
		for _, name := range nicDefaults {
			if ip := n.get(name); ip != nil {
				ip.kids = slices.DeleteFunc(ip.kids, func(e *element) bool { return e.name == "version" })
			} else {
				n.add(el(name))
			}
		}
		for _, name := range []string{"boot_protocol", "ipv6_boot_protocol"} {
			if !n.has(name) {
				n.str(name, "none")
			}
		}
	}
	return out
}
