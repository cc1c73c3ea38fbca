package ovirtsim

import (
	"time"

	"github.com/google/uuid"
)

// Inventory is the world before the first request. Names refer to each other; every object gets a random UUID but the
// Blank template, which has the zero UUID as on every engine.
type Inventory struct {
	DataCenters []DataCenter
}

// DataCenter is a data center and all that lives in it.
type DataCenter struct {
	Name string
	// Clusters of hosts.
	Clusters []Cluster
	// Networks, each with its vNIC profiles.
	Networks []Network
	// StorageDomains for disks.
	StorageDomains []StorageDomain
}

// Cluster of hosts.
type Cluster struct {
	Name string
	// Hosts by name; each has 64 GiB of memory.
	Hosts []string
	// Templates of VMs.
	Templates []Template
}

// Network with its vNIC profiles.
type Network struct {
	Name         string
	VNICProfiles []string
}

// StorageDomain for disks.
type StorageDomain struct {
	Name string
	// Bytes is its size.
	Bytes int64
}

// Template of VMs.
type Template struct {
	Name string
	// OSType decides what reads the user data: Ignition where it is rhcos_x64, else cloud-init.
	OSType string
	// DiskBytes is the size of its root disk; 0 means that it has none.
	DiskBytes int64
	// Memory in bytes.
	Memory int64
	// KubernetesVersion is the version of kubelet and kubeadm in the image, such as v1.36.1.
	KubernetesVersion string
}

const gib = 1 << 30

// blankTemplateID is the ID of the Blank template on every engine.
const blankTemplateID = "00000000-0000-0000-0000-000000000000"

// osRHCOS is the OS type for which the engine hands the user data to Ignition.
const osRHCOS = "rhcos_x64"

// DefaultInventory is a small site: one data center with one cluster of three hosts, two networks, two storage domains,
// and templates for cloud-init and Ignition guests.
func DefaultInventory() Inventory {
	return Inventory{DataCenters: []DataCenter{{
		Name: "Default",
		Clusters: []Cluster{{
			Name:  "Default",
			Hosts: []string{"host-1", "host-2", "host-3"},
			Templates: []Template{
				{Name: "Blank", OSType: "other", Memory: gib},
				{Name: "ol9-k8s", OSType: "ol_9x64", DiskBytes: 20 * gib, Memory: 4 * gib, KubernetesVersion: "v1.36.1"},
				{Name: "ock-1.36", OSType: osRHCOS, DiskBytes: 20 * gib, Memory: 4 * gib, KubernetesVersion: "v1.36.1"},
			},
		}},
		Networks: []Network{
			{Name: "ovirtmgmt", VNICProfiles: []string{"ovirtmgmt"}},
			{Name: "kvm-vlan", VNICProfiles: []string{"kvm-vlan"}},
		},
		StorageDomains: []StorageDomain{{Name: "olvm-data", Bytes: 1024 * gib}, {Name: "olvm-data-2", Bytes: 1024 * gib}},
	}}}
}

// Timings are how long the engine's asynchronous operations take.
type Timings struct {
	// Clone is how long a new VM's disks stay locked.
	Clone time.Duration
	// Launch is how long a starting VM waits for its host.
	Launch time.Duration
	// PowerUp is how long the host takes until the guest runs.
	PowerUp time.Duration
	// PowerDown is how long stopping takes.
	PowerDown time.Duration
}

// DefaultTimings are short enough for a person to watch and long enough for every status to be seen.
func DefaultTimings() Timings {
	return Timings{Clone: 700 * time.Millisecond, Launch: 300 * time.Millisecond, PowerUp: time.Second, PowerDown: 500 * time.Millisecond}
}

// The objects of the running engine. They are only touched with registry.mu held.
type (
	object struct{ id, name string }

	dataCenter struct{ object }
	cluster    struct {
		object
		dataCenter string
	}
	host struct {
		object
		cluster string
		memory  int64
	}
	network struct {
		object
		dataCenter string
	}
	vnicProfile struct {
		object
		network string
	}
	storageDomain struct {
		object
		dataCenter string
		bytes      int64
	}
	template struct {
		object
		cluster, osType   string
		diskBytes, memory int64
		kubernetes        string
	}
	disk struct {
		object // the name is its alias
		vm     string
		bytes  int64
		domain string
		locked bool
	}
	nic struct {
		object
		vm, profile, mac string
	}
	vm struct {
		object
		comment, description string
		cluster, template    string
		status               string
		host                 string
		memory               int64
		cpu                  topologyXML
		cpuMode              string
		osType, vmType       string
		ballooning           *bool
		maxMemory            int64
		console, soundcard   bool
		initialization       *initializationXML
		created              time.Time
		// addresses as the guest agent reports them; nil while it does not run.
		addresses []string
		// guestError is why the guest did not become a node, for the control API.
		guestError string
		// epoch grows with each start and stop, so that a timer of an earlier one does nothing.
		epoch int
		// cancel ends the guest that runs.
		cancel func()
	}
)

func newID() string { return uuid.NewString() }
