package clusterfile

import (
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/util/validation"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// These are the defaults of missing keys.
const (
	defaultName          = "ocne"
	defaultNamespace     = "ocne"
	defaultVersion       = "1.33"
	defaultPodSubnet     = "10.244.0.0/16"
	defaultServiceSubnet = "10.96.0.0/12"
	defaultPort          = 6443
	defaultPortAlt       = 6444
	defaultRegistry      = "container-registry.oracle.com"
	defaultOSRegistry    = defaultRegistry + "/olcne/ock-ostree"
	defaultControlMemory = "7GB"
	defaultWorkerMemory  = "16GB"
	defaultInterface     = "enp1s0"
)

// patches maps Kubernetes versions without a patch to the newest patch among Oracle's images.
var patches = map[string]string{
	"1.26": "1.26.6",
	"1.27": "1.27.12",
	"1.28": "1.28.8",
	"1.29": "1.29.3",
	"1.30": "1.30.3",
	"1.31": "1.31.0",
	"1.32": "1.32.0",
	"1.33": "1.33.5",
}

// setDefaults sets the missing keys.
func (f *File) setDefaults() {
	setText(&f.Name, defaultName)
	setText(&f.KubernetesVersion, defaultVersion)
	if f.isIPv6Only() {
		setText(&f.PodSubnet, defaultPodSubnet6)
		setText(&f.ServiceSubnet, defaultServiceSubnet6)
	}

	setText(&f.PodSubnet, defaultPodSubnet)
	setText(&f.ServiceSubnet, defaultServiceSubnet)
	setText(&f.Registry, defaultRegistry)
	setText(&f.OSRegistry, defaultOSRegistry)
	setNumber(&f.KubeAPIServerBindPort, defaultPort)
	f.ControlPlaneNodes, f.WorkerNodes = max(f.ControlPlaneNodes, 1), max(f.WorkerNodes, 1)
	setText(f.selectProvider().namespace, defaultNamespace)
	f.selectProvider().setDefaults()
}

// setText and setNumber set a field if it is empty.
func setText(field *string, value string) { *field = cmp.Or(*field, value) }

func setNumber(field *int32, value int32) { *field = cmp.Or(*field, value) }

// setOLVMDefaults sets the missing settings of the provider olvm.
func (f *File) setOLVMDefaults() {
	o := &f.Providers.OLVM
	setNumber(&o.LocalAPIEndpoint.BindPort, f.KubeAPIServerBindPortAlt)
	setNumber(&o.LocalAPIEndpoint.BindPort, defaultPortAlt)
	setText(&o.OvirtAPIServer.CredentialsSecret.Name, CredentialsOf(f.Name))
	setText(&o.OvirtAPIServer.CAConfigMap.Name, f.Name+"-ovirt-ca")
	setText(&o.ControlPlaneMachine.VirtualMachine.Memory, defaultControlMemory)
	setText(&o.WorkerMachine.VirtualMachine.Memory, defaultWorkerMemory)

	for _, m := range []*Machine{&o.ControlPlaneMachine, &o.WorkerMachine} {
		setText(&m.VirtualMachine.Network.Interface, defaultInterface)
		topology := &m.VirtualMachine.CPU.Topology
		setNumber(&topology.Cores, desired.DefaultCores)
		setNumber(&topology.Sockets, desired.DefaultSockets)
		setNumber(&topology.Threads, desired.DefaultThreads)
	}
}

// Validate fills in defaults. It returns all problems that can be found without the engine, in the order of the file.
func (s *Source) Validate() []Problem {
	for path, count := range map[string]int{"controlPlaneNodes": s.ControlPlaneNodes, "workerNodes": s.WorkerNodes} {
		if count < 0 {
			s.noteProblem(false, path, "%d is less than 0", count)
		}
	}

	if nodeAt(s.documents[0].root, "workerNodes").Value == "0" {
		s.noteProblem(
			true, "workerNodes",
			"0 means 1, as with ocne; for a cluster without workers, run olvmctl scale --workers 0",
		)
	}

	s.setDefaults()
	s.checkTop()
	s.checkNetworks()
	s.selectProvider().check(s)
	s.checkUser()
	s.checkTransport()
	s.checkUnused()
	slices.SortStableFunc(s.problems, func(a, b Problem) int {
		return cmp.Or(lineOrder(a)-lineOrder(b), strings.Compare(a.Path, b.Path))
	})

	return s.problems
}

// checkOLVM checks the settings of the provider olvm.
func (s *Source) checkOLVM() {
	s.checkDNSServers()
	s.checkRequired()
	s.checkServer()
	s.checkMachines()
	s.checkStorageDriver()
	s.checkStorageClasses()
	s.checkLoadBalancers()

	if alt := s.KubeAPIServerBindPortAlt; alt != 0 && alt != s.Providers.OLVM.LocalAPIEndpoint.BindPort {
		s.noteProblem(
			false, "kubeApiServerBindPortAlt",
			"%d conflicts with providers.olvm.localAPIEndpoint.bindPort, which is %d; remove one of them", alt,
			s.Providers.OLVM.LocalAPIEndpoint.BindPort,
		)
	}
}

// transports matches the transport of an operating system image.
var transports = regexp.MustCompile(`^ostree-[a-z-]+(:[a-z-]+)?$`)

func (s *Source) checkTransport() {
	switch {
	case s.OSTransport != "" && !transports.MatchString(s.OSTransport):
		s.noteProblem(
			false, "osTransport",
			"invalid transport %q; use for example ostree-image-signed:registry",
			s.OSTransport,
		)
	case s.OSTransport == "ostree-unverified-registry":
		s.noteProblem(true, "osTransport", "nodes do not verify the signatures of operating system updates")
	}
}

func (s *Source) checkStorageDriver() {
	switch credentials := s.Providers.OLVM.CSIDriver.Credentials; credentials {
	case "", DriverOwn, DriverMachines:
	default:
		s.noteProblem(false, "providers.olvm.ovirtCsiDriver.credentials", "unsupported value %q; use %s or %s",
			credentials,
			DriverOwn, DriverMachines)
	}
}

// lineOrder returns the position of a problem in a sorted list. Problems without a line come last.
func lineOrder(p Problem) int {
	if p.Line == 0 {
		return 1 << 30
	}

	return p.Line
}

// HasErrors reports whether any of the problems is not just a warning.
func HasErrors(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning })
}

