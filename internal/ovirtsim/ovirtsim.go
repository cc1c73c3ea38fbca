package ovirtsim

import (
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/control"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

type (
	// Inventory is the initial content of an engine.
	Inventory = inventory.Inventory
	// DataCenter is a data center of an inventory.
	DataCenter = inventory.DataCenter
	// Network is a network of a data center.
	Network = inventory.Network
	// DHCP is the range of addresses that a network leases.
	DHCP = store.DHCP
	// StorageDomain is a storage domain of a data center.
	StorageDomain = inventory.StorageDomain
	// Cluster is a cluster of a data center.
	Cluster = inventory.Cluster
	// Host is a host of a cluster.
	Host = inventory.Host
	// AffinityGroup is an affinity group of a cluster.
	AffinityGroup = inventory.AffinityGroup
	// Template is a template of a data center.
	Template = inventory.Template
	// TemplateDisk is a disk of a template.
	TemplateDisk = inventory.TemplateDisk
	// TemplateNIC is a network interface of a template.
	TemplateNIC = inventory.TemplateNIC
	// VM is a VM that exists from the beginning.
	VM = inventory.VM
	// NodeImage is a boot image for guests that run as Linux machines.
	NodeImage = inventory.NodeImage
	// User is a user who may log in.
	User = inventory.User
)

type (
	// Timings are the durations of the engine's asynchronous operations.
	Timings = api.Timings
	// ManualClock stands still until a test moves it.
	ManualClock = api.ManualClock
	// Guest runs inside the VMs.
	Guest = api.Guest
	// GuestVM is the engine's data for a guest.
	GuestVM = api.GuestVM
	// GuestDisk is a disk of a guest, except the boot disk.
	GuestDisk = api.GuestDisk
	// GuestNIC is one NIC configuration of a VM's initialization.
	GuestNIC = api.GuestNIC
	// GuestInterface is a network device of a VM.
	GuestInterface = api.GuestInterface
	// GuestNode is a Kubernetes node in a VM.
	GuestNode = api.GuestNode
	// AgentReport is the report of a VM's guest agent.
	AgentReport = store.AgentReport
	// ReportedInterface is a network interface in the guest agent's report.
	ReportedInterface = store.ReportedInterface
)

type (
	// Fault is a rule by which requests or guests fail.
	Fault = control.Fault
	// Request is a request received by the engine.
	Request = control.Request
	// Summary counts the engine's objects.
	Summary = control.Summary
	// State is the whole site.
	State = control.State
	// VMInfo is a VM in the form that control shows.
	VMInfo = control.VMInfo
	// DiskInfo is a disk in the form that control shows.
	DiskInfo = control.DiskInfo
	// AffinityGroupInfo is an affinity group in the form that control shows.
	AffinityGroupInfo = control.AffinityGroupInfo
)

// These errors are results of a Guest's Boot if the guest ends by itself.
var (
	ErrPoweredOff = api.ErrPoweredOff
	ErrCrashed    = api.ErrCrashed
)

// DefaultInventory returns the content of an engine without a configured inventory.
func DefaultInventory() Inventory { return inventory.Default() }

// NodeInventory returns the inventory of an engine whose guests run as Linux machines with these images.
func NodeInventory(images ...NodeImage) Inventory { return inventory.Nodes(images...) }

// LoadInventory reads an inventory from a YAML file.
func LoadInventory(path string) (Inventory, error) { return inventory.Load(path) }

// ParseInventory parses an inventory in YAML. It rejects unknown fields.
func ParseInventory(content []byte) (Inventory, error) { return inventory.Parse(content) }

// DefaultTimings returns timings that are short enough to watch, and long enough to show every status.
func DefaultTimings() Timings { return api.DefaultTimings() }

// NewManualClock returns a clock for Options. The clock stands still until a caller moves it.
func NewManualClock() *ManualClock { return api.NewManualClock() }
