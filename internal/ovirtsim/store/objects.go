package store

import (
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the graphics consoles of VMs and templates, and the CD-ROM drive.

// ConsoleIDs maps the protocols of consoles to their hexadecimal form, which is the console's ID in the engine.
var ConsoleIDs = map[string]string{"vnc": "766e63", "spice": "7370696365"}

// ReportedInterface is a network interface in the guest agent's report.
type ReportedInterface struct {
	// Name is the name in the guest.
	Name string
	// MAC is the MAC address.
	MAC string
	// Addresses are IPv4 and IPv6 addresses without prefix lengths.
	Addresses []string
}

// AgentReport is the report of a VM's guest agent.
type AgentReport struct {
	// FQDN is the guest's host name, as reported by QEMU's agent.
	FQDN string
	// Interfaces are the interfaces with addresses.
	Interfaces []ReportedInterface
}

// DefaultBios is the default chip set and firmware of a cluster's VMs.
const DefaultBios = "q35_ovmf"

// DHCP is the simulated DHCP server of a network.
type DHCP struct {
	// First and Last are the first and the last address to lease.
	First string `json:"first"`
	Last  string `json:"last"`
	// Bits is the prefix length.
	Bits int `json:"bits"`
	// Gateway is the gateway in the lease.
	Gateway string `json:"gateway,omitempty"`
}

// RootTagID is the ID of the root tag on every engine.
const RootTagID = BlankTemplateID

// These types are the engine's objects, in memory and in the state folder. They refer to each other by ID. Code that
// accesses them must hold the engine's lock.

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
		// Memory is in bytes.
		Memory int64
		CPU    Topology
		// Devices are the names of devices for VMs, such as pci_0000_3b_00_0. MediatedTypes are the types of mediated
		// devices that the host provides, such as nvidia-63.
		Devices, MediatedTypes []string
		// FailedAt is the time at which the host failed; zero means that the host is reachable.
		FailedAt time.Time
	}

	// AffinityLabel is a label for VMs and hosts.
	AffinityLabel struct {
		ID, Name   string
		VMs, Hosts []string
		// Implicit reports that the label binds its VMs to its hosts.
		Implicit bool
	}

	// Network is a network of a data center.
	Network struct {
		ID, Name, Description, DataCenter string
		VLAN, MTU                         int64
		DHCP                              *DHCP
		SLAAC, Proxy                      string
		// Router holds the addresses of the network's router, in the form ADDRESS/BITS.
		Router []string
		// Leases maps MAC addresses to their leases.
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
		// Bytes is the size of the domain.
		Bytes int64
		// Maintenance reports that the domain accepts no new disks.
		Maintenance bool
	}

	// Template is the source of VMs.
	Template struct {
		Hardware
		ID, Name, Description, Comment, Cluster, Status string
		// DataCenter is the ID of the template's data center. It is "" for Blank, because all data centers have it.
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
		// Order is the position in which the guest detects the NIC.
		Order int64
	}

	// Disk is a disk of VMs, of a template, or of neither.
	Disk struct {
		ID string
		// Name is the disk's alias.
		Name, Description, Domain, Format, Status, ContentType string
		Sparse, Shareable, WipeAfterDelete                     bool
		// Provisioned, Actual and Initial are sizes in bytes.
		Provisioned, Actual, Initial int64
		// Copies are the IDs of other storage domains that have a copy of a template's disk.
		Copies []string
		// Parent is the ID of the template's disk on which a linked disk depends.
		Parent string
		// Backup is none or incremental.
		Backup string
		// Made reports that the engine has created the disk's first volume.
		Made bool
		// NoProfile reports that the disk comes from a copy or a snapshot. Such disks have no disk profile.
		NoProfile bool
		// SHA256 is the checksum of the last upload.
		SHA256 string
		Until  Transition
	}

	// Snapshot is a snapshot of a VM.
	Snapshot struct {
		ID, VM, Description string
		// Kind is active, regular or preview.
		Kind, Status string
		Date         time.Time
		// Memory reports that the snapshot includes the guest's memory.
		Memory   bool
		Order    int64
		Hardware Hardware
		Disks    []snapshotDisk
		// Previews reports that the VM is about to preview the snapshot.
		Previews bool
		Until    Transition
	}

	// snapshotDisk is the former state of a disk, with its size in bytes.
	snapshotDisk struct {
		Disk        string
		Provisioned int64
	}

	// Attachment connects a disk to a VM or template. In the API, its ID is that of the disk.
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

	// Rule is the rule of an affinity group between its VMs, or between its VMs and its hosts.
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

	// ImageTransfer is a transfer of data to or from a disk.
	ImageTransfer struct {
		ID, Disk, Host, Direction, Phase, Format, Ticket, TimeoutPolicy string
		Transferred, InactivityTimeout                                  int64
		LastActivity                                                    time.Time
		Until                                                           Transition
		// Covered are the received ranges of bytes.
		Covered [][2]int64

		// TicketGone reports that the transfer accepts no more data, although its last phase has not begun.
		TicketGone bool `json:"-"`
	}

	// Job is an operation in the list of jobs.
	Job struct {
		ID, Description, Status, Correlation string
		Started, Ended                       time.Time
		// Waits is the ID of the object of the job's operation. The job ends with this operation.
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

	// User is a user who may log in.
	User struct {
		ID, Name, Password string
		// Role is the user's role on the whole system.
		Role string
		// Permits are the permits of a custom role; empty for a built-in role.
		Permits []string `json:",omitempty"`
		// Failures is the number of failed logins since the last successful one.
		Failures int
		Locked   bool
	}

	// Topology is the topology of a VM's CPUs.
	Topology struct{ Cores, Sockets, Threads int64 }

	// GraphicsConsole is a console of a VM or a template.
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
		// Template is the template on which the VM depends: Blank for a clone. Original is the template from which the
		// VM was created.
		Template, Original, InstanceType string
		// Next is the hardware for the next start; nil if nothing is pending.
		Next *Hardware `json:",omitempty"`
		// Applied is the new hardware of a VM that just stopped. Until the hardware takes effect, the VM is being
		// updated.
		Applied        *Hardware     `json:",omitempty"`
		Initialization *wire.Element `json:",omitempty"`
		// Initialized reports that the VM has been up before. Later starts have a drive only if the client requests it.
		Initialized bool
		// Drive is the initialization on the guest's drive in this run; nil means no drive.
		Drive *wire.Element `json:",omitempty"`
		// DriveID is the instance ID on the drive. From this ID, cloud-init knows whether it has run before.
		DriveID string `json:",omitempty"`
		// OnceRun reports that the start had parameters for this run only.
		OnceRun bool
		// Kubernetes, Ignition and Image describe the VM's image, because the template may be deleted.
		Kubernetes, Ignition      string
		Image                     string `json:",omitempty"`
		Consoles                  []GraphicsConsole
		Created, Started, Stopped time.Time
		StopReason                *string
		Boots                     int
		NUMANodes                 []NUMANode
		MediatedDevices           []MediatedDevice
		// HostDevices are names of devices on the host to which the VM is pinned.
		HostDevices []string
		// CDROM is the ID of the image in the CD-ROM drive, or "".
		CDROM string
		// Watchdog is the watchdog of the VM; nil means none.
		Watchdog *Watchdog `json:",omitempty"`
		// Stopping reports that the host is ending the VM, although the VM's status does not show it yet.
		Stopping bool
		// PauseAtStart reports that the VM pauses as soon as it runs.
		PauseAtStart bool
		// Until is the next automatic change of the VM's status.
		Until Transition
		// Destination is the ID of the host to which the VM migrates.
		Destination string
		GuestError  string

		// A restart loses the following fields.
		Report AgentReport `json:"-"`
		Epoch  int         `json:"-"`
		Cancel func()      `json:"-"`
	}

	// Property is a custom property of a VM.
	Property struct{ Name, Value string }

	// Watchdog is the watchdog of a VM.
	Watchdog struct{ ID, Model, Action string }

	// NUMANode is a NUMA node of a VM. Memory is in MiB.
	NUMANode struct {
		ID            string
		Index, Memory int64
		Cores         []int64
	}

	// MediatedDevice is a mediated device of a VM.
	MediatedDevice struct {
		ID         string
		Parameters []Property
	}
)