func (s *Source) checkRequired() {
	o := &s.Providers.OLVM

	fields := []struct{ path, value string }{
		{"virtualIp", s.VirtualIP},
		{"providers.olvm.olvmDatacenterName", o.DatacenterName},
		{"providers.olvm.olvmOvirtAPIServer.serverURL", o.OvirtAPIServer.ServerURL},
	}
	for name, m := range s.machinesByPath() {
		own := s.addressFamily(m.VirtualMachine.Network)
		fields = append(fields, []struct{ path, value string }{
			{name + "olvmOvirtClusterName", m.OvirtClusterName}, {name + "vmTemplateName", m.VMTemplateName},
			{name + "olvmNetwork.networkName", m.Network.NetworkName},
			{name + "olvmNetwork.vnicProfileName", m.Network.VNICProfileName},
			{name + "virtualMachine.network." + own.field + ".subnet", own.subnet},
			{name + "virtualMachine.network." + own.field + ".ipAddresses", own.addresses},
		}...)
	}

	slices.SortFunc(fields, func(a, b struct{ path, value string }) int { return strings.Compare(a.path, b.path) })

	for _, f := range fields {
		if strings.TrimSpace(f.value) == "" && !s.isNoted(f.path) {
			s.noteProblem(false, f.path, "required")
		}
	}
}

// isNoted reports whether a key, or one of its parents, already has an error. After an error about the type of a key,
// more errors do not help the user.
func (s *Source) isNoted(path string) bool {
	return slices.ContainsFunc(s.problems, func(p Problem) bool {
		return !p.Warning && (p.Path == path || strings.HasPrefix(path, p.Path+"."))
	})
}

