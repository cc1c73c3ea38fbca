package engine

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/xml"
	"reflect"
)

// Settings has the settings of a VM: the current ones, and those after its next start. Next equals Now if no change is
// pending.
type Settings struct{ Now, Next *VM }

// FetchVMSettings reads the settings of a VM, including those pending for its next start.
func (c *Client) FetchVMSettings(ctx context.Context, id ID) (Settings, error) {
	now, err := c.FetchFullVM(ctx, id)
	if err != nil {
		return Settings{}, err
	}

	if !now.ChangesWait {
		return Settings{now, now}, nil
	}

	next, err := c.FetchVMAtNextStart(ctx, id)
	if err != nil {
		return Settings{}, err
	}

	now.devicesAtNextStart.applyTo(next)

	return Settings{now, next}, nil
}

// devices are the devices that a request can add or remove. Even for the next start, an engine reports only the current
// ones. Only the OVF has the pending ones.
type devices struct{ console, soundcard, tpm bool }

// dropOVF removes the OVF from a full answer, but keeps the devices in it. A later request must not send the OVF back.
func (v *VM) dropOVF() *VM {
	if v.Initialization != nil && v.Initialization.Configuration != nil {
		v.devicesAtNextStart = devicesAtNextStart(v.Initialization.Configuration.OVF)
		v.Initialization.Configuration = nil
	}

	return v
}

// applyTo sets the devices of a VM. A nil receiver changes nothing.
func (d *devices) applyTo(to *VM) {
	if d == nil {
		return
	}

	to.Console, to.Soundcard = &Console{Enabled: d.console}, &d.soundcard
	if to.TPM != nil {
		to.TPM = &d.tpm
	}
}

// envelope is the part of an OVF that this package needs.
type envelope struct {
	Items []struct {
		Type string `xml:"Type"`
	} `xml:"Content>Section>Item"`
	Snapshots []struct {
		Type string `xml:"Type"`
		// Configuration is another OVF, in base64.
		Configuration string `xml:"VmConfiguration"`
	} `xml:"Content>Section>Snapshot"`
}

// maxOVF limits an OVF in bytes. It has room for the user data, and for its copy in base64.
const maxOVF = 16 << 20

// devicesAtNextStart returns the devices of a VM after its next start. It returns nil if no change is pending, or if
// the OVF is unreadable.
func devicesAtNextStart(ovf string) *devices {
	var now, next envelope
	if len(ovf) > maxOVF || xml.Unmarshal([]byte(ovf), &now) != nil {
		return nil
	}

	for _, saved := range now.Snapshots {
		if saved.Type != "NEXT_RUN" {
			continue
		}

		decoded, err := base64.StdEncoding.DecodeString(saved.Configuration)
		if err != nil || xml.Unmarshal(decoded, &next) != nil {
			return nil
		}

		out := &devices{}

		for _, item := range next.Items {
			out.console = out.console || item.Type == "console"
			out.soundcard = out.soundcard || item.Type == "sound"
			out.tpm = out.tpm || item.Type == "tpm"
		}

		return out
	}

	return nil
}

// PendingChanges returns a request that repeats the changes pending for the next start, and their names for users. The
// engine drops pending changes at the next change, unless its request repeats them.
func (s Settings) PendingChanges() (again *VM, names []string) {
	again = &VM{}
	now, next := s.Now, s.Next
	policyNow, policyNext := getPolicy(now), getPolicy(next)

	keepPending(&names, "memory", now.Memory, next.Memory, &again.Memory)
	var policy MemoryPolicy
	keepPending(&names, "guaranteed memory", policyNow.Guaranteed, policyNext.Guaranteed, &policy.Guaranteed)
	keepPending(&names, "maximum memory", policyNow.Max, policyNext.Max, &policy.Max)
	keepPending(&names, "memory ballooning", policyNow.Ballooning, policyNext.Ballooning, &policy.Ballooning)
	if policy != (MemoryPolicy{}) {
		again.MemoryPolicy = &policy
	}

	keepPending(&names, "CPU", getTopology(now), getTopology(next), &again.ensureCPU().Topology)
	keepPendingText(&names, "CPU mode", getCPUMode(now), getCPUMode(next), &again.ensureCPU().Mode)
	if *again.CPU == (CPU{}) {
		again.CPU = nil
	}

	keepPending(&names, "operating system", now.OS, next.OS, &again.OS)
	keepPending(&names, "firmware", now.BIOS, next.BIOS, &again.BIOS)
	keepPending(&names, "serial console", now.Console, next.Console, &again.Console)
	keepPending(&names, "sound card", now.Soundcard, next.Soundcard, &again.Soundcard)
	keepPending(&names, "TPM", now.TPM, next.TPM, &again.TPM)
	keepPending(&names, "custom properties", getProperties(now), getProperties(next), &again.Properties)
	keepPendingText(&names, "type", now.Type, next.Type, &again.Type)
	keepPendingText(&names, "behavior after storage errors", now.StorageError, next.StorageError, &again.StorageError)
	keepOtherPending(&names, now.others, next.others, again)

	return again, names
}

