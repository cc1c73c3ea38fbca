package ovirtsim

import (
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/control"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

type (
	// Inventory is the initial contents of an engine.
	Inventory = inventory.Inventory
	// DataCenter of an inventory.
	DataCenter = inventory.DataCenter
	// Network of a data center.
	Network = inventory.Network
	// DHCP is the address range leased by a network.
	DHCP = store.DHCP
	// StorageDomain of a data center.
	StorageDomain = inventory.StorageDomain
	// Cluster of a data center.
	Cluster = inventory.Cluster
	// Host of a cluster.
	Host = inventory.Host
	// AffinityGroup of a cluster.
	AffinityGroup = inventory.AffinityGroup
	// Template of a data center.
	Template = inventory.Template
	// TemplateDisk is a disk of a template.
	TemplateDisk = inventory.TemplateDisk
	// TemplateNIC is a network interface of a template.
	TemplateNIC = inventory.TemplateNIC
	// VM is an initial VM.
	VM = inventory.VM
	// NodeImage is an image for guests running as Linux machines.
	NodeImage = inventory.NodeImage
	// User is a user allowed to log in.
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
	// GuestDisk is a disk of a guest other than the boot disk.
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
	// Fault is a rule to make requests or guests fail.
	Fault = control.Fault
	// Request is a request received by the engine.
	Request = control.Request
	// Summary counts the engine's objects.
	Summary = control.Summary
	// State is the whole site.
	State = control.State
	// VMInfo is the tests' view of a VM.
	VMInfo = control.VMInfo
	// DiskInfo is a disk as shown by control.
	DiskInfo = control.DiskInfo
	// AffinityGroupInfo is an affinity group as shown by control.
	AffinityGroupInfo = control.AffinityGroupInfo
)

// Errors returned by a Guest's Boot if the guest ends by itself.
var (
	ErrPoweredOff = api.ErrPoweredOff
	ErrCrashed    = api.ErrCrashed
)

// DefaultInventory returns the contents of an engine without a configured inventory.
func DefaultInventory() Inventory { return inventory.Default() }

// NodeInventory returns the inventory of an engine with guests running as Linux machines of these images.
func NodeInventory(images ...NodeImage) Inventory { return inventory.Nodes(images...) }

// LoadInventory reads an inventory from a YAML file.
func LoadInventory(path string) (Inventory, error) { return inventory.Load(path) }

// ParseInventory parses an inventory in YAML. It rejects unknown fields.
func ParseInventory(content []byte) (Inventory, error) { return inventory.Parse(content) }

// DefaultTimings returns timings short enough to watch, and long enough for every status to be visible.
func DefaultTimings() Timings { return api.DefaultTimings() }

// NewManualClock returns a clock for Options, standing still until moved.
func NewManualClock() *ManualClock { return api.NewManualClock() }
