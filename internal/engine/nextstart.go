package engine

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/xml"
	"reflect"
)

// Settings are the settings of a VM: the current ones, and those after its next start. Next equals Now if nothing is
// pending.
type Settings struct{ Now, Next *VM }

// VMSettings reads the settings of a VM, including those pending for its next start.
func (c *Client) VMSettings(ctx context.Context, id ID) (Settings, error) {
	now, err := c.VMInFull(ctx, id)
	if err != nil {
		return Settings{}, err
	}

	if !now.ChangesWait {
		return Settings{now, now}, nil
	}

	next, err := c.VMAtNextStart(ctx, id)
	if err != nil {
		return Settings{}, err
	}

	now.devicesAtNextStart.apply(next)

	return Settings{now, next}, nil
}

// devices are the devices requests turn on and off. An engine reports the current ones even for the next start. Only
// the OVF has the pending ones.
type devices struct{ console, soundcard, tpm bool }

// digest removes the OVF from a full answer and keeps the needed part. The OVF must not come back in a request.
func (v *VM) digest() *VM {
	if v.Initialization != nil && v.Initialization.Configuration != nil {
		v.devicesAtNextStart = devicesAtNextStart(v.Initialization.Configuration.OVF)
		v.Initialization.Configuration = nil
	}

	return v
}

// apply sets the devices of a VM. nil leaves them as reported by the engine.
func (d *devices) apply(to *VM) {
	if d == nil {
		return
	}

	to.Console, to.Soundcard = &Console{Enabled: d.console}, &d.soundcard
	if to.TPM != nil {
		to.TPM = &d.tpm
	}
}

// envelope is the needed part of an OVF.
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

// maxOVF is a generous limit for an OVF with user data, and the same again in base64.
const maxOVF = 16 << 20

// devicesAtNextStart returns the devices of a VM after its next start. It returns nil if nothing is pending, or if the
// OVF is unreadable.
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

// Waiting returns the changes pending for the next start: a request to repeat only them, and their names for users. The
// engine drops pending changes at the next change, unless its request repeats them.
func (s Settings) Waiting() (again *VM, names []string) {
	again = &VM{}
	now, next := s.Now, s.Next
	policyNow, policyNext := policyOf(now), policyOf(next)

	keep(&names, "memory", now.Memory, next.Memory, &again.Memory)
	var policy MemoryPolicy
	keep(&names, "guaranteed memory", policyNow.Guaranteed, policyNext.Guaranteed, &policy.Guaranteed)
	keep(&names, "maximum memory", policyNow.Max, policyNext.Max, &policy.Max)
	keep(&names, "memory ballooning", policyNow.Ballooning, policyNext.Ballooning, &policy.Ballooning)
	if policy != (MemoryPolicy{}) {
		again.MemoryPolicy = &policy
	}

	keep(&names, "CPU", topologyOf(now), topologyOf(next), &again.topology().Topology)
	keepText(&names, "CPU mode", modeOf(now), modeOf(next), &again.topology().Mode)
	if *again.CPU == (CPU{}) {
		again.CPU = nil
	}

	keep(&names, "operating system", now.OS, next.OS, &again.OS)
	keep(&names, "firmware", now.BIOS, next.BIOS, &again.BIOS)
	keep(&names, "serial console", now.Console, next.Console, &again.Console)
	keep(&names, "sound card", now.Soundcard, next.Soundcard, &again.Soundcard)
	keep(&names, "TPM", now.TPM, next.TPM, &again.TPM)
	keep(&names, "custom properties", propertiesOf(now), propertiesOf(next), &again.Properties)
	keepText(&names, "type", now.Type, next.Type, &again.Type)
	keepText(&names, "behavior after storage errors", now.StorageError, next.StorageError, &again.StorageError)
	keepOthers(&names, now.others, next.others, again)

	return again, names
}

// keep adds a pending setting to the request to repeat it, and adds its name to names.
func keep[T any](names *[]string, name string, now, next *T, again **T) {
	if next == nil || reflect.DeepEqual(now, next) {
		return
	}

	*again = next
	*names = append(*names, name)
}

