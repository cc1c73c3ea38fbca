package refused

import (
	"slices"
	"strings"
)

const (
	vm      = "spec.virtualMachine"
	net     = vm + ".network"
	more    = "spec.additionalNetworks"
	service = "spec.controlPlaneServices"
	server  = "spec.olvmOvirtAPIServer.serverURL"
	host    = "spec.controlPlaneEndpoint.host"

	aSize    = "write a number with a unit, such as 16GB or 16Gi"
	noSubnet = "an address is outside the subnet; correct it or the subnet"
	reversed = "the range ends before it begins; swap its ends"
	anIP     = "write the IP address of one machine, such as 10.20.30.5"
	a4Range  = "write an IPv4 address, a range such as"
	a6Range  = "write an IPv6 address, a range such as"
	another  = "write an address of the other family, or remove it"
	silent   = "the network says nothing about addresses; set ipv4 or ipv6"
	anURL    = "for example https://engine.example.com/ovirt-engine"
	among    = "Unsupported value"
)

// Values are all values that are refused, and similar values that are accepted.
var Values = slices.Concat(
	sizeValues(), hardwareValues(), networkValues(), clusterValues(), otherValues(), unionValues(), unionsOfOthers(),
	namesOfObjects(), namesInTheEngine(), namesInGuests(), selectorValues(), imageValues(), proxyValues(), ofServices(),
	issuerValues(), identityValues(),
)

func sizeValues() []Value {
	var out []Value

	for _, field := range []string{"memory", "guaranteedMemory", "maximumMemory", "rootDisk.size",
		"dataDisks[0].size"} {
		for _, wrong := range []string{
			"16", "-16GB", "0GB", "0", "16XB", "16 GBB", "255MB", "13TB", "262145KB", "1.0001GB", "1e9", "16,5GB",
			"99999999999999999999GB", "256i", "16Gib i",
		} {
			out = append(out, sizeValue(field, wrong, aSize))
		}

		for _, right := range []string{
			"16GB", "16GiB", "16G", "16Gi", "17179869184", "16384Mi", "8 GB", "8.5GB", "16gb", "12TB", "8388608Ki",
		} {
			out = append(out, sizeValue(field, right, ""))
		}
	}

	return append(out,
		Value{machine, vm + ".guaranteedMemory", "9GB", "", "guaranteedMemory is more than memory; lower it"},
		Value{machine, vm + ".guaranteedMemory", "8193Mi", "", "guaranteedMemory is more than memory; lower it"},
		Value{machine, vm + ".guaranteedMemory", "8Gi", "", ""},
		Value{machine, vm + ".maximumMemory", "7GB", "", "maximumMemory is less than memory; raise it"},
		Value{machine, vm + ".maximumMemory", "0.5TB", "", ""},
		Value{template, "spec.template." + vm + ".guaranteedMemory", "9GB", "", "more than memory"},
		Value{machine, vm + ".rootDisk.size", `""`, "", ""},
		Value{machine, vm + ".dataDisks[0]", `{name: a, size: ""}`, ".size", "at least 1 chars"},
	)
}

// sizeValue returns a Value with a size in a field. The other fields of the object match this size.
func sizeValue(field, size, message string) Value {
	quoted := `"` + size + `"`

	switch field {
	case "memory":
		return Value{machine, vm + ".memory", quoted, "", message}
	case "dataDisks[0].size":
		return Value{machine, vm + ".dataDisks[0]", "{name: a, size: " + quoted + "}", ".size", message}
	case "guaranteedMemory", "maximumMemory":
		return Value{machine, vm, "{memory: 8GB, " + field + ": " + quoted + ", network: {ipv4: {dhcp: true}}}",
			"." + field, orBounds(field, size, message)}
	default:
		return Value{machine, vm + "." + field, quoted, "", message}
	}
}

// orBounds returns the error for a size that is readable but not valid as memory.
func orBounds(field, size, message string) string {
	small := size == "8 GB" || size == "8388608Ki"

	switch {
	case message != "" || small || field == "maximumMemory":
		return message
	default:
		return "guaranteedMemory is more than memory"
	}
}

func hardwareValues() []Value {
	out := []Value{
		{machine, vm, "{instanceType: Large, guaranteedMemory: 1GB, network: {ipv4: {dhcp: true}}}", ".instanceType",
			"remove guaranteedMemory and maximumMemory, or instanceType"},
		{machine, vm, "{instanceType: Large, cpu: {topology: {cores: 1}}, network: {ipv4: {dhcp: true}}}",
			".instanceType",
			"remove cpu.topology, or instanceType"},
		{machine, vm, "{instanceType: Large, cpu: {topology: {cores: 0, sockets: 0, threads: 0}}, " +
			"network: {ipv4: {dhcp: true}}}", "", ""},
		{machine, vm + ".cpu", "{autoPinningPolicy: resize_and_pin, topology: {cores: 1}}", ".topology",
			"remove topology, or autoPinningPolicy"},
		{machine, vm + ".cpu.topology.cores", "-1", "", "greater than or equal to 0"},
		{machine, vm + ".firmware", "{tpm: true, biosType: q35_sea_bios}", ".tpm", "write the biosType q35_ovmf"},
		{machine, vm + ".firmware", "{tpm: true, biosType: i440fx_sea_bios}", ".tpm", "write the biosType q35_ovmf"},
		{machine, vm + ".firmware", "{tpm: true, biosType: q35_ovmf}", "", ""},
		{machine, vm + ".firmware", "{tpm: false, biosType: q35_sea_bios}", "", ""},
		{machine, vm + ".highAvailability", "{leaseStorageDomainName: a, storageErrorResume: auto_resume}",
			".storageErrorResume", "write kill, or remove leaseStorageDomainName"},
		{machine, vm + ".highAvailability", "{leaseStorageDomainName: a, storageErrorResume: kill}", "", ""},
		{machine, vm + ".highAvailability.priority", "-1", "", "greater than or equal to 0"},
		{machine, vm + ".highAvailability.priority", "101", "", "less than or equal to 100"},
		{machine, vm + ".customProperties", "[{name: hugepages, value: '2048'}]", "[0].name",
			"write virtualMachine.hugePages"},
		{machine, vm + ".customProperties", "[{name: mdev_type, value: a}]", "[0].name",
			"write virtualMachine.mediatedDevices"},
		{machine, vm + ".hugePages", "0", "", among},
		{machine, vm + ".hugePages", "4096", "", among},
		{machine, vm + ".rootDisk", "{clone: false, format: raw}", ".clone", "set clone to true, or remove it"},
		{machine, vm + ".rootDisk", "{clone: false, sparse: false}", ".clone", "set clone to true, or remove it"},
		{machine, vm + ".rootDisk", "{clone: false, format: cow}", "", ""},
		{machine, vm + ".dataDisks", "[{name: a, size: 1GB}, {name: a, size: 2GB}]", "[1]", "Duplicate value"},
		{machine, vm + ".hostDevices", "[a, a]", "[1]", "Duplicate value"},
		{machine, vm + ".tags", "[a, a]", "[1]", "Duplicate value"},
		{machine, vm + ".description", `"👍"`, "", "beyond U+FFFF; remove them"},
		{machine, vm + ".description", `"a ä €"`, "", ""},
		{template, "spec.template.spec.providerID", "olvm://a", "", "remove it"},
		{machine, "metadata.name", "localhost", "metadata.name", "use another name"},
		{machine, "spec.vmTemplateVersion", "-1", "", "greater than or equal to 0"},
		{machine, vm + ".shutdown.timeoutSeconds", "-1", "", "greater than or equal to 0"},
	}

	for _, field := range []string{
		"rootDisk.format", "type", "graphicsConsoles", "shutdown.mode", "cpu.mode", "cpu.autoPinningPolicy",
		"highAvailability.storageErrorResume", "watchdog.action", "firmware.biosType",
	} {
		out = append(out, Value{machine, vm + "." + field, `""`, "", among})
	}

	return append(out,
		Value{machine, vm,
			"{memory: 8GB, type: high_performance, graphicsConsoles: Keep, network: {ipv4: {dhcp: true}}}",
			".graphicsConsoles", "write Remove, or remove graphicsConsoles"},
		Value{machine, vm, "{memory: 8GB, hostDevices: [a], placement: {hostNames: [a, b]}, " +
			"network: {ipv4: {dhcp: true}}}", ".hostDevices", "name that one alone in placement.hostNames"},
		Value{machine, vm + ".cpu.architecture", `""`, "", ""}, // Oracle's
		Value{machine, "spec.userData.bootstrapDelivery", `""`, "", among},
		Value{machine, "spec.olvmNetwork.interfaceType", `""`, "", among},
		Value{machine, vm + ".dataDisks", `[{name: a, size: 1GB, interfaceType: ""}]`, "[0].interfaceType", among},
	)
}