// checkDNSServers rejects invalid addresses, and warns about machines without DNS servers.
func (s *Source) checkDNSServers() {
	for name, m := range s.machinesByPath() {
		path := name + "virtualMachine.network.dnsServers"
		if len(splitList(m.VirtualMachine.Network.DNSServers)) == 0 && !s.older && !s.configuresDNS() {
			s.noteProblem(
				true,
				path,
				"no DNS servers: nodes cannot resolve names or pull images, unless their image configures DNS "+
					"servers; add a DNS server, such as 10.20.30.53",
			)
		}

		for _, server := range splitList(m.VirtualMachine.Network.DNSServers) {
			if _, err := netip.ParseAddr(server); err != nil {
				s.noteProblem(false, path, "invalid IP address %q; use for example 10.20.30.53", server)
			}
		}
	}
}

// configuresDNS reports whether the user data in the file seems to configure DNS servers.
func (s *Source) configuresDNS() bool {
	extra, err := s.extraIgnition()
	text := strings.ToLower(string(extra))

	return err == nil && (strings.Contains(text, "resolv") || strings.Contains(text, "nameserver") ||
		strings.Contains(text, "dns"))
}

// machinesByPath returns the settings of machines by their path.
func (f *File) machinesByPath() map[string]*Machine {
	return map[string]*Machine{
		"providers.olvm.controlPlaneMachine.": &f.Providers.OLVM.ControlPlaneMachine,
		"providers.olvm.workerMachine.":       &f.Providers.OLVM.WorkerMachine,
	}
}

var minor = regexp.MustCompile(`^v?(1\.[0-9]+)(\.[0-9]+([-+].*)?)?$`)

// Version returns the Kubernetes version with its patch version, such as v1.33.5, or "" if it is invalid.
func (f *File) Version() string {
	match := minor.FindStringSubmatch(f.KubernetesVersion)
	switch {
	case match == nil:
		return ""
	case match[2] != "":
		return "v" + match[1] + match[2]
	case patches[match[1]] != "":
		return "v" + patches[match[1]]
	}

	return ""
}

// CredentialsOf returns the default name of the Secret with the engine credentials of a cluster.
func CredentialsOf(cluster string) string { return cluster + "-ovirt-credentials" }

// BootImage returns the container image with the boot disk of nodes, and the tag of this image. It is the OCK image for
// the Kubernetes version in the file. Missing keys have their default values.
func (f *File) BootImage() (image, tag string, err error) {
	wanted := cmp.Or(f.KubernetesVersion, defaultVersion)
	match := minor.FindStringSubmatch(wanted)
	if match == nil {
		return "", "", fmt.Errorf("invalid Kubernetes version %q; use for example %s", wanted, defaultVersion)
	}

	return cmp.Or(f.Registry, defaultRegistry) + "/olcne/ock:" + match[1], match[1], nil
}

// labelHelp explains the rules for a DNS label.
const labelHelp = "use up to 63 lower case letters, digits and hyphens; start and end with a letter or a digit"

// oldestMinor is the oldest minor version of Kubernetes that Cluster API supports.
const oldestMinor = 31

// checkAge warns about a version that Cluster API no longer supports.
func (s *Source) checkAge() {
	parsed, err := utilversion.ParseGeneric(s.Version())
	if err == nil && parsed.Major() == 1 && parsed.Minor() < oldestMinor {
		s.noteProblem(true, "kubernetesVersion", "Cluster API no longer supports %s; use 1.%d or newer",
			strings.TrimPrefix(s.Version(), "v"), oldestMinor)
	}
}

func (s *Source) checkTop() {
	s.checkAge()

	if _, known := s.allProviders()[s.ProviderName()]; !known {
		s.noteProblem(false, "provider", "unsupported value %q; use %s", s.Provider, s.providerNames())
	}

	if problems := validation.IsDNS1123Label(s.Name); len(problems) > 0 {
		s.noteProblem(false, "name", "invalid cluster name %q: %s", s.Name, labelHelp)
	}

	if problems := validation.IsDNS1123Label(s.Namespace()); len(problems) > 0 {
		s.noteProblem(false, s.NamespaceKey(), "invalid namespace %q: %s", s.Namespace(), labelHelp)
	}

	if s.ControlPlaneNodes%2 == 0 {
		s.noteProblem(
			false, "controlPlaneNodes", "%d is even; etcd needs an odd number of members", s.ControlPlaneNodes,
		)
	}

	if s.Version() == "" {
		if minor.MatchString(s.KubernetesVersion) {
			s.noteProblem(false, "kubernetesVersion", "%s has no patch version; add it, for example %s.0",
				s.KubernetesVersion, s.KubernetesVersion)
		} else {
			s.noteProblem(
				false, "kubernetesVersion", "invalid version %q; use for example 1.33.5", s.KubernetesVersion,
			)
		}
	}

	s.checkPorts()
	s.checkProxies()
}

