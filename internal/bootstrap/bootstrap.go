// Package bootstrap adds what only the infrastructure knows to a machine's bootstrap data. This includes its network
// and host name, the kubelet's provider ID and addresses, proxies, SSH keys, and additions of users.
//
// Bootstrap data are a cloud-config or an Ignition configuration. A cloud-config is merged as YAML, and unchanged parts
// keep their text. Cluster API writes Ignition 2.3, but no image of OLVM reads this version. So the package translates
// it to the third generation, and validates the result with Ignition's own parser. Merging never loses or overwrites
// what a user has written. If two sources disagree, Merge fails and names both.
//
// The engine assigns the UUID of a VM when it creates the VM, so the user data cannot contain it. But the firmware
// shows the UUID to the guest. So the kubelet argument contains a placeholder. A command replaces the placeholder at
// boot, before kubeadm runs.
package bootstrap

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// Format is the format of bootstrap data, with the name that the bootstrap Secret uses.
type Format string

// These are the formats. A Secret without a format has a cloud-config.
const (
	CloudConfig Format = "cloud-config"
	Ignition    Format = "ignition"
)

// ProviderIDPrefix comes before the UUID of a VM in a provider ID.
const ProviderIDPrefix = "olvm://"

// ParseProviderID returns the UUID of the VM in a provider ID, or "" if it has none.
func ParseProviderID(providerID string) string {
	id, ok := strings.CutPrefix(providerID, ProviderIDPrefix)
	if !ok {
		return ""
	}

	return id
}

// Guest has what the infrastructure adds to the bootstrap data of a machine.
type Guest struct {
	// HostName is the host name of the guest. With cloud-init, the engine sets it. Ignition gets it as a file.
	HostName string
	// Interfaces are the guest's network interfaces with their configuration. With cloud-init, the engine configures
	// them. Ignition gets them as NetworkManager files.
	Interfaces []render.GuestNIC
	// DNSServers and SearchDomains are the DNS settings of the guest. The guest gets them in the same way.
	DNSServers    []netip.Addr
	SearchDomains []string
	// NodeIPs are the addresses for the kubelet if it needs more than the one that it detects itself.
	NodeIPs []netip.Addr
	// Proxy is the proxy of the node's services, or nil.
	Proxy *Proxy
	// SSH has the SSH keys of a user, or is nil.
	SSH *SSH
	// Services are the services for the cluster's endpoints, or nil.
	Services *Services
	// Files are the files to write.
	Files []File
	// Units are the systemd units to install.
	Units []Unit
	// Extra are users' configurations, in the order of the merge.
	Extra []Extra
}

// Proxy is an HTTP proxy.
type Proxy struct {
	HTTP, HTTPS string
	// NoProxy lists the destinations that need no proxy: names, domains, addresses, networks.
	NoProxy []string
}

// SSH authorizes keys to log in as a user.
type SSH struct {
	// User is a user of the image. "" means its default user. With Ignition, this is core.
	User string
	// AuthorizedKeys are lines in the format of authorized_keys.
	AuthorizedKeys []string
}

// File is a file for the guest.
type File struct {
	// Path is an absolute path.
	Path    string
	Content string
	// Mode has the permission bits, such as 0o600.
	Mode int
}

// Unit is a systemd unit.
type Unit struct {
	// Name is the name of the unit, including the suffix.
	Name string
	// Contents are the contents of the unit, or "" for a unit that the image already has.
	Contents string
}

// Extra is a configuration of a user.
type Extra struct {
	// Source is the name of the configuration in errors.
	Source string
	// Data are a cloud-config if the bootstrap data are one. Otherwise, they are Ignition, or Butane (YAML with a
	// variant).
	Data []byte
}

// MaxInput limits the data to merge in bytes: the bootstrap data with all additions of users. It is twice the size that
// can be delivered.
const MaxInput = 2 << 20

// Merge adds the guest's configuration to bootstrap data. It rejects input larger than MaxInput before parsing it.
func Merge(data []byte, format Format, guest Guest) ([]byte, error) {
	size := len(data)
	for _, extra := range guest.Extra {
		size += len(extra.Data)
	}

	if size > MaxInput {
		return nil, fmt.Errorf(
			"the bootstrap data and what userData adds have %d KiB together, and can have %d; have "+
				"the guest fetch the rest",
			size>>10,
			MaxInput>>10,
		)
	}

	switch format {
	case Ignition:
		return mergeIgnition(data, guest)
	case CloudConfig, "":
		return mergeCloudConfig(data, guest)
	}

	return nil, fmt.Errorf("bootstrap data has format %q; cloud-config and ignition are supported", format)
}

// sources maps the parts of a configuration, by their place, to their sources.
type sources map[string]string

// findSource returns the source of the nearest enclosing place. A place without a record comes from the bootstrap data.
func (s sources) findSource(where string) string {
	best := ""
	for place := range s {
		if strings.HasPrefix(where, place) && len(place) > len(best) {
			best = place
		}
	}

	if best == "" {
		return providerSource
	}

	return s[best]
}

// newConflictError returns the error for a setting that has different values in two sources.
func newConflictError(what, one, other string) error {
	return fmt.Errorf("%s is set differently by %s and by %s; remove it from one of them", what, one, other)
}

// These are the names of sources in errors.
const (
	providerSource = "the bootstrap data"
	machineSource  = "the OLVMMachine or OLVMCluster"
)
