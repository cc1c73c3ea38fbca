package engine

import (
	"cmp"
	"encoding/xml"
	"time"
)

// MaxVMName limits the name of a VM in characters.
const MaxVMName = 64

// VMStatus is the status of a VM as spelled by the engine.
type VMStatus string

// These are the statuses that decisions depend on. The engine has more.
const (
	VMDown             VMStatus = "down"
	VMUp               VMStatus = "up"
	VMImageLocked      VMStatus = "image_locked"
	VMWaitForLaunch    VMStatus = "wait_for_launch"
	VMPoweringUp       VMStatus = "powering_up"
	VMPoweringDown     VMStatus = "powering_down"
	VMRebootInProgress VMStatus = "reboot_in_progress"
	VMMigrating        VMStatus = "migrating"
	VMPaused           VMStatus = "paused"
	VMSuspended        VMStatus = "suspended"
	VMSavingState      VMStatus = "saving_state"
	VMRestoringState   VMStatus = "restoring_state"
	VMNotResponding    VMStatus = "not_responding"
	VMUnknown          VMStatus = "unknown"
	VMUnassigned       VMStatus = "unassigned"
)

// IsOff reports whether the VM can be removed without a stop. An engine refuses to stop a VM that is on no host.
func (s VMStatus) IsOff() bool { return s == VMDown || s == VMUnassigned || s == "" }

// IsBusy reports whether the engine or the guest must finish an operation before the VM can be stopped or removed.
func (s VMStatus) IsBusy() bool { return s == VMImageLocked || s == VMPoweringDown }

// IsAsleep reports whether the VM is suspended or paused until a user resumes it, or is changing into or out of this
// state.
func (s VMStatus) IsAsleep() bool {
	return s == VMPaused || s == VMSuspended || s == VMSavingState || s == VMRestoringState
}

// IsOutOfSight reports whether the engine does not know the VM's state, because the VM or its host is unreachable.
func (s VMStatus) IsOutOfSight() bool { return s == VMUnknown || s == VMNotResponding }

// IsStarting reports whether the VM is starting.
func (s VMStatus) IsStarting() bool {
	return s == VMWaitForLaunch || s == VMPoweringUp || s == VMRebootInProgress
}

// Ref refers to another object of the engine.
type Ref struct {
	ID   ID     `xml:"id,attr,omitempty"`
	Name string `xml:"name,omitempty"`
}

// NewRef returns a reference to the object with this ID, or nil for an empty ID.
func NewRef(id ID) *Ref {
	if id == "" {
		return nil
	}

	return &Ref{ID: id}
}

// RefID returns the ID of the referenced object, or "" for nil.
func RefID(r *Ref) ID {
	if r == nil {
		return ""
	}

	return r.ID
}

// VM is a virtual machine. In a request, nil pointers leave the value to the engine.
type VM struct {
	XMLName          xml.Name          `xml:"vm"`
	ID               ID                `xml:"id,attr,omitempty"`
	Name             string            `xml:"name,omitempty"`
	Comment          *string           `xml:"comment"`
	Description      *string           `xml:"description"`
	Status           VMStatus          `xml:"status,omitempty"`
	Cluster          *Ref              `xml:"cluster"`
	Template         *Ref              `xml:"template"`
	OriginalTemplate *Ref              `xml:"original_template"` // also of a clone; only in answers
	InstanceType     *Ref              `xml:"instance_type"`
	CPU              *CPU              `xml:"cpu"`
	Memory           *int64            `xml:"memory"` // bytes
	MemoryPolicy     *MemoryPolicy     `xml:"memory_policy"`
	OS               *OS               `xml:"os"`
	Type             string            `xml:"type,omitempty"`
	Console          *Console          `xml:"console"`
	Soundcard        *bool             `xml:"soundcard_enabled"`
	DeleteProtected  *bool             `xml:"delete_protected"`
	PlacementPolicy  *PlacementPolicy  `xml:"placement_policy"`
	Properties       *Properties       `xml:"custom_properties"`
	DiskAttachments  *DiskOverrides    `xml:"disk_attachments"`
	Initialization   *Initialization   `xml:"initialization"`
	HighAvailability *HighAvailability `xml:"high_availability"`
	Lease            *Lease            `xml:"lease"`
	// StorageError is the reaction to an error of the VM's storage: auto_resume, leave_paused or kill.
	StorageError string `xml:"storage_error_resume_behaviour,omitempty"`
	BIOS         *BIOS  `xml:"bios"`
	TPM          *bool  `xml:"tpm_enabled"`
	AutoPinning  string `xml:"auto_pinning_policy,omitempty"` // AutoPinningOff, "existing" or "adjust"
	Created      string `xml:"creation_time,omitempty"`       // only in answers
	StartTime    string `xml:"start_time,omitempty"`          // of the last start; only in answers
	Host         *Ref   `xml:"host"`                          // where it runs; only in answers
	// StopReason is the reason given by the user who stopped the VM, and may be empty. It is nil if nobody stopped the
	// VM since its start. Requests do not have it.
	StopReason *string `xml:"stop_reason"`
	StopTime   string  `xml:"stop_time,omitempty"` // of the last end, if it is down; only in answers
	FQDN       string  `xml:"fqdn,omitempty"`      // of the guest, as its agent reports it; only in answers
	// ChangesWait reports whether settings wait for the next start. Requests do not have it.
	ChangesWait bool `xml:"next_run_configuration_exists,omitempty"`

	devicesAtNextStart *devices
	others             []element // of a full answer, and of a request to repeat pending settings
}