func (s *Source) checkPorts() {
	for path, port := range map[string]int32{
		"kubeApiServerBindPort":                    s.KubeAPIServerBindPort,
		"kubeApiServerBindPortAlt":                 s.KubeAPIServerBindPortAlt,
		"providers.olvm.localAPIEndpoint.bindPort": s.Providers.OLVM.LocalAPIEndpoint.BindPort,
	} {
		if port < 0 || port > 65535 {
			s.noteProblem(false, path, "invalid port %d; use 1 to 65535", port)
		}
	}
}

func (s *Source) checkProxies() {
	provider := s.selectProvider()
	for path, proxy := range map[string]Proxy{"proxy": s.Proxy, provider.path + "proxy": *provider.proxy} {
		for key, value := range map[string]string{"httpProxy": proxy.HTTPProxy, "httpsProxy": proxy.HTTPSProxy} {
			parsed, err := url.Parse(value)
			if value != "" && (err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https") {
				s.noteProblem(
					false,
					path+"."+key,
					"invalid proxy URL %q; use for example http://proxy.example.com:3128",
					value,
				)
			}
		}

		if path == "proxy" && proxy.NoProxy != "" && proxy.HTTPProxy == "" && proxy.HTTPSProxy == "" {
			s.noteProblem(false, path+".noProxy", "requires httpProxy or httpsProxy; set one of them")
		}
	}
}

// splitList splits a list of texts at its commas.
func splitList(list string) []string {
	var out []string

	for _, item := range strings.Split(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}

	return out
}

// checkNetworks checks that the networks of the cluster do not overlap with each other or with the networks of its
// machines.
func (s *Source) checkNetworks() {
	type network struct {
		path   string
		prefix netip.Prefix
	}
	var all []network
	families := map[string]string{}
	unread := false

	for _, each := range []struct{ path, value string }{
		{"podSubnet", s.PodSubnet},
		{"serviceSubnet", s.ServiceSubnet},
	} {
		seen := ""

		for _, text := range splitList(each.value) {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				s.noteProblem(false, each.path, "%q is not a CIDR block; use for example %s", text,
					defaultPodSubnet)

				unread = true

				continue
			}

			family := map[bool]string{true: "4", false: "6"}[prefix.Addr().Is4()]
			if strings.Contains(seen, family) {
				s.noteProblem(false, each.path, "contains two IPv%s networks; use one of each IP family", family)
			}

			seen += family
			all = append(all, network{each.path, prefix})
		}

		families[each.path] = seen
	}

	if !unread && families["podSubnet"] != families["serviceSubnet"] {
		s.noteProblem(false, "serviceSubnet",
			"the networks must have the same IP families as in podSubnet, in the same order")
	}

	for path, subnet := range s.selectProvider().networks() {
		if prefix, err := netip.ParsePrefix(subnet); err == nil {
			all = append(all, network{path, prefix})
		}
	}

	slices.SortStableFunc(all, func(a, b network) int { return strings.Compare(a.path, b.path) })

	for i, one := range all {
		for _, other := range all[:i] {
			machines := strings.Contains(one.path, "Machine") && strings.Contains(other.path, "Machine")
			if !machines && one.prefix.Overlaps(other.prefix) {
				s.noteProblem(false, one.path, "%s overlaps with %s (%s)", one.prefix, other.prefix, other.path)
			}
		}
	}
}

// olvmNetworks returns the networks of machines on OLVM by path.
func (f *File) olvmNetworks() map[string]string {
	out := map[string]string{}

	for name, m := range f.machinesByPath() {
		own := f.addressFamily(m.VirtualMachine.Network)
		out[name+"virtualMachine.network."+own.field+".subnet"] = own.subnet
	}

	return out
}

