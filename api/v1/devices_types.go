package v1

// HighAvailability restarts a VM when it, or its host, fails.
// +kubebuilder:validation:XValidation:rule=`!has(self.leaseStorageDomainName) || size(self.leaseStorageDomainName) == 0 || !has(self.storageErrorResume) || self.storageErrorResume == 'kill'`,message="a VM with a lease is killed when its storage fails; write kill, or remove leaseStorageDomainName",fieldPath=".storageErrorResume"
type HighAvailability struct {
	// priority of the VM among those that are restarted or moved, the higher the earlier. If omitted or 0, the engine
	// decides, which was recorded to take 0. Changes take effect at once.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Priority int32 `json:"priority,omitempty"`

	// leaseStorageDomainName is the storage domain that has a lease of the VM. With a lease, the VM is restarted even
	// if its host cannot be fenced: two hosts never run it. If omitted, there is no lease. Changes take effect at once;
	// from one storage domain to another, they are refused.
	// +optional
	LeaseStorageDomainName EngineName `json:"leaseStorageDomainName,omitempty"`

	// storageErrorResume is what becomes of a VM that its host paused for an error of its storage, once the storage is
	// back: auto_resume, leave_paused or kill. A VM with a lease is always killed. If omitted, it is kill with a lease,
	// and the template's without one. Changes take effect at the next start of the VM.
	// +optional
	// +kubebuilder:validation:Enum=auto_resume;leave_paused;kill
	StorageErrorResume string `json:"storageErrorResume,omitempty"`
}

// Watchdog is a device, an i6300esb, by which the host sees that a guest hangs. The guest needs a service that uses it,
// such as systemd with RuntimeWatchdogSec.
type Watchdog struct {
	// action that the host takes: reset, poweroff, pause, dump or none. If omitted, it is reset. Changes take effect at
	// the next start of the VM.
	// +optional
	// +kubebuilder:validation:Enum=none;reset;poweroff;pause;dump
	Action string `json:"action,omitempty"`
}

// Firmware is the chip set and the firmware of a VM, and its TPM.
// +kubebuilder:validation:XValidation:rule=`!has(self.tpm) || !self.tpm || !has(self.biosType) || !self.biosType.endsWith('_sea_bios')`,message="a TPM needs UEFI; write the biosType q35_ovmf or q35_secure_boot, or remove tpm",fieldPath=".tpm"
type Firmware struct {
	// biosType is i440fx_sea_bios, q35_sea_bios, q35_ovmf (UEFI) or q35_secure_boot, as the engine spells it. If
	// omitted, it is the template's, or that of the engine's cluster.
	// +optional
	// +kubebuilder:validation:Enum=i440fx_sea_bios;q35_sea_bios;q35_ovmf;q35_secure_boot
	BiosType string `json:"biosType,omitempty"`

	// tpm gives the VM a trusted platform module, which needs UEFI and an operating system that the engine knows to
	// support it. If omitted, the engine decides.
	// +optional
	TPM *bool `json:"tpm,omitempty"`
}

// MediatedDevice is a part of a device of the host, such as a virtual GPU.
type MediatedDevice struct {
	// type of the device as the host names it, such as nvidia-63.
	// +required
	// +kubebuilder:validation:MinLength=1
	Type EngineName `json:"type,omitempty"`
}

// CustomProperty is a custom property of a VM, which the engine's administrator has defined, or which every engine
// knows: sap_agent, sndbuf, vhost, viodiskcache, scsi_hostdev, nvram_template, extra_cpu_flags.
// +kubebuilder:validation:XValidation:rule=`self.name != 'hugepages'`,message="huge pages have a field of their own; write virtualMachine.hugePages",fieldPath=".name"
// +kubebuilder:validation:XValidation:rule=`self.name != 'mdev_type'`,message="mediated devices have a field of their own; write virtualMachine.mediatedDevices",fieldPath=".name"
type CustomProperty struct {
	// name of the property.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule=`!self.matches('[\\s=;]')`,message="write the name of one property, without its value, spaces and semicolons"
	Name string `json:"name,omitempty"`

	// value of the property.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}
