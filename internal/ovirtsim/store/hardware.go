package store

import (
	"slices"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file has what VMs, templates and instance types have in common: how it looks, and how requests change it.

// Hardware is what a VM is made of. It is a value: what a request asks for is worked out on a copy.
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
	// Settings are elements that have no effect here and are shown as they were sent.
	Settings *wire.Element `json:",omitempty"`
}

// blankSettings are those of the Blank template.
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

// SettingNames are the elements of a VM that are kept in Settings, whole or in part.
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

// TypedSettings are the parts of settings that are kept as fields instead.
var TypedSettings = map[string][]string{
	"os":                {"type"},
	"display":           {"type", "address", "port", "secure_port", "proxy", "certificate"},
	"high_availability": {"enabled"},
}

// Costly are elements that are only in full answers.
var Costly = []string{"virtio_scsi", "rng_device", "tpm_enabled"}

// BlankHardware is what the Blank template has.
func BlankHardware() Hardware {
	settings, err := wire.ParseXML(strings.NewReader(blankSettings))
	if err == nil {
		err = wire.API().Shape(settings, "Vm")
	}

	if err != nil { // the text is ours
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

// CopyOf is a copy that shares nothing.
func (h Hardware) CopyOf() Hardware {
	h.CustomProperties = slices.Clone(h.CustomProperties)
	h.PlacementHosts = slices.Clone(h.PlacementHosts)
	h.Settings = h.Settings.Clone()

	return h
}

// SetMemory gives hardware its memory and what follows from it.
func (h *Hardware) SetMemory(bytes int64) {
	h.Memory, h.GuaranteedMemory, h.MaxMemory = bytes, bytes, 4*bytes
}

// The CPU pinning policies that the simulator tells apart.
const (
	PinNone   = "none"
	PinResize = "resize_and_pin_numa"
)

// Count is the number of CPUs that a guest sees.
func (t Topology) Count() int64 { return t.Cores * t.Sockets * t.Threads }

// Lease is the storage domain on which a lease of the VM is; empty where it has none.
func (h *Hardware) Lease() string { return wire.RefID(h.Settings.Get("lease", "storage_domain")) }

// Resize applies an instance type: its sizes win over those of the request, whose memory still decides the maximum. It
// has no sound card; that a request can ask for one all the same is not recorded.
func (h *Hardware) Resize(t *InstanceType, in *wire.Element) {
	asked := h.MaxMemory
	h.Memory, h.GuaranteedMemory, h.CPU = t.Memory, t.Memory, t.CPU
	h.Soundcard = in.Yes("soundcard_enabled")
	h.MaxMemory = max(asked, 4*t.Memory)
	h.Settings.Put("0", "io", "threads")
}