func (s *Source) checkServer() {
	const path = "providers.olvm.olvmOvirtAPIServer."
	server := s.Providers.OLVM.OvirtAPIServer
	if server.ServerURL != "" {
		base, err := engine.ParseBaseURL(server.ServerURL)

		switch {
		case err != nil:
			s.noteProblem(false, path+"serverURL", "%v", err)
		case base.String() != server.ServerURL:
			s.noteProblem(true, path+"serverURL", "olvmctl uses %s instead; change the URL to this", base)
		}
	}

	if server.ServerCA != "" && server.ServerCAPath != "" {
		s.noteProblem(false, path+"serverCAPath", "cannot be set together with serverCA; remove one of them")
	}

	if server.InsecureSkipTLSVerify && (server.ServerCA != "" || server.ServerCAPath != "") {
		s.noteProblem(
			true,
			path+"insecureSkipTLSVerify",
			"if true, the CA is ignored, and an attacker can impersonate the engine; remove it",
		)
	}

	if _, err := s.CA(); err != nil {
		key := "serverCA"
		if server.ServerCAPath != "" {
			key = "serverCAPath"
		}

		s.noteProblem(false, path+key, "%v", err)
	}
}

// CA returns the CA certificates of the engine in PEM. It returns none if the CAs of the system apply, or if
// verification is off.
func (s *Source) CA() ([][]byte, error) {
	server := s.Providers.OLVM.OvirtAPIServer
	if server.InsecureSkipTLSVerify {
		return nil, nil
	}

	var out [][]byte
	if server.ServerCA != "" {
		out = append(out, []byte(server.ServerCA))
	}

	for _, path := range splitList(server.ServerCAPath) {
		content, err := manifest.ReadNamed(s.resolvePath(path))
		if err != nil {
			return nil, err
		}

		out = append(out, content)
	}

	for _, content := range out {
		block, _ := pem.Decode(content)
		if block == nil {
			return nil, errors.New("no PEM certificate found")
		}

		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, fmt.Errorf("invalid certificate: %w", err)
		}
	}

	return out, nil
}

// resolvePath returns a path relative to the folder of the cluster file. ~ is the home folder of the user.
func (s *Source) resolvePath(name string) string {
	name = hostos.ExpandHome(name)
	if filepath.IsAbs(name) {
		return name
	}

	return filepath.Join(s.dir, name)
}

func (s *Source) checkUser() {
	if s.SSHPublicKey != "" && s.SSHPublicKeyPath != "" {
		s.noteProblem(false, "sshPublicKeyPath", "cannot be set together with sshPublicKey; remove one of them")
	}

	if keys, err := s.sshKeys(); err != nil {
		s.noteProblem(false, "sshPublicKeyPath", "%v", err)
	} else {
		for _, key := range keys {
			if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key)); err != nil {
				s.noteProblem(false, map[bool]string{
					true:  "sshPublicKeyPath",
					false: "sshPublicKey",
				}[s.SSHPublicKeyPath != ""], "invalid SSH public key: %v", err)
			}
		}
	}

	if s.Password != "" && !strings.HasPrefix(s.Password, "$") {
		s.noteProblem(
			false, "password",
			"must be a password hash, not a plain text password; create the hash with openssl passwd -6",
		)
	}

	if s.ExtraIgnition != "" && !s.ExtraIgnitionInline.IsZero() {
		s.noteProblem(false, "extraIgnition", "cannot be set together with extraIgnitionInline; remove one of them")
	}

	key := "extraIgnitionInline"
	if s.ExtraIgnition != "" {
		key = "extraIgnition"
	}

	extra, err := s.extraIgnition()
	if err == nil && len(extra) > 0 {
		_, err = bootstrap.Merge([]byte(`{"ignition":{"version":"3.0.0"}}`), bootstrap.Ignition, bootstrap.Guest{
			Extra: []bootstrap.Extra{{Source: "it", Data: extra}},
		})
	}

	if err != nil {
		s.noteProblem(false, key, "%v", err)
	}
}

func (s *Source) sshKeys() ([]string, error) {
	text := s.SSHPublicKey
	if s.SSHPublicKeyPath != "" {
		content, err := manifest.ReadNamed(s.resolvePath(s.SSHPublicKeyPath))
		if err != nil {
			return nil, err
		}

		text = string(content)
	}

	var out []string

	for _, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}

	return out, nil
}

