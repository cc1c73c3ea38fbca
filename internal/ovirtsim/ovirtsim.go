package ovirtsim

import (
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/control"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

type (
	// Inventory is what an engine begins with.
	Inventory = inventory.Inventory
	// DataCenter of an inventory.
	DataCenter = inventory.DataCenter
	// Network of a data center.
	Network = inventory.Network
	// DHCP says which addresses a network leases.
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
	// VM that is there from the beginning.
	VM = inventory.VM
	// NodeImage is an image of guests that are Linux machines.
	NodeImage = inventory.NodeImage
	// User who may log in.
	User = inventory.User
)

type (
	// Timings are how long the engine's asynchronous operations take.
	Timings = api.Timings
	// ManualClock stands still until a test moves it.
	ManualClock = api.ManualClock
	// Guest is what runs inside the VMs.
	Guest = api.Guest
	// GuestVM is what the engine gives to a guest.
	GuestVM = api.GuestVM
	// GuestDisk is a disk that a guest does not boot from.
	GuestDisk = api.GuestDisk
	// GuestNIC is one NIC configuration of a VM's initialization.
	GuestNIC = api.GuestNIC
	// GuestInterface is a network device of a VM.
	GuestInterface = api.GuestInterface
	// GuestNode is a Kubernetes node in a VM.
	GuestNode = api.GuestNode
	// AgentReport is what the guest agent of a VM reports.
	AgentReport = store.AgentReport
	// ReportedInterface is a network interface as the guest agent reports it.
	ReportedInterface = store.ReportedInterface
)

type (
	// Fault is a rule by which requests or guests fail.
	Fault = control.Fault
	// Request is one request that the engine received.
	Request = control.Request
	// Summary counts what is in the engine.
	Summary = control.Summary
	// State is the whole site.
	State = control.State
	// VMInfo is a VM as tests see it.
	VMInfo = control.VMInfo
	// DiskInfo is a disk as control shows it.
	DiskInfo = control.DiskInfo
	// AffinityGroupInfo is an affinity group as control shows it.
	AffinityGroupInfo = control.AffinityGroupInfo
)

// What Boot of a Guest returns where the guest ends by itself.
var (
	ErrPoweredOff = api.ErrPoweredOff
	ErrCrashed    = api.ErrCrashed
)

// DefaultInventory is what an engine has that is given none.
func DefaultInventory() Inventory { return inventory.Default() }

// NodeInventory is that of an engine whose guests are Linux machines of these images.
func NodeInventory(images ...NodeImage) Inventory { return inventory.Nodes(images...) }

// LoadInventory reads an inventory from a YAML file.
func LoadInventory(path string) (Inventory, error) { return inventory.Load(path) }

// ParseInventory reads an inventory in YAML. Unknown fields are errors.
func ParseInventory(content []byte) (Inventory, error) { return inventory.Parse(content) }

// DefaultTimings are short enough for a person to watch and long enough for every status to be seen.
func DefaultTimings() Timings { return api.DefaultTimings() }

// NewManualClock makes a clock for Options that stands still until it is moved.
func NewManualClock() *ManualClock { return api.NewManualClock() }