// CommentText returns the comment, or "".
func (v *VM) CommentText() string {
	if v.Comment == nil {
		return ""
	}

	return *v.Comment
}

// StartedAt returns the time of the VM's last start, or false if the engine omits it.
func (v *VM) StartedAt() (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, v.StartTime)
	return at, err == nil
}

// IsHighlyAvailable reports whether the engine itself starts the VM again after a failure.
func (v *VM) IsHighlyAvailable() bool {
	return v.HighAvailability != nil && v.HighAvailability.Enabled != nil && *v.HighAvailability.Enabled
}

// OriginalTemplateID returns the template of the VM, even if the disks of the VM are independent copies. It returns ""
// if the engine omits it.
func (v *VM) OriginalTemplateID() ID { return cmp.Or(RefID(v.OriginalTemplate), RefID(v.Template)) }

// DescriptionText returns the description, or "".
func (v *VM) DescriptionText() string {
	if v.Description == nil {
		return ""
	}

	return *v.Description
}

// HighAvailability of a VM.
type HighAvailability struct {
	Enabled  *bool  `xml:"enabled"`
	Priority *int64 `xml:"priority"`
}

// Lease is the storage domain with a VM's lease. In a request, a Lease without a domain removes the VM's lease.
type Lease struct {
	StorageDomain *Ref `xml:"storage_domain"`
}

// BIOS is the chip set and firmware of a VM: q35_ovmf, for example.
type BIOS struct {
	Type string `xml:"type,omitempty"`
}

// CPU of a VM.
type CPU struct {
	Mode     string    `xml:"mode,omitempty"`
	Topology *Topology `xml:"topology"`
}

// Topology of a CPU.
type Topology struct {
	Cores   int64 `xml:"cores"`
	Sockets int64 `xml:"sockets"`
	Threads int64 `xml:"threads"`
}

// MemoryPolicy has the memory limits of a VM in bytes.
type MemoryPolicy struct {
	Ballooning *bool  `xml:"ballooning"`
	Max        *int64 `xml:"max"`
	Guaranteed *int64 `xml:"guaranteed"`
}

// OS of a VM.
type OS struct {
	Type        string `xml:"type,omitempty"`
	Boot        *Boot  `xml:"boot"`
	Kernel      string `xml:"kernel,omitempty"`
	Initrd      string `xml:"initrd,omitempty"`
	CommandLine string `xml:"cmdline,omitempty"`
}

// Boot is the order of a VM's boot devices.
type Boot struct {
	Devices []string `xml:"devices>device"`
}

// Console is the serial console of a VM.
type Console struct {
	Enabled bool `xml:"enabled"`
}

// PlacementPolicy pins a VM to hosts.
type PlacementPolicy struct {
	Affinity string   `xml:"affinity,omitempty"`
	Hosts    *HostSet `xml:"hosts"`
}

// HostSet is a set of hosts.
type HostSet struct {
	Hosts []Ref `xml:"host"`
}

// Properties are custom properties of a VM.
type Properties struct {
	Items []Property `xml:"custom_property"`
}

// Property is a custom property.
type Property struct {
	Name  string `xml:"name"`
	Value string `xml:"value"`
}

// DiskOverrides describe how to copy the template's disks into the new VM.
type DiskOverrides struct {
	Items []DiskOverride `xml:"disk_attachment"`
}

// DiskOverride describes how to copy one disk.
type DiskOverride struct {
	Disk DiskChoice `xml:"disk"`
}

// DiskChoice is the format, provisioning and storage domain of a disk.
type DiskChoice struct {
	ID             ID              `xml:"id,attr"`
	Format         string          `xml:"format,omitempty"`
	Sparse         *bool           `xml:"sparse"`
	StorageDomains *StorageDomains `xml:"storage_domains"`
}

// StorageDomains refers to storage domains.
type StorageDomains struct {
	Items []Ref `xml:"storage_domain"`
}

// Initialization is the engine's input for cloud-init or Ignition.
type Initialization struct {
	CustomScript string             `xml:"custom_script,omitempty"`
	DNSSearch    string             `xml:"dns_search,omitempty"`  // domains, separated by spaces
	DNSServers   string             `xml:"dns_servers,omitempty"` // addresses, separated by spaces
	HostName     string             `xml:"host_name,omitempty"`
	NICs         *NICConfigurations `xml:"nic_configurations"`

	// This package reads the following fields only to write them back, because a new initialization replaces the old
	// one completely.
	AuthorizedSSHKeys string `xml:"authorized_ssh_keys,omitempty"`
	TimeZone          string `xml:"timezone,omitempty"`
	UserName          string `xml:"user_name,omitempty"`

	// Configuration is part of full answers. The client removes it.
	Configuration *ovfConfiguration `xml:"configuration"`
}