func networkValues() []Value {
	return append(append(interfaceValues(), subnetValues()...), rangeValues()...)
}

// interfaceValues returns values for network interfaces.
func interfaceValues() []Value {
	return []Value{
		{machine, net, "{interface: enp1s0}", "", silent},
		{machine, net, "{ipv6: {autoConf: false}}", "", silent},
		{machine, net, "{ipv6: {autoConf: true}}", "", ""},
		{machine, net, "{ipProfileName: a}", "", ""},
		{machine, more, "[{networkName: a, guest: {interface: enp2s0}}]", "[0].guest", silent},
		{machine, net + ".interfaceType", "e1001", "", "write virtio, e1000, e1000e or rtl8139"},
		{machine, net + ".interfaceType", "VirtIO", "", ""}, // Oracle's
		{machine, net + ".interfaceType", `""`, "", ""},     // Oracle's
		{machine, "spec.olvmNetwork.macAddress", `"56:6f"`, "", "write a MAC address such as"},
		{machine, "spec.olvmNetwork.macAddress", `""`, "", "write a MAC address such as"},
		{machine, "spec.olvmNetwork.macAddress", `"01:00:5e:00:00:01"`, "",
			"write the MAC address of one network interface"},
		{machine, "spec.olvmNetwork.macAddress", `"ff:ff:ff:ff:ff:ff"`, "",
			"write the MAC address of one network interface"},
		{machine, "spec.olvmNetwork.macAddress", `"00:00:00:00:00:00"`, "",
			"write the MAC address of one network interface"},
		{machine, "spec.olvmNetwork.macAddress", `"56:6F:00:00:00:01"`, "", ""},
		{machine, more, "[{networkName: a, vnicName: nic1}]", "", "a vnicName is there twice"},
		{machine, more, "[{networkName: a, vnicName: a}, {networkName: b, vnicName: a}]", "",
			"a vnicName is there twice"},
		{machine, more, "[{networkName: a, vnicName: nic3}, {networkName: b}]", "", "a vnicName is there twice"},
		{machine, more, "[{networkName: a}, {networkName: b}]", "", ""},
		{machine, more, "[{networkName: a, guest: {interface: enp1s0, ipv4: {dhcp: true}}}]", "",
			"guest.interface is there twice"},
		{machine, more, "[{networkName: a, guest: {interface: enp2s0, ipv4: {dhcp: true}}}]", "", ""},
		{machine, more, "[{networkName: a, macAddress: '56:6f:00:00:00:0a'}, " +
			"{networkName: b, macAddress: '56:6f:00:00:00:0A'}]", "", "a macAddress is there twice"},
		{machine, "spec.olvmNetwork", "{networkName: a, interfaceType: e1000}", "", ""},
		{machine, "spec",
			`{vmTemplateName: a, olvmNetwork: {networkName: a, interfaceType: e1000}, virtualMachine: ` +
				`{memory: 8GB, network: {interfaceType: virtio, ipv4: {dhcp: true}}}}`, ".olvmNetwork.interfaceType",
			"differ; remove one of the two"},
		{machine, "spec",
			`{vmTemplateName: a, olvmNetwork: {networkName: a, interfaceType: e1000}, virtualMachine: ` +
				`{memory: 8GB, network: {interfaceType: E1000, ipv4: {dhcp: true}}}}`, "", ""},
	}
}

// subnetValues returns values for DNS servers, gateways and subnets.
func subnetValues() []Value {
	return []Value{
		{machine, net + ".dnsServers", "[10.20.30.300]", "[0]", anIP},
		{machine, net + ".dnsServers", "[dns.example.com]", "[0]", anIP},
		{machine, net + ".dnsServers", `["fe80::1%eth0"]`, "[0]", anIP},
		{machine, net + ".dnsServers", "[0.0.0.0]", "[0]", anIP},
		{machine, net + ".dnsServers", "[224.0.0.1]", "[0]", anIP},
		{machine, net + ".dnsServers", `["ff02::1"]`, "[0]", anIP},
		{machine, net + ".dnsServers", `["10.20.30.53:53"]`, "[0]", anIP},
		{machine, net + ".dnsServers", "[10.20.30.53, 10.20.30.53]", "", "an address is there twice"},
		{machine, net + ".dnsServers", `[10.20.30.53, "fd00::53", 127.0.0.1]`, "", ""},
		{machine, net + ".searchDomains", "[Lab.example.com]", "[0]", "write a domain of lower case letters"},
		{machine, net + ".searchDomains", "[a..b]", "[0]", "write a domain of lower case letters"},
		{machine, net + ".searchDomains", "[lab, lab]", "", "a domain is there twice"},
		{machine, net + ".gateway", "10.20.31.1", "", "the gateway is outside ipv4.subnet; correct one of the two"},
		{machine, net + ".gateway", "10.20.30.300", "", "write the IPv4 address of a router"},
		{machine, net + ".gateway", `"fd00::1"`, "", "that of IPv6 is ipv6.gateway"},
		{machine, net + ".gateway", "router", "", "write the IPv4 address of a router"},
		{machine, net + ".gateway", `""`, "", ""}, // Oracle's
		{machine, net + ".gateway", "10.20.30.254", "", ""},
		{machine, net + ".ipv4.subnet", "10.20.30.0/33", "", "write an IPv4 subnet in CIDR notation"},
		{machine, net + ".ipv4.subnet", "10.20.30.0", "", "write an IPv4 subnet in CIDR notation"},
		{machine, net + ".ipv4.subnet", `"fd00::/64"`, "", "write an IPv4 subnet in CIDR notation"},
		{machine, net + ".ipv6", `{subnet: "fd00::/64"}`, ".subnet", "add some, or remove it"},
		{machine, net + ".ipv6", `{subnet: 10.0.0.0/8, ipAddresses: ["fd00::1"]}`, ".subnet", "write an IPv6 subnet"},
		{machine, net + ".ipv6", `{gateway: "fd00::1", autoConf: true}`, ".gateway", "add ipv6.ipAddresses or"},
		{machine, net + ".ipv6", `{gateway: 10.0.0.1, ipAddresses: ["fd00::5"]}`, ".gateway", "write the IPv6 address"},
		{machine, net + ".ipv6", `{gateway: "fd01::1", subnet: "fd00::/64", ipAddresses: ["fd00::5"]}`, ".gateway",
			"the gateway is outside the subnet, and not link-local"},
		{machine, net + ".ipv6", `{gateway: "fe80::1", subnet: "fd00::/64", ipAddresses: ["fd00::5"]}`, "", ""},
		{cluster, "spec.ipProfiles", `[{name: a, ipv6: {gateway: "fd00::1", autoConf: true}}]`, "[0].ipv6.gateway",
			"add ipv6.ipAddresses, or remove it"},
		{cluster, "spec.ipProfiles", `[{name: a}]`, "[0]", "set ipv4 or ipv6"},
		{cluster, "spec.ipProfiles",
			"[{name: a, gateway: 10.0.1.1, ipv4: {subnet: 10.0.0.0/24, ipAddresses: [10.0.0.5]}}]",
			"[0].gateway", "the gateway is outside ipv4.subnet"},
	}
}

