package api

import (
	"slices"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains a VM's initialization of its guest at the first boot. It stores, checks and shows the
// initialization.

// nicDefaults are the elements shown in every network configuration.
var nicDefaults = []string{"ip", "ipv6"}

// mergeInitialization merges the initialization of a request into the existing one. An empty initialization removes
// everything.
func mergeInitialization(there, in *wire.Element, fail failure) (*wire.Element, error) {
	switch {
	case in == nil:
		return there, nil
	case len(in.Kids) == 0 || len(in.Kids) == 1 && in.Has("regenerate_ids"): // recorded for both forms
		return nil, nil
	}

	out := wire.El("initialization")
	if there != nil {
		out = there.Clone()
	}

	out.MergeRequest(in, []string{"cloud_init", "configuration"})
	if host := in.Value("cloud_init", "host", "address"); host != "" { // the form of old clients
		out.SetText(host, "host_name")
	}

	return out, checkInitialization(out, fail)
}

// checkInitialization rejects data that the engine cannot pass to cloud-init. Like the engine, it checks neither
// addresses nor names nor netmasks.
func checkInitialization(e *wire.Element, fail failure) error {
	for _, n := range e.List("nic_configurations", "nic_configuration") {
		v4, v6 := n.Value("boot_protocol"), n.Value("ipv6_boot_protocol")
		switch {
		case v4 == "autoconf" || v4 == "poly_dhcp_autoconf":
			return wire.InvalidValue("Boot protocol = '%s' is not applicable for IPv4.", strings.ToUpper(v4))
		case v6 == "autoconf" || v6 == "poly_dhcp_autoconf":
			return fail("Option 'autoconf' in cloud-init configuration is not supported.")
		case !n.IsTrue("on_boot"):
			return fail("Start On Boot selection in cloud-init configuration is invalid. Only 'true' is supported.")
		case v4 == "static" && n.Value("ip", "address") == "":
			return fail("Static IPv4 address is missing in cloud-init configuration.")
		case v6 == "static" && n.Value("ipv6", "address") == "":
			return fail("Static IPv6 address is missing in cloud-init configuration.")
		}
	}

	return nil
}

// shownInitialization returns a VM's initialization in the form shown by the engine, with masked passwords and explicit
// defaults.
func shownInitialization(there *wire.Element) *wire.Element {
	if there == nil || len(there.Kids) == 0 {
		return nil
	}

	out := there.Clone()
	if out.Has("root_password") {
		out.SetText("******", "root_password")
	}

	if !out.Has("regenerate_ssh_keys") {
		out.Flag("regenerate_ssh_keys", false)
	}

	if !out.Has("nic_configurations") {
		out.Add(wire.El("nic_configurations"))
	}

	for _, n := range out.List("nic_configurations", "nic_configuration") {
		for _, name := range nicDefaults {
			if ip := n.Get(name); ip != nil {
				ip.Kids = slices.DeleteFunc(ip.Kids, func(e *wire.Element) bool { return e.Name == "version" })
			} else {
				n.Add(wire.El(name))
			}
		}

		for _, name := range []string{"boot_protocol", "ipv6_boot_protocol"} {
			if !n.Has(name) {
				n.Str(name, "none")
			}
		}
	}

	return out
}