// ovfConfiguration is the description of a VM as OVF. It repeats the user data.
type ovfConfiguration struct {
	OVF string `xml:"data"`
}

// NICConfigurations configure the guest's network interfaces.
type NICConfigurations struct {
	Items []NICConfiguration `xml:"nic_configuration"`
}

// NICConfiguration configures one network interface of the guest. Name is its name in the guest.
type NICConfiguration struct {
	BootProtocol string `xml:"boot_protocol,omitempty"`
	IP           *IP    `xml:"ip"`
	IPv6         *IP    `xml:"ipv6"`
	IPv6Boot     string `xml:"ipv6_boot_protocol,omitempty"`
	Name         string `xml:"name"`
	OnBoot       bool   `xml:"on_boot"`
}

// IP is an address with its netmask and gateway.
type IP struct {
	Address string `xml:"address,omitempty"`
	Gateway string `xml:"gateway,omitempty"`
	Netmask string `xml:"netmask,omitempty"`
	Version string `xml:"version,omitempty"`
}

// NIC is a network interface of a VM.
type NIC struct {
	XMLName     xml.Name `xml:"nic"`
	ID          ID       `xml:"id,attr,omitempty"`
	Name        string   `xml:"name,omitempty"`
	VM          *Ref     `xml:"vm"`
	VNICProfile *Ref     `xml:"vnic_profile"`
	// Interface is the emulated hardware, such as virtio.
	Interface string `xml:"interface,omitempty"`
	MAC       *MAC   `xml:"mac"`
	// Plugged reports whether the VM has the interface, and Linked whether its cable is connected.
	Plugged *bool `xml:"plugged"`
	Linked  *bool `xml:"linked"`
}

// MAC is a hardware address.
type MAC struct {
	Address string `xml:"address"`
}

// Product is the engine's report on itself.
type Product struct {
	// InstanceID identifies this installation of the engine. All known engines use a UUID.
	InstanceID string
	// Name is the name of the product, such as "oVirt Engine".
	Name string
	// Version is the full version, such as "4.5.4-1.el8".
	Version string
	// Major, Minor and Build are the parts of the version that features depend on.
	Major, Minor, Build int
}

// DataCenter of the engine.
type DataCenter struct {
	ID   ID     `xml:"id,attr"`
	Name string `xml:"name"`
}

// Cluster of hosts.
type Cluster struct {
	ID         ID     `xml:"id,attr"`
	Name       string `xml:"name"`
	DataCenter Ref    `xml:"data_center"`
}

// Template of VMs.
type Template struct {
	ID          ID     `xml:"id,attr"`
	Name        string `xml:"name"`
	Description string `xml:"description"`
	Status      string `xml:"status"`
	Created     string `xml:"creation_time"`
	Cluster     *Ref   `xml:"cluster"`
	// OS decides, among other things, whether cloud-init or Ignition reads the user data.
	OS struct {
		Type string `xml:"type"`
	} `xml:"os"`
	Version struct {
		Number int `xml:"version_number"`
	} `xml:"version"`
}

// Network of a data center.
type Network struct {
	ID         ID     `xml:"id,attr"`
	Name       string `xml:"name"`
	DataCenter Ref    `xml:"data_center"`
	// Usages are the uses of the network, such as "vm" and "migration".
	Usages []string `xml:"usages>usage"`
}

// InstanceType sizes VMs.
type InstanceType struct {
	ID   ID     `xml:"id,attr"`
	Name string `xml:"name"`
}

// OperatingSystem is an operating system that a VM can have.
type OperatingSystem struct {
	Name string `xml:"name"`
	// TPM is supported, required or unsupported.
	TPM string `xml:"tpm_support"`
}

// VNICProfile of a network.
type VNICProfile struct {
	ID      ID     `xml:"id,attr"`
	Name    string `xml:"name"`
	Network Ref    `xml:"network"`
}

// StorageDomain holds disks.
type StorageDomain struct {
	ID   ID     `xml:"id,attr"`
	Name string `xml:"name"`
	// Type is "data" for a domain that holds disks.
	Type string `xml:"type"`
	// Status is the status, such as active or maintenance. An engine reports it only in the list of a data center.
	Status string `xml:"status"`
	// StorageType is the kind of storage of the domain, such as nfs or iscsi.
	StorageType string `xml:"storage>type"`
	// Depending on its version, an engine names the data center in one of two ways.
	DataCenter  *Ref `xml:"data_center"`
	DataCenters *struct {
		Items []Ref `xml:"data_center"`
	} `xml:"data_centers"`
}
