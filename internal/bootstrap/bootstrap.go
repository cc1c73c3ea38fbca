// Package bootstrap adds to the bootstrap data of a machine what only the
// infrastructure knows: its network and host name, the kubelet's provider ID
// and addresses, proxies, keys, and what users add.
//
// Bootstrap data is a cloud-config or an Ignition configuration. A cloud-config
// is merged as YAML, and what is not touched keeps its text. Stock Cluster API
// writes Ignition 2.3, which no image of OLVM reads: it is translated to the
// third generation, and the result is validated by Ignition's own parser.
// Nothing that a user wrote is lost or overwritten: where two sources disagree,
// Merge fails and names both.
//
// A VM gets its UUID from the engine when it is made, so it cannot stand in the
// user data; but the firmware shows it to the guest. The kubelet argument gets
// a placeholder, which a command replaces at boot before kubeadm runs.
package bootstrap

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// Format of bootstrap data, as the bootstrap Secret names it.
type Format string

// The formats; a Secret that names none means cloud-config.
const (
	CloudConfig Format = "cloud-config"
	Ignition    Format = "ignition"
)

// ProviderIDPrefix precedes the UUID of a VM in a provider ID.
const ProviderIDPrefix = "olvm://"

// VMOf returns the UUID of the VM in a provider ID; empty if there is none.
func VMOf(providerID string) string {
	id, ok := strings.CutPrefix(providerID, ProviderIDPrefix)
	if !ok {
		return ""
	}

	return id
}

// Guest is what the infrastructure adds to the bootstrap data of a machine.
type Guest struct {
	// HostName of the guest. The engine sets it where cloud-init reads the data, Ignition gets it as a file.
	HostName string
	// Interfaces are the guest's network interfaces that have a configuration. The engine configures them where
	// cloud-init reads the data, Ignition gets them as files of NetworkManager.
	Interfaces []render.GuestNIC
	// DNSServers and SearchDomains of the guest, which go the same way.
	DNSServers    []netip.Addr
	SearchDomains []string
	// NodeIPs are the addresses of the kubelet's node, where it is to have more than the one that it finds by itself.
	NodeIPs []netip.Addr
	// Proxy that the node's services use; nil for none.
	Proxy *Proxy
	// SSH keys of a user; nil for none.
	SSH *SSH
	// Services that make the cluster's endpoints; nil for none.
	Services *Services
	// Files to write.
	Files []File
	// Units of systemd to install.
	Units []Unit
	// Extra are configurations of users, in the order in which they are merged.
	Extra []Extra
}

// Proxy for HTTP.
type Proxy struct {
	HTTP, HTTPS string
	// NoProxy are what is asked directly: names, domains, addresses, networks.
	NoProxy []string
}

// SSH lets users log in.
type SSH struct {
	// User of the image; empty means its default one, which is called core where Ignition reads the data.
	User string
	// AuthorizedKeys are lines as in authorized_keys.
	AuthorizedKeys []string
}

// File is written into the guest.
type File struct {
	// Path is absolute.
	Path    string
	Content string
	// Mode are the permission bits, such as 0o600.
	Mode int
}

// Unit is one of systemd's.
type Unit struct {
	// Name with its suffix.
	Name string
	// Contents of the unit; empty where it is in the image.
	Contents string
}

// Extra is a configuration of a user.
type Extra struct {
	// Source names it in errors.
	Source string
	// Data is a cloud-config where cloud-init reads the bootstrap data; else Ignition, or Butane (YAML with a variant).
	Data []byte
}

// MaxInput is how many bytes may be merged: the bootstrap data with all that users add. It is twice what can be
// delivered.
const MaxInput = 2 << 20

// Merge adds the guest's configuration to bootstrap data. More than MaxInput is refused before any of it is parsed.
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

// sources say where the parts of a configuration came from, by their places.
type sources map[string]string

// of is the source of the nearest place around this one; what is not noted came with the bootstrap data.
func (s sources) of(where string) string {
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

// conflict is an error for what two sources say differently.
func conflict(what, one, other string) error {
	return fmt.Errorf("%s is set differently by %s and by %s; remove it from one of them", what, one, other)
}

// The names of sources in errors.
const (
	providerSource = "the bootstrap data"
	machineSource  = "the OLVMMachine or OLVMCluster"
)
