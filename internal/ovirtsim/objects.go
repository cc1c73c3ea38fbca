package ovirtsim

import "time"

// The objects of the engine, as they are in memory and in the state folder. They refer to each other by ID. They are
// only touched with Server.mu held.

type (
	dataCenter struct{ ID, Name, Description string }

	cluster struct {
		ID, Name, Description, DataCenter string
		CPUType, BiosType                 string
	}

	host struct {
		ID, Name, Cluster, Address, Status string
		// Memory in bytes.
		Memory int64
		CPU    topology
		// FailedAt is when the host was lost; zero while it is reached.
		FailedAt time.Time
	}

	affinityLabel struct {
		ID, Name   string
		VMs, Hosts []string
		// Implicit says that the label binds its VMs to its hosts.
		Implicit bool
	}

	network struct {
		ID, Name, Description, DataCenter string
		VLAN, MTU                         int64
		DHCP                              *DHCP
		SLAAC                             string
		// Leases by MAC.
		Leases map[string]string
	}

	vnicProfile struct {
		ID, Name, Description, Network string
		Mirroring                      bool
	}

	storageDomain struct {
		ID, Name, DataCenter, StorageType string
		// Bytes is its size.
		Bytes int64
	}

	template struct {
		hardware
		ID, Name, Description, Comment, Cluster, Status string
		// DataCenter that it is in; empty for Blank, which is in all.
		DataCenter string
		// Base is the ID of the first version; Version counts from 1.
		Base, VersionName string
		Version           int64
		// Initialization is that of the VM it was made of; it is laid under those of its VMs.
		Initialization       *element `json:",omitempty"`
		Kubernetes, Ignition string
		Consoles             []graphicsConsole
		Created              time.Time
		NotDeletable         bool
		Until                transition
	}

	instanceType struct {
		hardware
		ID, Name string
		Created  time.Time
	}

	// nic belongs to a VM or a template.
	nic struct {
		ID, Name, Owner, Profile, MAC, Interface string
		Unplugged, Unlinked                      bool
		// Order in which the guest finds it.
		Order int64
	}

	disk struct {
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
		// Made says that the engine has made its first volume.
		Made bool
		// NoProfile says that the disk came from a copy or a snapshot, which have no disk profile.
		NoProfile bool
		// SHA256 of what was uploaded last.
		SHA256 string
		Until  transition
	}

	// snapshot of a VM.
	snapshot struct {
		ID, VM, Description string
		// Kind is active, regular or preview.
		Kind, Status string
		Date         time.Time
		// Memory says that the guest's memory is in it.
		Memory   bool
		Order    int64
		Hardware hardware
		Disks    []snapshotDisk
		// Previews says that the VM is about to show it.
		Previews bool
		Until    transition
	}

	// snapshotDisk is a disk as it was, with its size in bytes.
	snapshotDisk struct {
		Disk        string
		Provisioned int64
	}

	// attachment joins a disk and a VM or template; its ID in the API is that of the disk.
	attachment struct {
		Owner, Disk, Interface           string
		Bootable, Active, ReadOnly       bool
		LogicalName                      string
		PassDiscard, UsesSCSIReservation bool
	}

	tag struct {
		ID, Name, Parent string
		// Description is nil where it was never set.
		Description           *string
		VMs, Hosts, Templates []string
		made                  time.Time
	}

	rule struct{ Enabled, Enforcing, Positive bool }

	affinityGroup struct {
		ID, Name, Cluster string
		// Description is nil where it was never set.
		Description          *string
		Priority             float64
		VMsRule, HostsRule   rule
		VMs, Hosts           []string
		VMLabels, HostLabels []string
		made                 time.Time
	}

	imageTransfer struct {
		ID, Disk, Host, Direction, Phase, Format, Ticket, TimeoutPolicy string
		Transferred, InactivityTimeout                                  int64
		LastActivity                                                    time.Time
		Until                                                           transition
		// Covered are the ranges that have arrived.
		Covered [][2]int64

		// ticketGone says that no more data is taken, although the phase is not the last one.
		ticketGone bool
	}

	job struct {
		ID, Description, Status, Correlation string
		Started, Ended                       time.Time
		// Waits is the object whose operation the job stands for: it ends with it.
		Waits string
	}

	event struct {
		ID                                                              int64
		Code                                                            int64
		Severity, Description, Correlation, VM, Host, Template, Storage string
		Time                                                            time.Time
	}

	user struct {
		ID, Name, Password string
		// Role on the whole system.
		Role string
		// Failures since the last login.
		Failures int
		Locked   bool
	}

	topology struct{ Cores, Sockets, Threads int64 }

	graphicsConsole struct{ ID, Protocol string }

	// transition is a change of status that comes by itself.
	transition struct {
		Status string    `json:",omitempty"`
		At     time.Time `json:",omitzero"`
	}

	vm struct {
		hardware
		ID, Name, Description, Comment string
		Cluster, Host, Status          string
		// Template is what the VM depends on: Blank for a clone. Original is what it was made from.
		Template, Original, InstanceType string
		// Next is what the next start gives it; nil when nothing waits.
		Next *hardware `json:",omitempty"`
		// Applied is what waited for the end of the run that has just ended; until it is there, the VM is being updated.
		Applied        *hardware `json:",omitempty"`
		Initialization *element  `json:",omitempty"`
		// RunOnce is the initialization of this run only; OnceRun says that the run was started with parameters of its own.
		RunOnce *element `json:",omitempty"`
		OnceRun bool
		// Kubernetes and Ignition say what is in the image; the template may be gone.
		Kubernetes, Ignition      string
		Consoles                  []graphicsConsole
		Created, Started, Stopped time.Time
		StopReason                *string
		Boots                     int
		NUMANodes                 []numaNode
		MediatedDevices           []mediatedDevice
		// CDROM is the ID of the image in the drive; empty where there is none.
		CDROM string
		// Watchdog of the VM; nil where it has none.
		Watchdog *watchdog `json:",omitempty"`
		// Stopping says that the host was told to end the VM, which is not seen in its status yet.
		Stopping bool
		// PauseAtStart says that the VM is paused as soon as it runs.
		PauseAtStart bool
		// Until is the next change of status that comes by itself.
		Until transition
		// Destination of a migration.
		Destination string
		GuestError  string

		// What follows is not kept over a restart.
		reported []ReportedInterface
		epoch    int
		cancel   func()
	}

	property struct{ Name, Value string }

	watchdog struct{ ID, Model, Action string }

	// numaNode of a VM; Memory in MiB.
	numaNode struct {
		ID            string
		Index, Memory int64
		Cores         []int64
	}

	mediatedDevice struct {
		ID         string
		Parameters []property
	}
)

const gib = 1 << 30

// blankTemplateID is the ID of the Blank template on every engine.
const blankTemplateID = "00000000-0000-0000-0000-000000000000"

// osRHCOS is the OS type for which the engine hands the user data to Ignition.
const osRHCOS = "rhcos_x64"

// The statuses of VMs.
const (
	statusDown             = "down"
	statusUp               = "up"
	statusImageLocked      = "image_locked"
	statusWaitForLaunch    = "wait_for_launch"
	statusPoweringUp       = "powering_up"
	statusPoweringDown     = "powering_down"
	statusRebootInProgress = "reboot_in_progress"
	statusMigrating        = "migrating"
	statusPaused           = "paused"
	statusSuspended        = "suspended"
	statusSavingState      = "saving_state"
	statusUnknown          = "unknown"
	statusNotResponding    = "not_responding"
)

// The statuses of hosts.
const (
	hostUp            = "up"
	hostMaintenance   = "maintenance"
	hostPreparing     = "preparing_for_maintenance"
	hostNonResponsive = "non_responsive"
)

// The statuses of disks and templates.
const (
	statusOK      = "ok"
	statusLocked  = "locked"
	statusIllegal = "illegal"
)