func rangeValues() []Value {
	var out []Value

	for text, message := range map[string]string{
		"10.20.30.300": a4Range, "10.20.30": a4Range, "10.20.30.5-": a4Range, "-10.20.30.5": a4Range,
		"10.20.30.1-10.20.30.2-10.20.30.3": a4Range, "10.20.30.5-fd00::5": a4Range, "node": a4Range, "": a4Range,
		"10.20.30.0/33": a4Range, "fd00::5": a4Range,
		"10.20.30.20-10.20.30.10": reversed, "10.20.30.100-10.20.30.20": reversed, "10.20.30.9 - 10.20.30.8": reversed,
		"10.20.30.10-10.20.30.20": "", "10.20.30.9-10.20.30.10": "", "10.20.30.161/30": "", "10.20.30.5": "",
		" 10.20.30.5 - 10.20.30.6 ": "",
	} {
		out = append(out, Value{machine, net + ".ipv4.ipAddresses", `["` + text + `"]`, "[0]", message})
	}

	for text, message := range map[string]string{
		"10.20.31.5": noSubnet, "10.20.30.5-10.20.31.5": noSubnet, "10.20.29.5-10.20.30.5": noSubnet,
		"10.20.0.0/16": noSubnet,
	} {
		out = append(out, Value{machine, net + ".ipv4.ipAddresses", `["` + text + `"]`, "", message})
	}

	for text, message := range map[string]string{
		"fd00::g": a6Range, "10.0.0.5": a6Range, "fd00::1-10.0.0.5": a6Range, "fe80::1%eth0": a6Range,
		"fd00::1/129": a6Range, "": a6Range,
		"fd00::20-fd00::10": reversed, "fd00:0:0::100-fd00::20": reversed, "fd00::F-fd00::a": reversed,
		"fd00::5-fd00::":   reversed,
		"fd00::9-fd00::10": "", "fd00::-fd00::5": "", "fd00::5": "", "fd00::/64": "", "fd00::ff-fd00::1:0": "",
	} {
		out = append(out, Value{machine, net + ".ipv6", `{ipAddresses: ["` + text + `"]}`, ".ipAddresses[0]", message})
	}

	return append(out, Value{machine, net + ".ipv6", `{subnet: "fd00::/64", ipAddresses: ["fd01::5"]}`, ".ipAddresses",
		noSubnet})
}

func clusterValues() []Value {
	out := []Value{
		{cluster, host, "10.0.0.300", "", "host looks like an IP address and is none"},
		{cluster, host, `"10.0"`, "", "host looks like an IP address and is none"},
		{cluster, host, "0.0.0.0", "", "no machine can have this address"},
		{cluster, host, "224.0.0.5", "", "no machine can have this address"},
		{cluster, host, `"::"`, "", "no machine can have this address"},
		{cluster, host, "a..b", "", "a DNS name has parts of 1 to 63 characters"},
		{cluster, host, `""`, "", ""}, // Oracle's
		{cluster, "spec.controlPlaneEndpoint.port", "-1", "", "greater than or equal to 0"},
		{cluster, "spec.controlPlaneEndpoint.port", "65536", "", "less than or equal to 65535"},
		{cluster, service, "{virtualIPProvider: ''}", ".virtualIPProvider", among},
		{cluster, service, "{virtualIPProvider: Keepalived, loadBalancerProvider: ''}", ".loadBalancerProvider", among},
		{cluster, service, "{virtualIPProvider: Keepalived, kubeVIPLease: {durationSeconds: 20}}", "",
			"kubeVIPLease needs"},
		{cluster, service, "{kubeVIPLease: {}}", "", "kubeVIPLease needs"},
		{cluster, service, "{virtualIPProvider: KubeVIP, kubeVIPLease: {durationSeconds: 20}}", "", ""},
		{cluster, service, "{virtualIPProvider: KubeVIP, kubeVIPLease: {durationSeconds: 10}}",
			".kubeVIPLease.durationSeconds",
			"durationSeconds must be longer than renewDeadlineSeconds"},
		{cluster, service, "{virtualIPProvider: KubeVIP, kubeVIPLease: {renewDeadlineSeconds: 15}}",
			".kubeVIPLease.durationSeconds", "durationSeconds must be longer than renewDeadlineSeconds"},
		{cluster, service, "{virtualIPProvider: KubeVIP, kubeVIPLease: {retryPeriodSeconds: 9}}",
			".kubeVIPLease.renewDeadlineSeconds", "longer than 1.2 times retryPeriodSeconds"},
		{cluster, service, "{ingressVirtualIP: 10.20.30.300}", ".ingressVirtualIP", anIP},
		{cluster, service, "{ingressVirtualIP: ingress.example.com}", ".ingressVirtualIP", anIP},
		{cluster, service, "{ingressVirtualIP: 127.20.1.6}", "", ""}, // an address of the simulator
		{cluster, service, "{virtualIPProvider: KubeVIP, additionalVirtualIP: '::1'}", "", ""},
		{cluster, service, "{ingressVirtualIP: 10.20.30.160}", "", "they need addresses of their own"},
		{cluster, service, "{ingressVirtualIP: 10.20.30.161, additionalIngressVirtualIP: 10.20.30.162}",
			".additionalIngressVirtualIP", another},
		{cluster, service, `{ingressVirtualIP: 10.20.30.161, additionalIngressVirtualIP: "fd00::5"}`, "", ""},
		{cluster, service, "{virtualIPProvider: KubeVIP, additionalVirtualIP: 10.20.30.161}",
			".additionalVirtualIP", another},
		{cluster, service, `{virtualIPProvider: KubeVIP, additionalVirtualIP: "fd00::5", ingressVirtualIP: "fd00::5"}`,
			".additionalVirtualIP", "they need addresses of their own"},
		{cluster, service, "{virtualIPProvider: Keepalived, virtualRouterID: 5, ingressVirtualIP: 10.20.30.161, " +
			"ingressVirtualRouterID: 5}", ".ingressVirtualRouterID", "change or remove one"},
		{cluster, service, "{ingressVirtualRouterID: 5}", ".ingressVirtualRouterID", "needs ingressVirtualIP"},
		{cluster, service, "{virtualIPProvider: Keepalived, virtualRouterID: 256}", ".virtualRouterID",
			"less than or equal to 255"},
		{cluster, service, "{virtualIPProvider: Keepalived, loadBalancerProvider: HAProxy, apiServerPort: 6443}",
			".apiServerPort",
			"choose another apiServerPort"},
		{cluster, "spec",
			"{olvmDatacenterName: a, controlPlaneEndpoint: {host: api.example.com}, controlPlaneServices: " +
				"{virtualIPProvider: KubeVIP}, " +
				"olvmOvirtAPIServer: {serverURL: 'https://a', credentialsSecret: {name: a}}}",
			"spec.controlPlaneEndpoint.host", "write one, or set controlPlaneServices.virtualIPProvider to External"},
		{cluster, "spec",
			"{olvmDatacenterName: a, controlPlaneEndpoint: {host: api.example.com}, controlPlaneServices: " +
				"{dns: {domain: a}}, olvmOvirtAPIServer: {serverURL: 'https://a', credentialsSecret: {name: a}}}",
			"spec.controlPlaneEndpoint.host", "write one, or remove controlPlaneServices.dns"},
		{cluster, "spec.affinityGroups", "[{name: a}, {name: a}]", "[1]", "Duplicate value"},
		{cluster, "spec.affinityGroups", "[{name: a, priority: 0}]", "[0].priority", "greater than or equal to 1"},
		{cluster, "spec.failureDomains", "[{name: a}, {name: a}]", "[1]", "Duplicate value"},
		{cluster, "spec.standby", "[{name: a, role: Worker, count: -1, inventoryName: a}]", "[0].count",
			"greater than or equal to 0"},
	}

	return append(out, serverURLs()...)
}

