package store

import (
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the graphics consoles of VMs and templates, and the CD drive.

// ConsoleIDs are the protocols in hexadecimal, as in the engine.
var ConsoleIDs = map[string]string{"vnc": "766e63", "spice": "7370696365"}

// ReportedInterface is a network interface in the guest agent's report.
type ReportedInterface struct {
	// Name in the guest.
	Name string
	// MAC address.
	MAC string
	// Addresses without prefix lengths, IPv4 and IPv6.
	Addresses []string
}

// AgentReport is the report of a VM's guest agent.
type AgentReport struct {
	// FQDN is the guest's host name, as reported by QEMU's agent.
	FQDN string
	// Interfaces with addresses.
	Interfaces []ReportedInterface
}

// DefaultBios is the default chip set and firmware of a cluster's VMs.
const DefaultBios = "q35_ovmf"

// DHCP is the simulated DHCP server of a network.
type DHCP struct {
	// First and Last address to lease.
	First string `json:"first"`
	Last  string `json:"last"`
	// Bits is the prefix length.
	Bits int `json:"bits"`
	// Gateway in the lease.
	Gateway string `json:"gateway,omitempty"`
}

// RootTagID is the ID of the root tag on every engine.
const RootTagID = BlankTemplateID

// The engine's objects, as in memory and in the state folder. They refer to each other by ID. Code accessing them must
// hold the engine's lock.

type (
	// DataCenter contains clusters, networks and storage domains.
	DataCenter struct{ ID, Name, Description string }

	// Cluster contains hosts of one CPU type.
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
		// Devices are device names available to VMs, such as pci_0000_3b_00_0. MediatedTypes are the types of mediated
		// devices the host provides, such as nvidia-63.
		Devices, MediatedTypes []string
		// FailedAt is the time of the host's failure; zero while it is reachable.
		FailedAt time.Time
	}

	// AffinityLabel is a label for VMs and hosts.
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
		// Router holds the addresses of the network's router, each as ADDRESS/BITS.
		Router []string
		// Leases by MAC.
		Leases map[string]string
	}

	// VNICProfile connects VMs to a network.
	VNICProfile struct {
		ID, Name, Description, Network string
		Mirroring                      bool
	}

	// StorageDomain contains disks.
	StorageDomain struct {
		ID, Name, DataCenter, StorageType string
		// Bytes is its size.
		Bytes int64
		// Maintenance reports that it accepts no new disks.
		Maintenance bool
	}

	// Template is the source of VMs.
	Template struct {
		Hardware
		ID, Name, Description, Comment, Cluster, Status string
		// DataCenter of the template; "" for Blank, available in all.
		DataCenter string
		// Base is the ID of the first version; Version counts from 1.
		Base, VersionName string
		Version           int64
		// Initialization comes from the source VM. It is the base for the initialization of its VMs.
		Initialization       *wire.Element `json:",omitempty"`
		Kubernetes, Ignition string
		// Image is the vendor of the image.
		Image        string `json:",omitempty"`
		Consoles     []GraphicsConsole
		Created      time.Time
		NotDeletable bool
		Until        Transition
	}

	// InstanceType defines sizes of VMs.
	InstanceType struct {
		Hardware
		ID, Name string
		Created  time.Time
	}

	// NIC belongs to a VM or a template.
	NIC struct {
		ID, Name, Owner, Profile, MAC, Interface string
		Unplugged, Unlinked                      bool
		// Order in which the guest detects it.
		Order int64
	}

	// Disk of VMs, of a template, or of neither.
	Disk struct {
		ID string
		// Name is its alias.
		Name, Description, Domain, Format, Status, ContentType string
		Sparse, Shareable, WipeAfterDelete                     bool
		// Provisioned, Actual and Initial sizes in bytes.
		Provisioned, Actual, Initial int64
		// Copies are further storage domains with a copy of a template's disk.
		Copies []string
		// Parent is the template's disk a linked disk depends on.
		Parent string
		// Backup is none or incremental.
		Backup string
		// Made reports that the engine has created its first volume.
		Made bool
		// NoProfile reports that the disk came from a copy or a snapshot. Such disks have no disk profile.
		NoProfile bool
		// SHA256 of the last upload.
		SHA256 string
		Until  Transition
	}

	// Snapshot of a VM.
	Snapshot struct {
		ID, VM, Description string
		// Kind is active, regular or preview.
		Kind, Status string
		Date         time.Time
		// Memory reports that it includes the guest's memory.
		Memory   bool
		Order    int64
		Hardware Hardware
		Disks    []snapshotDisk
		// Previews reports that the VM is about to show it.
		Previews bool
		Until    Transition
	}

	// snapshotDisk is the former state of a disk, with its size in bytes.
	snapshotDisk struct {
		Disk        string
		Provisioned int64
	}

	// Attachment joins a disk and a VM or template; its ID in the API is the disk's.
	Attachment struct {
		Owner, Disk, Interface           string
		Bootable, Active, ReadOnly       bool
		LogicalName                      string
		PassDiscard, UsesSCSIReservation bool
	}

	// Tag is a tag for VMs, hosts and templates. Tags form a tree.
	Tag struct {
		ID, Name, Parent string
		// Description is nil if it was never set.
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
		// Description is nil if it was never set.
		Description          *string
		Priority             float64
		VMsRule, HostsRule   Rule
		VMs, Hosts           []string
		VMLabels, HostLabels []string
		Made                 time.Time `json:"-"`
	}

	// ImageTransfer transfers data to or from a disk.
	ImageTransfer struct {
		ID, Disk, Host, Direction, Phase, Format, Ticket, TimeoutPolicy string
		Transferred, InactivityTimeout                                  int64
		LastActivity                                                    time.Time
		Until                                                           Transition
		// Covered are the received ranges.
		Covered [][2]int64

		// TicketGone reports that no more data is accepted, although the phase is not the last one.
		TicketGone bool `json:"-"`
	}

	// Job is an operation in the list of jobs.
	Job struct {
		ID, Description, Status, Correlation string
		Started, Ended                       time.Time
		// Waits is the object of the job's operation: the job ends with the operation.
		Waits string
	}

	// Event is an entry of the audit log.
	Event struct {
		ID                                                              int64
		Code                                                            int64
		Severity, Description, Correlation, VM, Host, Template, Storage string
		// VMName is the VM's name at the time of the event.
		VMName string
		Time   time.Time
	}

	// User is a user allowed to log in.
	User struct {
		ID, Name, Password string
		// Role on the whole system.
		Role string
		// Permits are the permits of a custom role; empty for a built-in role.
		Permits []string `json:",omitempty"`
		// Failures since the last login.
		Failures int
		Locked   bool
	}

	// Topology of CPUs.
	Topology struct{ Cores, Sockets, Threads int64 }

	// GraphicsConsole of a VM or a template.
	GraphicsConsole struct{ ID, Protocol string }

	// Transition is a pending automatic change of status.
	Transition struct {
		Status string    `json:",omitempty"`
		At     time.Time `json:",omitzero"`
	}

	// VM is a virtual machine.
	VM struct {
		Hardware
		ID, Name, Description, Comment string
		Cluster, Host, Status          string
		// Template is the VM's dependency: Blank for a clone. Original is the template it was created from.
		Template, Original, InstanceType string
		// Next is the hardware for the next start; nil if nothing is pending.
		Next *Hardware `json:",omitempty"`
		// Applied is hardware pending until the end of the run just finished. Until it takes effect, the VM is being
		// updated.
		Applied        *Hardware     `json:",omitempty"`
		Initialization *wire.Element `json:",omitempty"`
		// Initialized reports that the VM was up. Later starts have a drive only on request.
		Initialized bool
		// Drive is the initialization on the guest's drive in this run; nil if there is no drive.
		Drive *wire.Element `json:",omitempty"`
		// DriveID is the instance ID on the drive. It tells cloud-init whether it has run.
		DriveID string `json:",omitempty"`
		// OnceRun reports that the run was started with its own parameters.
		OnceRun bool
		// Kubernetes, Ignition and Image describe the image, because the template may be deleted.
		Kubernetes, Ignition      string
		Image                     string `json:",omitempty"`
		Consoles                  []GraphicsConsole
		Created, Started, Stopped time.Time
		StopReason                *string
		Boots                     int
		NUMANodes                 []NUMANode
		MediatedDevices           []MediatedDevice
		// HostDevices are names of devices on the host the VM is pinned to.
		HostDevices []string
		// CDROM is the ID of the image in the drive, or "".
		CDROM string
		// Watchdog of the VM; nil for none.
		Watchdog *Watchdog `json:",omitempty"`
		// Stopping reports that the host is ending the VM, without an effect on its status yet.
		Stopping bool
		// PauseAtStart reports that the VM is paused as soon as it runs.
		PauseAtStart bool
		// Until is the next automatic change of status.
		Until Transition
		// Destination of a migration.
		Destination string
		GuestError  string

		// The following fields are not kept across restarts.
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

// OSRHCOS is the OS type with Ignition user data.
const OSRHCOS = "rhcos_x64"

// Names in inventories of images with their own behavior.
const (
	// ImageOCK is Oracle's OCK (Oracle Container host for Kubernetes).
	ImageOCK = "ock"
	// ImageOracleLinux is Oracle Linux with its SELinux policy.
	ImageOracleLinux = "oracle-linux"
)

// Images lists all names of images; the unnamed image has every program.
var Images = []string{"", ImageOCK, ImageOracleLinux}

// Statuses of VMs.
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

// Statuses of hosts.
const (
	HostUp            = "up"
	HostMaintenance   = "maintenance"
	HostPreparing     = "preparing_for_maintenance"
	HostNonResponsive = "non_responsive"
)

// Statuses of disks and templates.
const (
	StatusOK      = "ok"
	StatusLocked  = "locked"
	StatusIllegal = "illegal"
)

// This file contains snapshots of VMs. Every VM has an active snapshot: its present state.

// Kinds of snapshots, and a status exclusive to them.
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

// BaseVersion is the name of a template's first version.
const BaseVersion = "base version"

// This file contains image transfers: the engine's side, and the data endpoint served by ovirt-imageio on a host.

// Phases of a transfer.
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