// extraIgnition returns the user's Ignition or Butane configuration.
func (s *Source) extraIgnition() ([]byte, error) {
	if s.ExtraIgnition != "" {
		return manifest.ReadNamed(s.resolvePath(s.ExtraIgnition))
	}

	return inlineContent(s.ExtraIgnitionInline)
}

// checkUnused warns about settings without effect, so users do not rely on them.
func (s *Source) checkUnused() {
	if s.ClusterDefinition != "" && !s.ClusterDefinitionInline.IsZero() {
		s.noteProblem(false, "clusterDefinition",
			"cannot be set together with clusterDefinitionInline; remove one of them")
	}

	if s.LoadBalancer != "" {
		s.noteProblem(
			true, "loadBalancer", "ignored: the control plane nodes balance the load themselves; remove it",
		)
	}

	s.checkApplications()
}

// clusterSpec returns the spec of the OLVMCluster.
func (s *Source) clusterSpec() infrav1.OLVMClusterSpec {
	o := s.Providers.OLVM
	out := infrav1.OLVMClusterSpec{
		ControlPlaneEndpoint: infrav1.APIEndpoint{Host: s.VirtualIP, Port: s.KubeAPIServerBindPort},
		OLVMDatacenterName:   o.DatacenterName,
		ControlPlaneServices: &infrav1.ControlPlaneServices{
			VirtualIPProvider:    "Keepalived",
			LoadBalancerProvider: "Nginx",
			APIServerPort:        o.LocalAPIEndpoint.BindPort,
		},
		OLVMOvirtAPIServer: infrav1.OvirtAPIServer{
			ServerURL: s.EngineURL(), InsecureSkipTLSVerify: o.OvirtAPIServer.InsecureSkipTLSVerify,
			CredentialsSecret: infrav1.NamespacedName(o.OvirtAPIServer.CredentialsSecret),
		},
	}
	s.addNames(out.ControlPlaneServices)

	if o.OvirtAPIServer.ServerCA != "" || o.OvirtAPIServer.ServerCAPath != "" {
		ca := infrav1.NamespacedName(o.OvirtAPIServer.CAConfigMap)
		out.OLVMOvirtAPIServer.CAConfigMap = &ca
	}

	if s.Proxy.HTTPProxy != "" || s.Proxy.HTTPSProxy != "" {
		out.UserData = &infrav1.UserData{
			Proxy: &infrav1.ProxySettings{
				HTTPProxy:  s.Proxy.HTTPProxy,
				HTTPSProxy: s.Proxy.HTTPSProxy,
				NoProxy:    splitList(s.Proxy.NoProxy),
			},
		}
	}

	return out
}

// machineSpec returns the spec of an OLVMMachine with the given settings.
func (s *Source) machineSpec(m *Machine) infrav1.OLVMMachineSpec {
	vm := m.VirtualMachine
	out := infrav1.OLVMMachineSpec{
		OLVMOvirtClusterName: m.OvirtClusterName, VMTemplateName: m.VMTemplateName,
		OLVMNetwork: infrav1.OLVMNetwork{
			NetworkName:     m.Network.NetworkName,
			VNICName:        m.Network.VNICName,
			VNICProfileName: m.Network.VNICProfileName,
		},
		VirtualMachine: infrav1.VirtualMachine{
			Memory: vm.Memory,
			CPU: infrav1.CPU{
				Architecture: vm.CPU.Architecture,
				Topology: infrav1.CPUTopology{
					Cores:   vm.CPU.Topology.Cores,
					Sockets: vm.CPU.Topology.Sockets,
					Threads: vm.CPU.Topology.Threads,
				},
			},
		},
	}
	out.VirtualMachine.RootDisk, out.VirtualMachine.DataDisks = vm.requestedDisks()
	network := &out.VirtualMachine.Network
	network.Gateway = vm.Network.Gateway
	network.Interface = vm.Network.Interface
	network.InterfaceType = vm.Network.InterfaceType
	network.DNSServers = splitList(vm.Network.DNSServers)
	network.IPv4, network.IPv6 = vm.Network.machineNetworks()

	return out
}