func serverURLs() []Value {
	var out []Value

	for text, message := range map[string]string{
		"http://engine.example.com/ovirt-engine":        "begins with https://; write " + anURL,
		"ftp://engine.example.com":                      "begins with https://",
		"https://admin@engine.example.com/ovirt-engine": "without a user",
		"https://engine.example.com/ovirt-engine?a=b":   "without a user, a query and a fragment",
		"https://engine.example.com/ovirt-engine/#a":    "without a user, a query and a fragment",
		"https://": anURL,
		"https://engine.example.com:99999/ovirt-engine":     anURL,
		"https://engine.example.com:0/ovirt-engine":         anURL,
		"https://engine example.com":                        anURL,
		"https:/engine.example.com":                         anURL,
		"https://https://engine.example.com":                anURL,
		"https://engine.example.com/ovirt-engine/webadmin/": "write its base URL",
		"https://engine.example.com/ovirt-engine/api/vms":   "write its base URL",
		"https://engine.example.com/ovirt-engine":           "",
		"https://engine.example.com/ovirt-engine/api":       "",
		"https://engine.example.com/ovirt-engine/api/v4/":   "",
		"https://10.20.30.5:8443/ovirt-engine/":             "",
		"https://[fd00::5]:8443":                            "",
		"HTTPS://engine.example.com":                        "",
		"engine.example.com":                                "",
		"engine.example.com:8443/ovirt-engine":              "",
	} {
		out = append(out,
			Value{cluster, server, `"` + text + `"`, "", message},
			Value{inventory, server, `"` + text + `"`, "", message},
			Value{identity, "spec.allowedServerURLs", `["` + text + `"]`, "[0]", message})
	}

	return out
}

func otherValues() []Value {
	const (
		macs = "spec.provision[0].macAddresses"
		data = "spec.userData"
		name = "write the name of an object"
		aURL = "write the URL of a proxy, such as http://proxy.example.com:3128"
		lbs  = "spec.loadBalancers[0]"

		aPort = "write a port from 1 to 65535, or a range of them"

		key = "write one public key on one line"
	)

	return []Value{
		{services, lbs, "{name: a, machineTemplateName: a, role: Worker, ports: ['99999']}", ".ports[0]", aPort},
		{services, lbs, "{name: a, machineTemplateName: a, role: Worker, ports: ['0']}", ".ports[0]", aPort},
		{services, lbs, "{name: a, machineTemplateName: a, role: Worker, ports: ['443-']}", ".ports[0]", aPort},
		{services, lbs, "{name: a, machineTemplateName: a, role: Worker, ports: ['30002-30001']}", ".ports[0]",
			reversed},
		{services, lbs, "{name: a, machineTemplateName: a, role: Worker, ports: ['443', '443']}", ".ports[1]",
			"Duplicate value"},
		{services, lbs, "{name: a, machineTemplateName: a, role: Worker, ports: ['443', '30002-30011']}", "", ""},
		{services, lbs, "{name: a, machineTemplateName: a, role: ControlPlane, virtualIP: 10.0.0.555}", ".virtualIP",
			anIP},
		{services, lbs, "{name: a, machineTemplateName: a, role: ControlPlane, virtualIP: '::1'}", "", ""},
		{services, lbs, "{name: a, machineTemplateName: a, role: ControlPlane, virtualIP: 127.20.1.5}", "", ""},
		{inventory, "spec.recycle", `""`, "", among},
		{inventory, macs, "['56:6f:00:00:00']", "[0]", "write a MAC address such as"},
		{inventory, macs, "['56:6f:00:00:00:0f-56:6f:00:00:00:01']", "[0]", reversed},
		{inventory, macs, "['56:6f:00:00:00:01-56:6F:00:00:00:0F', '56:6f:00:00:01:00']", "", ""},
		{inventory, macs, "['01:00:5e:00:00:01-01:00:5e:00:00:0f']", "[0]",
			"the second digit of a group's address is odd"},
		{inventory, "spec.labelRules", "[{key: a, from: Host}, {key: a, from: VMTemplate}]", "",
			"a key is there twice"},
		{inventory, "spec.provision[0].machineTemplateName", "My Template", "", name},
		{inventory, "spec.provision[0].count", "-1", "", "greater than or equal to 0"},
		{cluster, "spec.olvmOvirtAPIServer", "{serverURL: 'https://a', identityRef: {name: My_Identity}}",
			".identityRef.name", name},
		{cluster, data, "{proxy: {httpProxy: 'proxy:3128'}}", ".proxy.httpProxy", aURL},
		{cluster, data, "{proxy: {httpsProxy: 'ftp://proxy:3128'}}", ".proxy.httpsProxy", aURL},
		{cluster, data, "{proxy: {httpsProxy: 'http://'}}", ".proxy.httpsProxy", aURL},
		{cluster, data, "{proxy: {httpsProxy: 'http://user:pass@proxy.example.com:3128'}}", "", ""},
		{cluster, data, "{ssh: {authorizedKeys: ['-----BEGIN OPENSSH PRIVATE KEY-----']}}", ".ssh.authorizedKeys[0]",
			key},
		{cluster, data, `{ssh: {authorizedKeys: ["ssh-ed25519 AAAA a\nssh-ed25519 BBBB b"]}}`,
			".ssh.authorizedKeys[0]", key},
		{cluster, data, "{ssh: {authorizedKeys: ['from=\"10.0.0.0/8\" ssh-ed25519 AAAA me']}}", "", ""},
		{cluster, data, "{ssh: {user: Root, authorizedKeys: ['ssh-ed25519 AAAA me']}}", ".ssh.user",
			"write a user's name"},
		{cluster, data, "{extra: [{secretKeyRef: {name: A_b, key: a}}]}", ".extra[0].secretKeyRef.name", name},
	}
}