// keepPending adds a pending setting to the request that repeats it, and adds its name to names.
func keepPending[T any](names *[]string, name string, now, next *T, again **T) {
	if next == nil || reflect.DeepEqual(now, next) {
		return
	}

	*again = next
	*names = append(*names, name)
}

// keepPendingText is keepPending for a text. The text is empty if the engine omits it.
func keepPendingText(names *[]string, name, now, next string, again *string) {
	if next == "" || now == next {
		return
	}

	*again = next
	*names = append(*names, name)
}

func getPolicy(vm *VM) MemoryPolicy {
	if vm.MemoryPolicy == nil {
		return MemoryPolicy{}
	}

	return *vm.MemoryPolicy
}

// getTopology returns the topology of a CPU, or nil if the engine omits it.
func getTopology(vm *VM) *Topology {
	if vm.CPU == nil {
		return nil
	}

	return vm.CPU.Topology
}

// ensureCPU returns the CPU of a request, and adds it if necessary.
func (v *VM) ensureCPU() *CPU {
	if v.CPU == nil {
		v.CPU = &CPU{}
	}

	return v.CPU
}

// getCPUMode returns the CPU mode. An engine reports only host_passthrough. In a request, any other word turns it off.
func getCPUMode(vm *VM) string {
	if vm.CPU == nil || vm.CPU.Mode == "" {
		return "custom"
	}

	return vm.CPU.Mode
}

// getProperties returns the custom properties for a request that repeats them. It returns empty properties instead of
// nil.
func getProperties(vm *VM) *Properties {
	if vm.Properties == nil {
		return &Properties{}
	}

	return vm.Properties
}

// FillPending copies the pending settings into the fields the request omits.
func (v *VM) FillPending(again *VM) {
	fillNil(&v.Memory, again.Memory)
	if again.MemoryPolicy != nil {
		policy := getPolicy(v)
		fillNil(&policy.Guaranteed, again.MemoryPolicy.Guaranteed)
		fillNil(&policy.Max, again.MemoryPolicy.Max)
		fillNil(&policy.Ballooning, again.MemoryPolicy.Ballooning)
		v.MemoryPolicy = &policy
	}

	if again.CPU != nil {
		cpu := CPU{}
		if v.CPU != nil {
			cpu = *v.CPU
		}

		fillNil(&cpu.Topology, again.CPU.Topology)
		cpu.Mode = cmp.Or(cpu.Mode, again.CPU.Mode)
		v.CPU = &cpu
	}

	if again.OS != nil {
		os := OS{}
		if v.OS != nil {
			os = *v.OS
		}

		os.Type = cmp.Or(os.Type, again.OS.Type)
		os.Kernel, os.Initrd = cmp.Or(os.Kernel, again.OS.Kernel), cmp.Or(os.Initrd, again.OS.Initrd)
		os.CommandLine = cmp.Or(os.CommandLine, again.OS.CommandLine)
		fillNil(&os.Boot, again.OS.Boot)
		v.OS = &os
	}

	fillNil(&v.BIOS, again.BIOS)
	fillNil(&v.Console, again.Console)
	fillNil(&v.Soundcard, again.Soundcard)
	fillNil(&v.TPM, again.TPM)
	fillNil(&v.Properties, again.Properties)
	v.Type = cmp.Or(v.Type, again.Type)
	v.StorageError = cmp.Or(v.StorageError, again.StorageError)
	v.fillOtherPending(again.others)
}

func fillNil[T any](value **T, other *T) {
	if *value == nil {
		*value = other
	}
}

// ChangeVM changes the set fields of the VM, and repeats the settings pending for its next start, because UpdateVM
// would drop them. A change that a running VM cannot take waits for the next start.
func (c *Client) ChangeVM(ctx context.Context, id ID, change *VM) (*VM, error) {
	settings, err := c.FetchVMSettings(ctx, id)
	if err != nil {
		return nil, err
	}

	return c.changeWithSettings(ctx, id, settings, change)
}

// changeWithSettings is ChangeVM for a caller that knows the settings.
func (c *Client) changeWithSettings(ctx context.Context, id ID, settings Settings, change *VM) (*VM, error) {
	again, _ := settings.PendingChanges()
	whole := *change
	whole.FillPending(again)

	if settings.Now.Status != VMDown && whole.Memory != nil && !settings.CanTakeMemory(*whole.Memory) {
		return c.UpdateVMAtNextStart(ctx, id, &whole)
	}

	return c.UpdateVM(ctx, id, &whole)
}

// memoryStep is the granularity in bytes for adding memory to a running VM.
const memoryStep = 128 << 20

// CanTakeMemory reports whether a running VM can get this amount of memory, in bytes, without a restart. An engine
// accepts a smaller amount, but ignores it.
func (s Settings) CanTakeMemory(memory int64) bool {
	now, most := s.Now.Memory, getPolicy(s.Now).Max
	return now == nil || memory == *now ||
		memory > *now && (memory-*now)%memoryStep == 0 && (most == nil || memory <= *most)
}
