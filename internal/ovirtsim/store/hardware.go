package store

import (
	"slices"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the hardware that VMs, templates and instance types have in common.

// Hardware is the hardware of a VM. It is a value: callers apply a request to a copy.
type Hardware struct {
	Memory, GuaranteedMemory, MaxMemory int64
	Ballooning                          bool
	CPU                                 Topology
	CPUMode, CPUPinning                 string
	OSType, Type                        string
	Console, Soundcard, DeleteProtected bool
	HighlyAvailable                     bool
	CustomProperties                    []Property
	PlacementAffinity                   string
	PlacementHosts                      []string
	// Settings are the elements without an effect here. Responses show them as the client sent them.
	Settings *wire.Element `json:",omitempty"`
}

// blankSettings are the settings of the Blank template.
const blankSettings = `<vm>
<bios><boot_menu><enabled>false</enabled></boot_menu></bios><cpu_shares>0</cpu_shares>
<display><allow_override>false</allow_override><copy_paste_enabled>true</copy_paste_enabled>
<disconnect_action>LOCK_SCREEN</disconnect_action>
<disconnect_action_delay>0</disconnect_action_delay><file_transfer_enabled>true</file_transfer_enabled>
<monitors>1</monitors>
<smartcard_enabled>false</smartcard_enabled><video_type>vga</video_type></display>
<high_availability><priority>0</priority></high_availability><io><threads>1</threads></io>
<migration><auto_converge>inherit</auto_converge><compressed>inherit</compressed><encrypted>inherit</encrypted>
<parallel_migrations_policy>inherit</parallel_migrations_policy></migration><migration_downtime>-1</migration_downtime>
<multi_queues_enabled>true</multi_queues_enabled><os><boot><devices><device>hd</device></devices></boot></os>
<rng_device><source>urandom</source></rng_device><sso><methods><method id="guest_agent"/></methods></sso>
<start_paused>false</start_paused><stateless>false</stateless>
<storage_error_resume_behaviour>auto_resume</storage_error_resume_behaviour>
<time_zone><name>Etc/GMT</name></time_zone><tpm_enabled>false</tpm_enabled><usb><enabled>false</enabled></usb>
<virtio_scsi><enabled>true</enabled></virtio_scsi>
<virtio_scsi_multi_queues_enabled>false</virtio_scsi_multi_queues_enabled></vm>`

// SettingNames are the names of those elements of a VM that are in Settings, at least in part.
var SettingNames = []string{
	"bios",
	"cpu_shares",
	"custom_compatibility_version",
	"custom_cpu_model",
	"custom_emulated_machine",
	"display",
	"high_availability",
	"io",
	"lease",
	"migration",
	"migration_downtime",
	"multi_queues_enabled",
	"os",
	"rng_device",
	"serial_number",
	"sso",
	"start_paused",
	"stateless",
	"storage_error_resume_behaviour",
	"time_zone",
	"tpm_enabled",
	"usb",
	"virtio_scsi",
	"virtio_scsi_multi_queues_enabled",
	"use_latest_template_version",
}

// TypedSettings are those parts of these elements that are in fields instead.
var TypedSettings = map[string][]string{
	"os":                {"type"},
	"display":           {"type", "address", "port", "secure_port", "proxy", "certificate"},
	"high_availability": {"enabled"},
}

// Costly are the elements that only full responses include.
var Costly = []string{"virtio_scsi", "rng_device", "tpm_enabled"}

// BlankHardware returns the hardware of the Blank template.
func BlankHardware() Hardware {
	settings, err := wire.ParseXML(strings.NewReader(blankSettings))
	if err == nil {
		err = wire.API().NormalizeDocument(settings, "Vm")
	}

	if err != nil { // impossible, because the text is constant
		panic(err)
	}

	return Hardware{
		Memory:           GiB,
		GuaranteedMemory: GiB,
		MaxMemory:        4 * GiB,
		Ballooning:       true,
		CPU:              Topology{1, 1, 1},
		CPUPinning:       PinNone,
		OSType:           "other",
		Type:             "server",
		Soundcard:        true, PlacementAffinity: "migratable", Settings: settings,
	}
}

// CopyOf returns a deep copy of the hardware.
func (h Hardware) CopyOf() Hardware {
	h.CustomProperties = slices.Clone(h.CustomProperties)
	h.PlacementHosts = slices.Clone(h.PlacementHosts)
	h.Settings = h.Settings.Clone()

	return h
}

// SetMemory sets the memory and the sizes that follow from it, in bytes.
func (h *Hardware) SetMemory(bytes int64) {
	h.Memory, h.GuaranteedMemory, h.MaxMemory = bytes, bytes, 4*bytes
}

// These constants are the CPU pinning policies that the simulator distinguishes.
const (
	PinNone   = "none"
	PinResize = "resize_and_pin_numa"
)

// CountCPUs returns the number of CPUs that a guest sees.
func (t Topology) CountCPUs() int64 { return t.Cores * t.Sockets * t.Threads }

// LeaseDomain returns the ID of the storage domain with the VM's lease, or "".
func (h *Hardware) LeaseDomain() string { return wire.RefID(h.Settings.Get("lease", "storage_domain")) }

// ApplyInstanceType applies an instance type. Its sizes override those of the request, but the memory in the request
// still determines the maximum. An instance type has no sound card. No recording shows a request with both.
func (h *Hardware) ApplyInstanceType(t *InstanceType, in *wire.Element) {
	asked := h.MaxMemory
	h.Memory, h.GuaranteedMemory, h.CPU = t.Memory, t.Memory, t.CPU
	h.Soundcard = in.IsTrue("soundcard_enabled")
	h.MaxMemory = max(asked, 4*t.Memory)
	h.Settings.SetText("0", "io", "threads")
}