// unionValues returns values of machines in which fields exclude or require each other.
func unionValues() []Value {
	const (
		spec    = "spec"
		made    = "vmTemplateName: ol9, olvmNetwork: {networkName: a}, "
		address = "network: {ipv4: {dhcp: true}}"
	)

	return []Value{
		{machine, "metadata.name", strings.Repeat("x", 64), "metadata.name", "at most 63 characters"},
		{machine, spec, "{virtualMachine: {memory: 8GB, " + address + "}}", "", "set vmTemplateName, olvmNetwork and"},
		{machine, spec, "{" + made + "virtualMachine: {memory: 8GB}}", "", "virtualMachine with its network"},
		{machine, spec, "{" + made + "virtualMachine: {" + address + "}}", "", "exactly one of virtualMachine.memory"},
		{machine, spec, "{" + made + "virtualMachine: {memory: 8GB, instanceType: Large, " + address + "}}", "",
			"exactly one of virtualMachine.memory"},
		{machine, spec, "{vmTemplateName: ol9, fromInventory: {inventoryName: a}}", "", "remove vmTemplateName,"},
		{machine, spec, "{fromInventory: {inventoryName: a}, virtualMachine: {memory: 8GB}}", "",
			"only network and shutdown can be set"},
		{machine, spec, "{fromInventory: {inventoryName: a}, virtualMachine: {shutdown: {mode: Stop}}}", "", ""},
		{machine, vm, "{instanceType: Large, cpu: {autoPinningPolicy: resize_and_pin}, " + address + "}",
			".instanceType", "remove cpu.autoPinningPolicy"},
		{machine, more, "[{networkName: a, guest: {ipv4: {dhcp: true}}}]", "[0]", "set guest.interface"},
		{machine, more, "[{vnicName: nic2}]", "[0]", "set networkName, vnicProfileName or both"},
		{machine, net, "{ipProfileName: a, ipv4: {dhcp: true}}", "", "ipProfileName says where addresses come from"},
		{machine, net, "{ipv4: {dhcp: true}, addressesFromPools: [{apiGroup: a, kind: B, name: c}]}", "",
			"addressesFromPools says where addresses come from"},
		{machine, net, "{ipv4: {dhcp: true, subnet: 10.0.0.0/24}}", ".ipv4", "set subnet and ipAddresses, or dhcp"},
		{machine, net, "{ipv4: {subnet: 10.0.0.0/24}}", ".ipv4", "set subnet and ipAddresses, or dhcp"},
		{machine, net, "{ipv6: {autoConf: true, dhcp: true}}", ".ipv6", "set one of autoConf and dhcp"},
		{machine, net, "{ipv6: {ipAddresses: ['fd00::5'], dhcp: true}}", ".ipv6", "set one of ipAddresses and dhcp"},
		{machine, "spec.userData.extra", "[{}]", "[0]", "set exactly one of inline, configMapKeyRef"},
		{machine, "spec.userData.extra", "[{inline: a, secretKeyRef: {name: a, key: b}}]", "[0]", "set exactly one of"},
		{machine, "spec.userData.proxy", "{noProxy: [a]}", "", "set httpProxy, httpsProxy or both"},
	}
}

// unionsOfOthers returns such values of clusters, inventories, identities and services.
func unionsOfOthers() []Value {
	const (
		spec   = "spec"
		lbs    = "spec.loadBalancers[0]"
		engine = "spec.olvmOvirtAPIServer"
		anURL  = "serverURL: 'https://a'"
	)

	return []Value{
		{cluster, "spec.controlPlaneEndpoint", "{host: 'https://a'}", "", "host must be an IP address or a DNS name"},
		{cluster, "spec.failureDomains", "[{name: a, hosts: {names: [a], affinityLabel: b}}]", "[0].hosts",
			"either by names or by affinityLabel"},
		{cluster, engine, "{" + anURL + "}", "", "set credentialsSecret for a Secret, or identityRef"},
		{cluster, engine, "{" + anURL + ", credentialsSecret: {name: a}, identityRef: {name: a}}", "", "and not both"},
		{cluster, engine, "{" + anURL + ", identityRef: {name: a}, insecureSkipTLSVerify: true}", "",
			"remove caConfigMap and insecureSkipTLSVerify"},
		{cluster, service, "{additionalVirtualIP: 'fd00::5'}", "", "additionalVirtualIP needs virtualIPProvider"},
		{cluster, service, "{loadBalancerProvider: Nginx}", "", "loadBalancerProvider needs virtualIPProvider"},
		{cluster, service, "{nginxImage: a}", "", "nginxImage needs loadBalancerProvider Nginx"},
		{cluster, service, "{kubeVIPImage: a}", "", "kubeVIPImage needs virtualIPProvider KubeVIP"},
		{inventory, "spec.provision", "[{name: a, machineTemplateName: a}]", "[0]", "set count or countPerHost"},
		{inventory, "spec.provision", "[{name: a, machineTemplateName: a, count: 1, countPerHost: 1}]", "[0]",
			"set count or countPerHost"},
		{inventory, "spec.labelRules", "[{key: a, from: CustomProperty}]", "[0]", "set property for"},
		{inventory, "spec.labelRules", "[{key: a, from: Host, property: b}]", "[0]", "and for no other"},
		{inventoryVM, spec, "{inventoryName: a}", "", "vmID says which VM it is"},
		{identity, "spec.allowedNamespaces", "{}", "", "at least 1 properties"},
		{identity, "spec.allowedNamespaces", "{list: []}", ".list", "at least 1 items"},
		{identity, "spec.allowedNamespaces", "{selector: {matchLabels: {}}}", ".selector", "must not be empty"},
		{identity, "spec.allowedNamespaces", "{selector: {}}", "", ""},
		{services, "spec.clusterName", "another", "metadata.name", "metadata.name must be that of the Cluster"},
		{services, lbs, "{name: a, machineTemplateName: a, role: ControlPlane, replicas: 2}", "",
			"replicas 2 needs virtualIP"},
		{services, lbs, "{name: a, machineTemplateName: a, role: Worker}", "", "ports must be set for the role Worker"},
		{services, lbs, "{name: a, machineTemplateName: a, role: Worker, ports: ['443'], backendPort: 443}", "",
			"backendPort is for the role ControlPlane"},
	}
}

const (
	anObject  = "write the name of an object"
	atEnds    = "write a name without spaces and line breaks at its ends"
	aLabel    = "write lower case letters, digits and dashes"
	aLabelKey = "write the key of a label"
)