// keepText is keep for a text. The text is empty if the engine omits it.
func keepText(names *[]string, name, now, next string, again *string) {
	if next == "" || now == next {
		return
	}

	*again = next
	*names = append(*names, name)
}

func policyOf(vm *VM) MemoryPolicy {
	if vm.MemoryPolicy == nil {
		return MemoryPolicy{}
	}

	return *vm.MemoryPolicy
}

// topologyOf returns the topology of a CPU, or nil if the engine omits it.
func topologyOf(vm *VM) *Topology {
	if vm.CPU == nil {
		return nil
	}

	return vm.CPU.Topology
}

// topology returns the CPU of a request, to set its parts.
func (v *VM) topology() *CPU {
	if v.CPU == nil {
		v.CPU = &CPU{}
	}

	return v.CPU
}

// modeOf returns the CPU mode. An engine reports only host_passthrough, and takes any other word for its opposite.
func modeOf(vm *VM) string {
	if vm.CPU == nil || vm.CPU.Mode == "" {
		return "custom"
	}

	return vm.CPU.Mode
}

// propertiesOf returns the custom properties. It returns empty properties instead of nil, to be repeated in a request.
func propertiesOf(vm *VM) *Properties {
	if vm.Properties == nil {
		return &Properties{}
	}

	return vm.Properties
}

// Complete fills in the fields omitted by the request from the pending settings.
func (v *VM) Complete(again *VM) {
	fill(&v.Memory, again.Memory)
	if again.MemoryPolicy != nil {
		policy := policyOf(v)
		fill(&policy.Guaranteed, again.MemoryPolicy.Guaranteed)
		fill(&policy.Max, again.MemoryPolicy.Max)
		fill(&policy.Ballooning, again.MemoryPolicy.Ballooning)
		v.MemoryPolicy = &policy
	}

	if again.CPU != nil {
		cpu := CPU{}
		if v.CPU != nil {
			cpu = *v.CPU
		}

		fill(&cpu.Topology, again.CPU.Topology)
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
		fill(&os.Boot, again.OS.Boot)
		v.OS = &os
	}

	fill(&v.BIOS, again.BIOS)
	fill(&v.Console, again.Console)
	fill(&v.Soundcard, again.Soundcard)
	fill(&v.TPM, again.TPM)
	fill(&v.Properties, again.Properties)
	v.Type = cmp.Or(v.Type, again.Type)
	v.StorageError = cmp.Or(v.StorageError, again.StorageError)
	v.completeOthers(again.others)
}

func fill[T any](value **T, other *T) {
	if *value == nil {
		*value = other
	}
}

// ChangeVM changes the set fields of the VM, and repeats the settings pending for its next start. It postpones changes
// a running VM cannot take. UpdateVM would drop pending settings.
func (c *Client) ChangeVM(ctx context.Context, id ID, change *VM) (*VM, error) {
	settings, err := c.VMSettings(ctx, id)
	if err != nil {
		return nil, err
	}

	return c.changeVM(ctx, id, settings, change)
}

// changeVM is ChangeVM with known settings.
func (c *Client) changeVM(ctx context.Context, id ID, settings Settings, change *VM) (*VM, error) {
	again, _ := settings.Waiting()
	whole := *change
	whole.Complete(again)

	if settings.Now.Status != VMDown && whole.Memory != nil && !settings.TakesMemory(*whole.Memory) {
		return c.UpdateVMAtNextStart(ctx, id, &whole)
	}

	return c.UpdateVM(ctx, id, &whole)
}

// memoryStep is the granularity for adding memory to a running VM, in bytes.
const memoryStep = 128 << 20

// TakesMemory reports whether a running VM can get this amount of memory, in bytes, without a restart. An engine also
// accepts less, but does nothing.
func (s Settings) TakesMemory(memory int64) bool {
	now, most := s.Now.Memory, policyOf(s.Now).Max
	return now == nil || memory == *now ||
		memory > *now && (memory-*now)%memoryStep == 0 && (most == nil || memory <= *most)
}