// GiB is one GiB in bytes.
const GiB = 1 << 30

// BlankTemplateID is the ID of the Blank template on every engine.
const BlankTemplateID = "00000000-0000-0000-0000-000000000000"

// OSRHCOS is the OS type whose user data is for Ignition.
const OSRHCOS = "rhcos_x64"

// These constants are the names of images with special behavior, as used in inventories.
const (
	// ImageOCK is Oracle's OCK (Oracle Container host for Kubernetes).
	ImageOCK = "ock"
	// ImageOracleLinux is Oracle Linux with its SELinux policy.
	ImageOracleLinux = "oracle-linux"
)

// Images lists all names of images. The image "" has every program.
var Images = []string{"", ImageOCK, ImageOracleLinux}

// These constants are statuses of VMs.
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

// These constants are statuses of hosts.
const (
	HostUp            = "up"
	HostMaintenance   = "maintenance"
	HostPreparing     = "preparing_for_maintenance"
	HostNonResponsive = "non_responsive"
)

// These constants are statuses of disks and templates.
const (
	StatusOK      = "ok"
	StatusLocked  = "locked"
	StatusIllegal = "illegal"
)

// This file contains snapshots of VMs. Every VM has an active snapshot, which is its present state.

// These constants are kinds of snapshots, and a status that only snapshots have.
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

// This file contains image transfers: the engine's side, and the data endpoint that ovirt-imageio serves on a host.

// These constants are phases of a transfer.
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