// namesOfObjects returns names of Kubernetes objects.
func namesOfObjects() []Value {
	const (
		engine = "spec.olvmOvirtAPIServer"
		lb     = "spec.loadBalancers[0]"
		jump   = "spec.jumpHost"
		login  = "{machineTemplateName: a, authorizedKeys: ['ssh-ed25519 AAAA me'], "
		claim  = "{id: a, clusterName: a, role: Worker, group: MachineSet/a, "
		uuid   = "{inventoryName: a, vmID: 123e4567-e89b-12d3-a456-426614174000, "
	)

	return []Value{
		{cluster, engine, "{serverURL: 'https://a', credentialsSecret: {name: My_Secret}}", ".credentialsSecret.name",
			anObject},
		{cluster, engine, "{serverURL: 'https://a', credentialsSecret: {name: a, namespace: My.Team}}",
			".credentialsSecret.namespace", "write the name of a namespace"},
		{cluster, engine, "{serverURL: 'https://a', credentialsSecret: {name: a, namespace: ''}}", "", ""},
		// Oracle's
		{cluster, engine, "{serverURL: 'https://a', credentialsSecret: {name: a}, caConfigMap: {name: 'ca.'}}",
			".caConfigMap.name", anObject},
		{inventory, engine, "{serverURL: 'https://a', credentialsSecret: {name: a/b}}", ".credentialsSecret.name",
			anObject},
		{cluster, "spec.standby", "[{name: a, role: Worker, count: 1, inventoryName: My Pool}]", "[0].inventoryName",
			anObject},
		{cluster, "spec.standby", "[{name: A, role: Worker, count: 1, inventoryName: a}]", "[0].name", aLabel},
		{machine, "spec", "{fromInventory: {inventoryName: Pool}}", ".fromInventory.inventoryName", anObject},
		{services, lb, "{name: a, role: ControlPlane, machineTemplateName: A}", ".machineTemplateName", anObject},
		{services, lb, "{name: a_b, role: ControlPlane, machineTemplateName: a}", ".name", aLabel},
		{services, jump, "{machineTemplateName: a, authorizedKeys: [me]}", ".authorizedKeys[0]",
			"write one public key"},
		{services, jump, login + "user: Root}", ".user", "write a user's name"},
		{services, jump, login + "nodeUser: 'a b'}", ".nodeUser", "write a user's name"},
		{services, jump, login + "nodeKeysSecretName: A}", ".nodeKeysSecretName", anObject},
		{services, jump, login + "kubeconfigSecretName: a_b}", ".kubeconfigSecretName", anObject},
		{services, jump, login + "engineCredentialsSecretName: default/a}", ".engineCredentialsSecretName", anObject},
		{services, jump, login + "user: ops, nodeUser: core, nodeKeysSecretName: a.b}", "", ""},
		{inventory, "spec.provision[0].name", "My_VMs", "", aLabel},
		{inventoryVM, "spec", "{inventoryName: A, vmID: 123e4567-e89b-12d3-a456-426614174000}", ".inventoryName",
			anObject},
		{inventoryVM, "spec.vmID", "vm-1/../../../../users/1234567890123", "", "write the engine's UUID of the VM"},
		{inventoryVM, "spec.vmID", "123e4567-e89b-12d3-a456-42661417400g", "", "write the engine's UUID of the VM"},
		{inventoryVM, "spec.vmID", "123E4567-E89B-12D3-A456-426614174000", "", ""},
		{inventoryVM, "spec", uuid + "claimRef: " + claim + "machineName: A}}", ".claimRef.machineName", anObject},
		{inventoryVM, "spec", uuid + "claimRef: {id: 'a b', clusterName: a, role: Worker, group: a}}", ".claimRef.id",
			"write the id of a claim"},
		{inventoryVM, "spec", uuid + "claimRef: {id: a, clusterName: A, role: Worker, group: a}}",
			".claimRef.clusterName", anObject},
		{inventoryVM, "spec", uuid + "claimRef: " + claim + "machineName: a}}", "", ""},
		{inventoryVM, "spec", uuid + "fromProvision: {provisionName: A, machineTemplateName: a}}",
			".fromProvision.provisionName", aLabel},
		{inventoryVM, "spec", uuid + "fromProvision: {provisionName: a, machineTemplateName: A}}",
			".fromProvision.machineTemplateName", anObject},
		{inventoryVM, "spec", uuid + "fromProvision: {provisionName: a, machineTemplateName: a, " +
			"nics: [{name: nic1, macAddress: '56:6f'}]}}", ".fromProvision.nics[0].macAddress", "write a MAC address"},
	}
}

// namesInTheEngine returns names that are impossible in the engine.
func namesInTheEngine() []Value {
	const tag = "write a tag of the engine"

	var out []Value

	for _, wrong := range []string{`" a"`, `"a "`, `"a\n"`} {
		for _, field := range []string{
			"olvmOvirtClusterName", "vmTemplateName", "olvmNetwork.networkName", "olvmNetwork.vnicProfileName",
			"virtualMachine.rootDisk.storageDomainName", "virtualMachine.osType",
			"virtualMachine.highAvailability.leaseStorageDomainName",
		} {
			out = append(out, Value{machine, "spec." + field, wrong, "", atEnds})
		}

		for _, field := range []string{"hostDevices", "placement.hostNames"} {
			out = append(out, Value{machine, vm + "." + field, "[" + wrong + "]", "[0]", atEnds})
		}

		out = append(out,
			Value{machine, vm + ".mediatedDevices", "[{type: " + wrong + "}]", "[0].type", atEnds},
			Value{machine, vm + ".dataDisks", "[{name: a, size: 1GB, storageDomainName: " + wrong + "}]",
				"[0].storageDomainName", atEnds},
			Value{cluster, "spec.olvmDatacenterName", wrong, "", atEnds},
			Value{cluster, "spec.failureDomains", "[{name: a, hosts: {names: [" + wrong + "]}}]", "[0].hosts.names[0]",
				atEnds},
			Value{cluster, "spec.failureDomains", "[{name: a, olvmOvirtClusterName: " + wrong + "}]",
				"[0].olvmOvirtClusterName", atEnds},
			Value{inventory, "spec.olvmDatacenterName", wrong, "", atEnds},
			Value{inventory, "spec.virtualMachines.olvmOvirtClusterName", wrong, "", atEnds})
	}

	return append(out,
		Value{machine, "spec.vmTemplateName", "ol9-${VERSION}", "", "only that of KUBERNETES_VERSION is replaced"},
		Value{machine, "spec.vmTemplateName", "ol9-$${KUBERNETES_VERSION}", "",
			"only that of KUBERNETES_VERSION is replaced"},
		Value{machine, "spec.vmTemplateName", "ol9-${KUBERNETES_VERSION}", "", ""},
		Value{machine, "spec.vmTemplateName", "Oracle Linux 9", "", ""},
		Value{machine, "spec.providerID", "aws:///eu-1/i-0123", "", "write olvm:// and the engine's UUID"},
		Value{machine, "spec.providerID", "olvm://", "", "write olvm:// and the engine's UUID"},
		Value{machine, "spec.providerID", `""`, "", ""}, // Oracle's
		Value{machine, vm + ".tags", "['my tag']", "[0]", tag},
		Value{machine, vm + ".tags", "[my-tag_1]", "", ""},
		Value{inventory, "spec.virtualMachines.tag", "a/b", "", tag},
		Value{machine, "spec.olvmNetwork.vnicName", "nic 1", "", "write letters, digits, dots"},
		Value{machine, vm + ".dataDisks", "[{name: 'a b', size: 1GB}]", "[0].name", "write letters, digits, dots"},
		Value{machine, vm + ".customProperties", "[{name: 'a=b', value: c}]", "[0].name",
			"write the name of one property"},
		Value{cluster, "spec.affinityGroups", "[{name: My Group}]", "[0].name", aLabel},
		Value{machine, vm + ".placement.affinityGroupNames", "[My Group]", "[0]", aLabel},
		Value{machine, vm + ".placement.affinityGroupNames", "[etcd]", "", ""},
	)
}

