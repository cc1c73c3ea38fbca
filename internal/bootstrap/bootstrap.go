// Package bootstrap adds data known only to the infrastructure to a machine's bootstrap data: its network and host
// name, the kubelet's provider ID and addresses, proxies, keys, and additions of users.
//
// Bootstrap data is a cloud-config or an Ignition configuration. A cloud-config is merged as YAML, and unchanged parts
// keep their text. Stock Cluster API writes Ignition 2.3, but no image of OLVM reads this version. The package
// translates it to the third generation, and validates the result with Ignition's own parser. Merging never loses or
// overwrites anything written by a user: if two sources disagree, Merge fails and names both.
//
// The engine assigns a VM's UUID at creation, so the user data cannot contain it. But the firmware shows the UUID to
// the guest. The kubelet argument therefore contains a placeholder, and a command replaces it at boot, before kubeadm
// runs.
package bootstrap

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// Format of bootstrap data, as named in the bootstrap Secret.
type Format string

// The formats; a Secret without a format means cloud-config.
const (
	CloudConfig Format = "cloud-config"
	Ignition    Format = "ignition"
)

// ProviderIDPrefix precedes the UUID of a VM in a provider ID.
const ProviderIDPrefix = "olvm://"

// ParseProviderID returns the UUID of the VM in a provider ID, or "" if there is none.
func ParseProviderID(providerID string) string {
	id, ok := strings.CutPrefix(providerID, ProviderIDPrefix)
	if !ok {
		return ""
	}

	return id
}

// Guest is the infrastructure's addition to the bootstrap data of a machine.
type Guest struct {
	// HostName of the guest. For cloud-init, the engine sets it. Ignition gets it as a file.
	HostName string
	// Interfaces are the guest's configured network interfaces. For cloud-init, the engine configures them. Ignition
	// gets them as NetworkManager files.
	Interfaces []render.GuestNIC
	// DNSServers and SearchDomains of the guest, delivered in the same way.
	DNSServers    []netip.Addr
	SearchDomains []string
	// NodeIPs are the node's addresses for the kubelet, if it needs more than the one it detects itself.
	NodeIPs []netip.Addr
	// Proxy of the node's services; nil for none.
	Proxy *Proxy
	// SSH keys of a user; nil for none.
	SSH *SSH
	// Services serving the cluster's endpoints; nil for none.
	Services *Services
	// Files to write.
	Files []File
	// Units of systemd to install.
	Units []Unit
	// Extra holds users' configurations, in merge order.
	Extra []Extra
}

// Proxy for HTTP.
type Proxy struct {
	HTTP, HTTPS string
	// NoProxy lists the destinations without proxy: names, domains, addresses, networks.
	NoProxy []string
}

// SSH authorizes users to log in.
type SSH struct {
	// User of the image; "" means its default user. For Ignition, this is core.
	User string
	// AuthorizedKeys are lines in the format of authorized_keys.
	AuthorizedKeys []string
}

// File is a file to write into the guest.
type File struct {
	// Path is absolute.
	Path    string
	Content string
	// Mode holds the permission bits, such as 0o600.
	Mode int
}

// Unit is a systemd unit.
type Unit struct {
	// Name with its suffix.
	Name string
	// Contents of the unit; "" for a unit of the image.
	Contents string
}

// Extra is a configuration of a user.
type Extra struct {
	// Source names the configuration in errors.
	Source string
	// Data is a cloud-config if the bootstrap data is one. Otherwise, it is Ignition, or Butane (YAML with a variant).
	Data []byte
}

// MaxInput is the maximum number of bytes to merge: the bootstrap data with all additions of users. It is twice the
// deliverable size.
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

// sources maps parts of a configuration, by place, to their sources.
type sources map[string]string

// findSource returns the source of the nearest enclosing place. Places without a record came with the bootstrap data.
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

// newConflictError returns the error for a setting with different values in two sources.
func newConflictError(what, one, other string) error {
	return fmt.Errorf("%s is set differently by %s and by %s; remove it from one of them", what, one, other)
}

// Names of sources in errors.
const (
	providerSource = "the bootstrap data"
	machineSource  = "the OLVMMachine or OLVMCluster"
)
