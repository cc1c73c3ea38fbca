package store

import (
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file has the graphics consoles of VMs and templates, and the drive for CDs.

// ConsoleIDs are the protocols in hexadecimal, as the engine has it.
var ConsoleIDs = map[string]string{"vnc": "766e63", "spice": "7370696365"}

// ReportedInterface is a network interface as the guest agent reports it.
type ReportedInterface struct {
	// Name in the guest.
	Name string
	// MAC address.
	MAC string
	// Addresses without prefix lengths, IPv4 and IPv6.
	Addresses []string
}

// AgentReport is what the guest agent of a VM reports.
type AgentReport struct {
	// FQDN is how the guest calls itself: its host name, as QEMU's agent reports it.
	FQDN string
	// Interfaces that have addresses.
	Interfaces []ReportedInterface
}

// DefaultBios is the chip set and firmware of VMs whose cluster names no others.
const DefaultBios = "q35_ovmf"

// DHCP is the simulated DHCP server of a network.
type DHCP struct {
	// First and Last address that it gives out.
	First string `json:"first"`
	Last  string `json:"last"`
	// Bits is the length of the prefix.
	Bits int `json:"bits"`
	// Gateway that comes with the lease.
	Gateway string `json:"gateway,omitempty"`
}

// RootTagID is the ID of the tag that all others descend from, on every engine.
const RootTagID = BlankTemplateID

// The objects of the engine, as they are in memory and in the state folder. They refer to each other by ID. Whoever
// touches them has locked the engine.

type (
	// DataCenter has clusters, networks and storage domains.
	DataCenter struct{ ID, Name, Description string }

	// Cluster has hosts of one kind of CPU.
	Cluster struct {
		ID, Name, Description, DataCenter string
		CPUType, BiosType                 string
	}

	// Host runs VMs.
	Host struct {
		ID, Name, Cluster, Address, Status string
		// Memory in bytes.
		Memory int64
		CPU    Topology
		// Devices are names of those that VMs may have, such as pci_0000_3b_00_0; MediatedTypes are the types of
		// mediated devices that it makes, such as nvidia-63.
		Devices, MediatedTypes []string
		// FailedAt is when the host was lost; zero while it is reached.
		FailedAt time.Time
	}

	// AffinityLabel is put on VMs and hosts.
	AffinityLabel struct {
		ID, Name   string
		VMs, Hosts []string
		// Implicit reports that the label binds its VMs to its hosts.
		Implicit bool
	}

	// Network of a data center.
	Network struct {
		ID, Name, Description, DataCenter string
		VLAN, MTU                         int64
		DHCP                              *DHCP
		SLAAC, Proxy                      string
		// Router has the addresses of the network's router, each as ADDRESS/BITS.
		Router []string
		// Leases by MAC.
		Leases map[string]string
	}

	// VNICProfile is how VMs are connected to a network.
	VNICProfile struct {
		ID, Name, Description, Network string
		Mirroring                      bool
	}

	// StorageDomain has disks.
	StorageDomain struct {
		ID, Name, DataCenter, StorageType string
		// Bytes is its size.
		Bytes int64
		// Maintenance reports that no disk can be made on it.
		Maintenance bool
	}

	// Template is what VMs are made of.
	Template struct {
		Hardware
		ID, Name, Description, Comment, Cluster, Status string
		// DataCenter that it is in; empty for Blank, which is in all.
		DataCenter string
		// Base is the ID of the first version; Version counts from 1.
		Base, VersionName string
		Version           int64
		// Initialization is that of the VM it was made of; it is laid under those of its VMs.
		Initialization       *wire.Element `json:",omitempty"`
		Kubernetes, Ignition string
		// Image is whose the image is.
		Image        string `json:",omitempty"`
		Consoles     []GraphicsConsole
		Created      time.Time
		NotDeletable bool
		Until        Transition
	}

	// InstanceType sizes VMs.
	InstanceType struct {
		Hardware
		ID, Name string
		Created  time.Time
	}

	// NIC belongs to a VM or a template.
	NIC struct {
		ID, Name, Owner, Profile, MAC, Interface string
		Unplugged, Unlinked                      bool
		// Order in which the guest finds it.
		Order int64
	}

	// Disk of VMs, of a template, or of none.
	Disk struct {
		ID string
		// Name is its alias.
		Name, Description, Domain, Format, Status, ContentType string
		Sparse, Shareable, WipeAfterDelete                     bool
		// Provisioned, Actual and Initial sizes in bytes.
		Provisioned, Actual, Initial int64
		// Copies are further storage domains that a template's disk was copied to.
		Copies []string
		// Parent is the template's disk that a linked one depends on.
		Parent string
		// Backup is none or incremental.
		Backup string
		// Made reports that the engine has made its first volume.
		Made bool
		// NoProfile reports that the disk came from a copy or a snapshot, which have no disk profile.
		NoProfile bool
		// SHA256 of what was uploaded last.
		SHA256 string
		Until  Transition
	}

	// Snapshot of a VM.
	Snapshot struct {
		ID, VM, Description string
		// Kind is active, regular or preview.
		Kind, Status string
		Date         time.Time
		// Memory reports that the guest's memory is in it.
		Memory   bool
		Order    int64
		Hardware Hardware
		Disks    []snapshotDisk
		// Previews reports that the VM is about to show it.
		Previews bool
		Until    Transition
	}

	// snapshotDisk is a disk as it was, with its size in bytes.
	snapshotDisk struct {
		Disk        string
		Provisioned int64
	}

	// Attachment joins a disk and a VM or template; its ID in the API is that of the disk.
	Attachment struct {
		Owner, Disk, Interface           string
		Bootable, Active, ReadOnly       bool
		LogicalName                      string
		PassDiscard, UsesSCSIReservation bool
	}

	// Tag is put on VMs, hosts and templates. Tags form a tree.
	Tag struct {
		ID, Name, Parent string
		// Description is nil where it was never set.
		Description           *string
		VMs, Hosts, Templates []string
		Made                  time.Time `json:"-"`
	}

	// Permission gives a user or a group a role on one object. No answer depends on it: what a user may do follows from
	// the role that the inventory gives the user.
	Permission struct{ ID, Object, Role, User, Group string }

	// Rule of an affinity group, among its VMs or between its VMs and its hosts.
	Rule struct{ Enabled, Enforcing, Positive bool }

	// AffinityGroup keeps VMs together or apart.
	AffinityGroup struct {
		ID, Name, Cluster string
		// Description is nil where it was never set.
		Description          *string
		Priority             float64
		VMsRule, HostsRule   Rule
		VMs, Hosts           []string
		VMLabels, HostLabels []string
		Made                 time.Time `json:"-"`
	}

	// ImageTransfer carries data to or from a disk.
	ImageTransfer struct {
		ID, Disk, Host, Direction, Phase, Format, Ticket, TimeoutPolicy string
		Transferred, InactivityTimeout                                  int64
		LastActivity                                                    time.Time
		Until                                                           Transition
		// Covered are the ranges that have arrived.
		Covered [][2]int64

		// TicketGone reports that no more data is taken, although the phase is not the last one.
		TicketGone bool `json:"-"`
	}

	// Job is what an operation has in the list of jobs.
	Job struct {
		ID, Description, Status, Correlation string
		Started, Ended                       time.Time
		// Waits is the object whose operation the job stands for: it ends with it.
		Waits string
	}

	// Event is an entry of the audit log.
	Event struct {
		ID                                                              int64
		Code                                                            int64
		Severity, Description, Correlation, VM, Host, Template, Storage string
		// VMName is the name that the VM had.
		VMName string
		Time   time.Time
	}

	// User who may log in.
	User struct {
		ID, Name, Password string
		// Role on the whole system.
		Role string
		// Permits are those of a role of one's own; empty for one that every engine has.
		Permits []string `json:",omitempty"`
		// Failures since the last login.
		Failures int
		Locked   bool
	}

	// Topology of CPUs.
	Topology struct{ Cores, Sockets, Threads int64 }

	// GraphicsConsole of a VM or a template.
	GraphicsConsole struct{ ID, Protocol string }

	// Transition is a change of status that comes by itself.
	Transition struct {
		Status string    `json:",omitempty"`
		At     time.Time `json:",omitzero"`
	}

	// VM is a virtual machine.
	VM struct {
		Hardware
		ID, Name, Description, Comment string
		Cluster, Host, Status          string
		// Template is what the VM depends on: Blank for a clone. Original is what it was made from.
		Template, Original, InstanceType string
		// Next is what the next start gives it; nil when nothing waits.
		Next *Hardware `json:",omitempty"`
		// Applied is what waited for the end of the run that has just ended; until it is there, the VM is being
		// updated.
		Applied        *Hardware     `json:",omitempty"`
		Initialization *wire.Element `json:",omitempty"`
		// Initialized reports that the VM was up: later starts have no drive unless they ask for one.
		Initialized bool
		// Drive is the initialization that the guest finds on a drive in this run; nil where it has none.
		Drive *wire.Element `json:",omitempty"`
		// DriveID is the ID of the instance on that drive, by which cloud-init knows whether it has run.
		DriveID string `json:",omitempty"`
		// OnceRun reports that the run was started with parameters of its own.
		OnceRun bool
		// Kubernetes, Ignition and Image say what is in the image; the template may be gone.
		Kubernetes, Ignition      string
		Image                     string `json:",omitempty"`
		Consoles                  []GraphicsConsole
		Created, Started, Stopped time.Time
		StopReason                *string
		Boots                     int
		NUMANodes                 []NUMANode
		MediatedDevices           []MediatedDevice
		// HostDevices are names of devices of the host that the VM is pinned to.
		HostDevices []string
		// CDROM is the ID of the image in the drive; empty where there is none.
		CDROM string
		// Watchdog of the VM; nil where it has none.
		Watchdog *Watchdog `json:",omitempty"`
		// Stopping reports that the host was told to end the VM, which is not seen in its status yet.
		Stopping bool
		// PauseAtStart reports that the VM is paused as soon as it runs.
		PauseAtStart bool
		// Until is the next change of status that comes by itself.
		Until Transition
		// Destination of a migration.
		Destination string
		GuestError  string

		// What follows is not kept over a restart.
		Report AgentReport `json:"-"`
		Epoch  int         `json:"-"`
		Cancel func()      `json:"-"`
	}

	// Property is a custom property of a VM.
	Property struct{ Name, Value string }

	// Watchdog of a VM.
	Watchdog struct{ ID, Model, Action string }

	// NUMANode of a VM; Memory in MiB.
	NUMANode struct {
		ID            string
		Index, Memory int64
		Cores         []int64
	}

	// MediatedDevice of a VM.
	MediatedDevice struct {
		ID         string
		Parameters []Property
	}
)

// GiB in bytes.
const GiB = 1 << 30

// BlankTemplateID is the ID of the Blank template on every engine.
const BlankTemplateID = "00000000-0000-0000-0000-000000000000"

// OSRHCOS is the OS type for which the engine hands the user data to Ignition.
const OSRHCOS = "rhcos_x64"

// Images that start something by themselves, and their names in inventories.
const (
	// ImageOCK is Oracle's (OCK, Oracle Container host for Kubernetes).
	ImageOCK = "ock"
	// ImageOracleLinux has Oracle Linux with its SELinux.
	ImageOracleLinux = "oracle-linux"
)

// Images are all names of images; the one without a name has every program.
var Images = []string{"", ImageOCK, ImageOracleLinux}

// The statuses of VMs.
const (
	StatusDown             = "down"
	StatusUp               = "up"
	StatusImageLocked      = "image_locked"
	StatusWaitForLaunch    = "wait_for_launch"
	StatusPoweringUp       = "powering_up"
	StatusPoweringDown     = "powering_down"
	StatusRebootInProgress = "reboot_in_progress"
	StatusMigrating        = "migrating"
	StatusPaused           = "paused"
	StatusSuspended        = "suspended"
	StatusSavingState      = "saving_state"
	StatusUnknown          = "unknown"
	StatusNotResponding    = "not_responding"
)

// The statuses of hosts.
const (
	HostUp            = "up"
	HostMaintenance   = "maintenance"
	HostPreparing     = "preparing_for_maintenance"
	HostNonResponsive = "non_responsive"
)

// The statuses of disks and templates.
const (
	StatusOK      = "ok"
	StatusLocked  = "locked"
	StatusIllegal = "illegal"
)

// This file has snapshots of VMs. Every VM has the active one, which is the VM as it is.

// The kinds of snapshots, and a status that only they have.
const (
	SnapshotActive   = "active"
	SnapshotRegular  = "regular"
	SnapshotPreview  = "preview"
	StatusInPreview  = "in_preview"
	ActiveText       = "Active VM"
	BeforePreview    = "Active VM before the preview"
	SnapshotWaitText = "The VM is performing an operation on a Snapshot. Please wait for the operation " +
		"to finish, and try again."
)

// BaseVersion is what the first version of a template is called.
const BaseVersion = "base version"

// This file has image transfers: the engine's side, and the data endpoint that ovirt-imageio serves on a host.

// The phases of a transfer.
const (
	PhaseResuming        = "resuming"
	PhaseTransferring    = "transferring"
	PhasePausedSystem    = "paused_system"
	PhasePausedUser      = "paused_user"
	PhaseFinalizing      = "finalizing_success"
	PhaseFailing         = "finalizing_failure"
	PhaseCleaning        = "finalizing_cleanup"
	PhaseFinishedSuccess = "finished_success"
	PhaseFinishedFailure = "finished_failure"
	PhaseCancelledUser   = "cancelled_user"
	PhaseCancelledSystem = "cancelled_system"
	PhaseFinishedCleanup = "finished_cleanup"
)