// namesInGuests returns names of network interfaces and domains.
func namesInGuests() []Value {
	const anInterface = "write what the guest calls the network interface"

	var out []Value

	for text, message := range map[string]string{
		"en p1": anInterface, "eth0/1": anInterface, "eth0:1": anInterface, "..": anInterface, "enpü": anInterface,
		"enp2s0": "", "bond0.100": "", "br-lan": "",
	} {
		out = append(out,
			Value{machine, net, `{interface: "` + text + `", ipv4: {dhcp: true}}`, ".interface", message},
			Value{machine, more, `[{networkName: a, guest: {interface: "` + text + `", ipv4: {dhcp: true}}}]`,
				"[0].guest.interface", message})
	}

	return append(out,
		Value{machine, net + ".interface", `""`, "", ""}, // Oracle's
		Value{machine, net + ".searchDomains", "[" + strings.Repeat("a", 64) + ".b]", "[0]",
			"parts of 1 to 63 characters"},
		Value{cluster, service, "{dns: {domain: Lab.example.com}}", ".dns.domain",
			"write a domain of lower case letters"},
		Value{cluster, service, "{dns: {domain: " + strings.Repeat("a.", 100) + "bc}}", ".dns.domain",
			"at most 200 characters"},
		Value{cluster, service, "{dns: {domain: lab.example.com}}", "", ""},
		Value{machine, net, "{addressesFromPools: [{apiGroup: a, kind: B, name: c}, {apiGroup: a, kind: B, name: c}]}",
			".addressesFromPools", "a pool is there twice"},
	)
}

// selectorValues returns label selectors.
func selectorValues() []Value {
	const needs = "In and NotIn need values, and Exists and DoesNotExist have none"

	var out []Value

	for text, at := range map[string]Value{
		"{matchExpressions: [{key: a, operator: Equals, values: [b]}]}": {Field: "matchExpressions[0].operator",
			Message: among},
		"{matchExpressions: [{key: a, operator: In}]}": {Field: "matchExpressions[0].values",
			Message: needs},
		"{matchExpressions: [{key: a, operator: In, values: []}]}": {Field: "matchExpressions[0].values",
			Message: needs},
		"{matchExpressions: [{key: a, operator: Exists, values: [b]}]}": {Field: "matchExpressions[0].values",
			Message: needs},
		"{matchExpressions: [{key: 'a b', operator: Exists}]}": {Field: "matchExpressions[0].key",
			Message: aLabelKey},
		"{matchExpressions: [{key: a, operator: In, values: ['b c']}]}": {Field: "matchExpressions[0].values[0]",
			Message: "write the value of a label"},
		"{matchLabels: {'a b': c}}": {Field: "matchLabels", Message: "a key cannot be that of a label"},
		"{matchLabels: {a: " + strings.Repeat("b", 64) + "}}": {Field: "matchLabels",
			Message: "the value of a label has at most 63 characters"},
		"{matchLabels: {example.com/a: b}, matchExpressions: [{key: c, operator: NotIn, values: [d, '']}]}": {},
	} {
		out = append(out,
			Value{machine, "spec", "{fromInventory: {inventoryName: a, selector: " + text + "}}",
				".fromInventory.selector." + at.Field, at.Message},
			Value{cluster, "spec.standby", "[{name: a, role: Worker, count: 1, inventoryName: a, selector: " + text +
				"}]",
				"[0].selector." + at.Field, at.Message},
			Value{identity, "spec.allowedNamespaces", "{selector: " + text + "}", ".selector." + at.Field, at.Message})
	}

	return append(out,
		Value{machine, "spec", "{fromInventory: {inventoryName: a, topologyKey: rack/}}", ".fromInventory.topologyKey",
			aLabelKey},
		Value{machine, "spec", "{fromInventory: {inventoryName: a, topologyKey: my rack}}",
			".fromInventory.topologyKey",
			aLabelKey},
		Value{machine, "spec", "{fromInventory: {inventoryName: a, topologyKey: ''}}", ".fromInventory.topologyKey",
			"at least 1 chars"},
		Value{machine, "spec", "{fromInventory: {inventoryName: a, networkName: ' a'}}", ".fromInventory.networkName",
			atEnds},
		Value{inventory, "spec.labelRules", "[{key: a b, from: Host}]", "[0].key", aLabelKey},
		Value{inventory, "spec.labelRules", "[{key: inventory.infrastructure.cluster.x-k8s.io/name, from: Host}]",
			"[0].key",
			"write another key"},
		Value{inventory, "spec.labelRules", "[{key: a, from: CustomProperty, property: ' b'}]", "[0].property", atEnds},
	)
}

// imageValues returns names of container images, and ports of nodes.
func imageValues() []Value {
	const anImage = "write a container image such as"

	var out []Value

	for text, message := range map[string]string{
		"https://registry.example.com/nginx": anImage, "nginx latest": anImage, "registry.example.com/Nginx": anImage,
		"nginx:": anImage, "nginx@sha256:0123": anImage, "/nginx": anImage, "registry.example.com/nginx:v1:v2": anImage,
		"nginx": "", "nginx:1.27-alpine": "", "registry.example.com:5000/a/b_c/nginx:v1": "",
		"localhost:5000/nginx@sha256:" + strings.Repeat("0a", 32): "", "[fd00::1]:5000/nginx": "",
		"nginx@sha512:" + strings.Repeat("0a", 64): "",
	} {
		quoted := `"` + text + `"`
		out = append(out,
			Value{cluster, service, "{virtualIPProvider: Keepalived, loadBalancerProvider: Nginx, nginxImage: " +
				quoted +
				"}", ".nginxImage", message},
			Value{cluster, service, "{virtualIPProvider: KubeVIP, kubeVIPImage: " + quoted + "}", ".kubeVIPImage",
				message},
			Value{cluster, service, "{dns: {domain: a, image: " + quoted + "}}", ".dns.image", message})
	}

	for _, port := range []string{"22", "2379", "2380", "10250", "10257", "10259"} {
		out = append(out, Value{cluster, service, "{virtualIPProvider: Keepalived, loadBalancerProvider: HAProxy, " +
			"apiServerPort: " + port + "}", ".apiServerPort", "choose another, such as 6444"})
	}

	return out
}

// proxyValues returns URLs of proxies, and addresses that bypass a proxy.
func proxyValues() []Value {
	const (
		aURL  = "write the URL of a proxy, such as http://proxy.example.com:3128"
		entry = "write one name, domain, IP address or network in each item"
		data  = "spec.userData"
	)

	var out []Value

	for text, message := range map[string]string{
		"http://proxy.example.com:99999": aURL, "http://proxy.example.com:port": aURL, "http://proxy example.com": aURL,
		"http://proxy.example.com:0": aURL, "http://[fd00::5]:3128": "", "http://proxy.example.com": "",
		"https://user:p%40ss@proxy.example.com:3128/": "",
	} {
		out = append(out, Value{cluster, data, `{proxy: {httpProxy: "` + text + `"}}`, ".proxy.httpProxy", message})
	}

	for text, message := range map[string]string{
		"http://example.com": entry, "a.example.com,b.example.com": entry, "a b": entry, "10.0.0.0/33": entry,
		"10.20.30.300": entry, "10.20.30.*": entry, "/24": entry, "example.com/path": entry,
		".example.com": "", "*.example.com": "", "example.com": "", "10.20.30.5": "", "10.20.0.0/16": "",
		"fd00::/64": "", "fd00::5": "", "[fd00::5]:443": "", "engine.example.com:443": "", "*": "", ".svc": "",
		"example.com.": "",
	} {
		out = append(out, Value{machine, data, `{proxy: {httpProxy: "http://a", noProxy: ["` + text + `"]}}`,
			".proxy.noProxy[0]", message})
	}

	for text, message := range map[string]string{"a b": "write a key of the object's data", "..": "write a key of the",
		"a/b": "write a key of the", "user-data_1.yaml": ""} {
		out = append(out,
			Value{machine, data, `{extra: [{secretKeyRef: {name: a, key: "` + text + `"}}]}`,
				".extra[0].secretKeyRef.key",
				message},
			Value{cluster, data, `{extra: [{configMapKeyRef: {name: a, key: "` + text + `"}}]}`,
				".extra[0].configMapKeyRef.key", message})
	}

	return out
}

