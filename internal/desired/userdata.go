package desired

import (
	"cmp"
	"net/netip"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// IgnitionOS is the only operating system for which the engine passes the user data to Ignition. For all others,
// cloud-init gets the user data.
const IgnitionOS = "rhcos_x64"

// maxUserData limits the user data of a VM in bytes. Terraform's state contains the user data in clear text. The state
// is in a Secret, and the API server limits a Secret to 1 MiB.
const maxUserData = 512 << 10

// byPointer is the delivery method for user data that the manager serves.
const byPointer = "Pointer"

// Bootstrap has the bootstrap data of a machine, and the other input for its user data.
type Bootstrap struct {
	// Source is the name of the Secret, for errors.
	Source string
	// Data and Format come from the bootstrap Secret.
	Data   []byte
	Format bootstrap.Format
	// Extra are the configurations that CollectUserData refers to.
	Extra []bootstrap.Extra
	// Network is the network configuration of the Cluster.
	Network clusterv1.ClusterNetwork
	// Offer keeps user data for the VM, and returns a pointer to them. It is nil if the manager does not offer user
	// data.
	Offer func(data []byte) (bootstrap.Pointer, error)
}

// CollectUserData returns what the machine and its cluster want to add to the bootstrap data.
func CollectUserData(machine infrav1.OLVMMachineSpec, cluster infrav1.OLVMClusterSpec) infrav1.UserData {
	var out infrav1.UserData

	for _, asked := range []*infrav1.UserData{cluster.UserData, machine.UserData} {
		if asked == nil {
			continue
		}

		out.Proxy, out.SSH = cmp.Or(asked.Proxy, out.Proxy), cmp.Or(asked.SSH, out.SSH)
		out.BootstrapDelivery = cmp.Or(asked.BootstrapDelivery, out.BootstrapDelivery)
		out.Extra = slices.Concat(out.Extra, asked.Extra)
	}

	return out
}

// usesIgnition reports whether Ignition, instead of cloud-init, reads the user data of machines from the template.
func usesIgnition(in Input, template *engine.Template) bool {
	return cmp.Or(in.Spec.VirtualMachine.OSType, template.OS.Type) == IgnitionOS
}

// mergeUserData merges the bootstrap data with data that only the infrastructure knows. machine already has its guests.
func mergeUserData(in Input, template *engine.Template, machine render.Machine) (string, error) {
	if in.Bootstrap == nil {
		return "", checkFormat(in, template, in.Announced, "the user data from "+in.AnnouncedBy)
	}

	format := cmp.Or(in.Bootstrap.Format, bootstrap.CloudConfig)
	if err := checkFormat(in, template, format, in.Bootstrap.Source); err != nil {
		return "", err
	}

	// The decoders replace invalid UTF-8 with U+FFFD.
	if err := engine.CheckText("custom_script", string(in.Bootstrap.Data)); err != nil {
		return "", newDataError(in.Bootstrap.Source, "%v", err)
	}

	guest := buildGuest(in, machine)
	var err error
	if guest.Services, err = buildServices(in, guest.DNSServers); err != nil {
		return "", err
	}

	guest.Services = openNodeFirewall(in, guest.Services)
	merged, err := bootstrap.Merge(in.Bootstrap.Data, in.Bootstrap.Format, guest)
	if err != nil {
		return "", newDataError(in.Bootstrap.Source, "%v", err)
	}

	pointer := CollectUserData(in.Spec, in.Cluster).BootstrapDelivery == byPointer
	most := maxUserData
	if pointer {
		most = bootstrap.MaxDeliveredData
	}

	if len(merged) > most {
		return "", newDataError(in.Bootstrap.Source, "the complete user data has %d bytes, but a VM can get at most "+
			"%d; put large files into the image, or have the guest download them", len(merged), most)
	}

	if !pointer {
		if err := engine.CheckText("custom_script", string(merged)); err != nil {
			return "", newDataError(in.Bootstrap.Source, "%v", err)
		}

		return string(merged), nil
	}

	return publishUserData(in, template, merged)
}

func newDataError(field, format string, args ...any) error {
	return blocker.New(infrav1.BootstrapDataInvalidReason, field, format, args...)
}

// checkFormat checks that the reader of the user data supports their format. An empty format is unknown. source is the
// origin of the data, for errors.
func checkFormat(in Input, template *engine.Template, format bootstrap.Format, source string) error {
	ignition, given := usesIgnition(in, template), format == bootstrap.Ignition
	os := cmp.Or(in.Spec.VirtualMachine.OSType, template.OS.Type)

	switch {
	case given && !ignition:
		return newDataError("spec.virtualMachine.osType",
			"with %q, the engine passes the user data to cloud-init, but %s is for Ignition. For an image with "+
				"Ignition, set it to %s. Otherwise, set the format of the KubeadmConfig to cloud-config (a cluster "+
				"file takes it from --flavor)",
			os, source, IgnitionOS)
	case ignition && format == bootstrap.CloudConfig:
		return newDataError("spec.virtualMachine.osType",
			"with %q, the engine passes the user data to Ignition, but %s is a cloud-config. Set the format of the "+
				"KubeadmConfig to ignition (a cluster file takes it from --flavor). For an image with cloud-init, "+
				"set another osType",
			os, source)
	}

	return nil
}

// publishUserData offers the user data to the VM, and returns the configuration with which Ignition fetches them.
func publishUserData(in Input, template *engine.Template, merged []byte) (string, error) {
	const field = "userData.bootstrapDelivery"
	if !usesIgnition(in, template) {
		return "", newDataError(field, "Pointer works only for images with Ignition: cloud-init cannot fetch and "+
			"verify the rest of the user data; set it to Inline")
	}

	if in.Bootstrap.Offer == nil {
		return "", newDataError(field, "Pointer needs the manager's flag --bootstrap-url, its URL for VMs; set the "+
			"flag, or set bootstrapDelivery to Inline")
	}

	where, err := in.Bootstrap.Offer(merged)
	if err != nil {
		return "", err
	}

	stub, err := where.RenderIgnition(merged)

	return string(stub), err
}

// buildGuest returns the settings for the guest of a machine.
func buildGuest(in Input, machine render.Machine) bootstrap.Guest {
	asked := CollectUserData(in.Spec, in.Cluster)

	out := bootstrap.Guest{
		HostName:      in.VMName,
		Interfaces:    machine.Guests,
		SearchDomains: machine.SearchDomains,
		Extra:         in.Bootstrap.Extra,
		NodeIPs:       collectNodeIPs(in),
	}

	for _, server := range machine.DNSServers { // in the given order
		if address, err := netip.ParseAddr(server); err == nil { // BuildNICs has checked them
			out.DNSServers = appendMissing(out.DNSServers, []netip.Addr{address})
		}
	}

	if asked.SSH != nil {
		out.SSH = &bootstrap.SSH{User: asked.SSH.User, AuthorizedKeys: asked.SSH.AuthorizedKeys}
	}

	if asked.Proxy != nil {
		out.Proxy = &bootstrap.Proxy{
			HTTP:    asked.Proxy.HTTPProxy,
			HTTPS:   asked.Proxy.HTTPSProxy,
			NoProxy: collectNoProxyHosts(in, asked.Proxy.NoProxy),
		}
	}

	return out
}

// collectNodeIPs returns the addresses that the kubelet should register, as far as they are known. These are the
// addresses of the first interface in the families of the cluster's pods. Without them, a kubelet finds at most one
// address. This may even be the control plane endpoint if the node holds it.
func collectNodeIPs(in Input) []netip.Addr {
	var v4, v6 netip.Addr

	for _, address := range in.Addresses[in.NICs[0].VNICName] {
		if address.Is4() {
			v4 = address.Addr()
		} else {
			v6 = address.Addr()
		}
	}

	var out []netip.Addr

	for _, cidr := range in.Bootstrap.Network.Pods.CIDRBlocks {
		network, err := netip.ParsePrefix(cidr)
		if err != nil {
			continue // Cluster API refuses it
		}

		address := v6
		if network.Addr().Is4() {
			address = v4
		}

		if address.IsValid() { // otherwise, only the guest knows its address, or has none
			out = appendMissing(out, []netip.Addr{address})
		}
	}

	if len(in.Bootstrap.Network.Pods.CIDRBlocks) == 0 && v4.IsValid() {
		return []netip.Addr{v4}
	}

	return out
}

// collectNoProxyHosts returns the hosts that need no proxy: the cluster itself, and the hosts given by the user.
func collectNoProxyHosts(in Input, written []string) []string {
	network := in.Bootstrap.Network
	domain := cmp.Or(network.ServiceDomain, "cluster.local")
	out := []string{"localhost", "127.0.0.1", "::1", "169.254.169.254", ".svc", "." + domain}
	out = appendMissing(out, network.Services.CIDRBlocks)
	out = appendMissing(out, network.Pods.CIDRBlocks)
	if host := in.Cluster.ControlPlaneEndpoint.Host; host != "" {
		out = appendMissing(out, []string{host})
	}

	for _, nic := range in.NICs {
		for _, address := range in.Addresses[nic.VNICName] {
			out = appendMissing(out, []string{address.Prefix.Masked().String()})
		}
	}

	return appendMissing(out, written)
}