// ofServices returns values of load balancers, and of provisions with named VMs.
func ofServices() []Value {
	const (
		balancers = "spec.loadBalancers"
		worker    = "{machineTemplateName: a, role: Worker, ports: ['443'], "
		named     = "which are host names of at most 63 characters; shorten"
	)

	ports := func(list, message string) Value {
		return Value{services, balancers, "[{name: a, machineTemplateName: a, role: Worker, ports: " + list + "}]",
			"[0].ports", message}
	}
	of := func(name, spec, at, message string) Value {
		return Value{services, "spec", "{clusterName: " + name + ", " + spec + "}", at, message}
	}
	long := strings.Repeat("c", 52)

	return []Value{
		ports("['443', '400-500']", "have each port once"),
		ports("['400-500', '450-460']", "have each port once"),
		ports("['1900-2000']", "the VM uses port 1936 itself"),
		ports("['1936']", "the VM uses port 1936 itself"),
		ports("['30000-30256']", "a load balancer has at most 256 ports"),
		ports("['30000-30255']", ""),
		ports("['1935', '1937', '443', '80']", ""),
		{services, balancers, "[" + worker + "name: a, virtualIP: 10.0.0.5}, " + worker +
			"name: b, virtualIP: 10.0.0.5}]",
			"", "give each its own"},
		{services, balancers, "[" + worker + "name: a, virtualIP: 'fd00::5'}, " + worker +
			"name: b, virtualIP: 'fd00:0::5'}]", "", "give each its own"},
		{services, balancers, "[" + worker + "name: a, virtualIP: 10.0.0.5, virtualRouterID: 7}, " + worker +
			"name: b, virtualIP: 10.0.0.6, virtualRouterID: 7}]", "", "change or remove one"},
		{services, balancers, "[" + worker + "name: a, virtualIP: 10.0.0.5, virtualRouterID: 7}, " + worker +
			"name: b, virtualIP: 10.0.0.6, virtualRouterID: 8}]", "", ""},
		{services, balancers, "[" + worker + "name: a, virtualRouterID: 7}]", "[0].virtualRouterID", "needs virtualIP"},
		of(long, "loadBalancers: [{name: abcdef, machineTemplateName: a, role: ControlPlane}]", ".loadBalancers",
			named),
		of(long, "jumpHost: {machineTemplateName: a, authorizedKeys: ['ssh-ed25519 AAAA me']}", ".jumpHost",
			"name the Cluster shorter"),
		of(long+"ccccc", "oidc: {issuer: 'https://a', clients: [{id: a}], connectorsSecretName: a, caSecretName: a, "+
			"machineTemplateName: a}", ".oidc", "name the Cluster shorter"),
		{inventory, "metadata.name", strings.Repeat("i", 58), "spec.provision", named},
		{inventory, "metadata.name", strings.Repeat("i", 57), "", ""},
		{inventory, "spec.provision[0].macAddresses", "['56:6f:00:00:00:0A', '56:6f:00:00:00:0a']", "",
			"is there twice"},
	}
}

// issuerValues returns values of a provider of OpenID Connect.
func issuerValues() []Value {
	const (
		anIssuer = "write the URL of the issuer"
		back     = "spec.oidc"
	)

	with := func(issuer, client, at, message string) Value {
		return Value{services, back, "{machineTemplateName: a, connectorsSecretName: a, caSecretName: a, issuer: '" +
			issuer + "', clients: [" + client + "]}", at, message}
	}

	var out []Value

	for text, message := range map[string]string{
		"http://10.20.30.9:5556/dex": anIssuer, "https://10.20.30.9:99999/dex": anIssuer, "https://a:0": anIssuer,
		"https://a:port/dex": anIssuer, "https://user@a/dex": anIssuer, "https://a/dex?b=c": anIssuer,
		"https:///dex": anIssuer, "https://-a/dex": anIssuer, "https://ü.example.com": anIssuer, "10.20.30.9": anIssuer,
		"https://10.20.30.300:5556/dex": "the host looks like an IP address and is none",
		"https://10.20.30.9:5556/dex":   "", "https://login.example.com": "", "https://[fd00::9]:5556/dex": "",
	} {
		out = append(out, with(text, "{id: a}", ".issuer", message))
	}

	for text, message := range map[string]string{
		"localhost:8000/callback#a": "write a whole URI", "/callback": "write a whole URI",
		"http://a b": "write a whole URI",
		"http://":    "write a URL with a host", "https://a:99999/b": "write a URL with a host",
		"http:/a":               "write a URL with a host",
		"http://localhost:8000": "", "https://app.example.com/callback?a=b": "", "urn:ietf:wg:oauth:2.0:oob": "",
		"com.example.app:/callback": "",
	} {
		out = append(out, with("https://a", `{id: a, redirectURIs: ["`+text+`"]}`, ".clients[0].redirectURIs[0]",
			message))
	}

	return append(out,
		with("https://a", "{id: my client}", ".clients[0].id", "write the ID of a client"),
		with("https://a", "{id: a}, {id: a}", ".clients[1]", "Duplicate value"),
		Value{services, back,
			"{machineTemplateName: a, connectorsSecretName: A, caSecretName: a, issuer: 'https://a', " +
				"clients: [{id: a}]}", ".connectorsSecretName", anObject},
		Value{services, back,
			"{machineTemplateName: a, connectorsSecretName: a, caSecretName: A, issuer: 'https://a', " +
				"clients: [{id: a}]}", ".caSecretName", anObject},
	)
}

// identityValues returns values of OLVMClusterIdentities.
func identityValues() []Value {
	const (
		list   = "spec.allowedNamespaces"
		secret = "spec.credentialsSecret"
		ca     = "spec.caConfigMap"
		space  = "write the name of a namespace"
	)

	return []Value{
		{identity, list, "{list: ['*']}", ".list", "write selector: {} to allow all namespaces"},
		{identity, list, "{list: [Team]}", ".list[0]", space},
		{identity, list, "{list: ['team-a,team-b']}", ".list[0]", space},
		{identity, list, "{list: ['']}", ".list[0]", "at least 1 chars"},
		{identity, list, "{list: [team-a, team-b]}", "", ""},
		{identity, secret, "{namespace: A, name: a}", ".namespace", space},
		{identity, secret, "{namespace: a, name: A}", ".name", anObject},
		{identity, ca, "{namespace: A, name: a}", ".namespace", space},
		{identity, ca, "{namespace: a, name: a_b}", ".name", anObject},
		{identity, ca, "{namespace: a, name: a.b}", "", ""},
	}
}
