package engine

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/xml"
	"reflect"
)

// Settings are the settings of a VM: as it runs, and as it will be after its next start. Next is Now where nothing
// waits.
type Settings struct{ Now, Next *VM }

// VMSettings reads the settings of a VM, with those that wait for its next start.
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

// devices are those that a request turns on and off. An engine shows them as they are, also where it is asked for the
// next start; what waits is in the OVF alone.
type devices struct{ console, soundcard, tpm bool }

// digest takes the OVF out of a full answer, which must not come back in a request, and keeps what is needed of it.
func (v *VM) digest() *VM {
	if v.Initialization != nil && v.Initialization.Configuration != nil {
		v.devicesAtNextStart = devicesAtNextStart(v.Initialization.Configuration.OVF)
		v.Initialization.Configuration = nil
	}

	return v
}

// apply sets the devices of a VM; nil leaves them as the engine tells them.
func (d *devices) apply(to *VM) {
	if d == nil {
		return
	}

	to.Console, to.Soundcard = &Console{Enabled: d.console}, &d.soundcard
	if to.TPM != nil {
		to.TPM = &d.tpm
	}
}

// envelope is what is read of an OVF.
type envelope struct {
	Items []struct {
		Type string `xml:"Type"`
	} `xml:"Content>Section>Item"`
	Snapshots []struct {
		Type string `xml:"Type"`
		// Configuration is an OVF as well, in base64.
		Configuration string `xml:"VmConfiguration"`
	} `xml:"Content>Section>Snapshot"`
}

// maxOVF is far more than an OVF with user data, and the same again in base64, has.
const maxOVF = 16 << 20

// devicesAtNextStart reads which devices a VM will have after its next start; nil where nothing waits, or the OVF
// cannot be read.
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

// Waiting is what waits for the next start: a request that asks for just that, and its names for people. The engine
// forgets what waits when another change comes, unless that says it again.
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

// keep puts a setting that waits into the request that says it again, and its name to the others.
func keep[T any](names *[]string, name string, now, next *T, again **T) {
	if next == nil || reflect.DeepEqual(now, next) {
		return
	}

	*again = next
	*names = append(*names, name)
}

// keepText is keep for a text, which is empty if the engine does not tell it.
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

// topologyOf is the topology of a CPU; nil if the engine reports none.
func topologyOf(vm *VM) *Topology {
	if vm.CPU == nil {
		return nil
	}

	return vm.CPU.Topology
}

// topology is the CPU of a request, for its parts to be set.
func (v *VM) topology() *CPU {
	if v.CPU == nil {
		v.CPU = &CPU{}
	}

	return v.CPU
}

// modeOf is the CPU mode. An engine tells host_passthrough alone, and takes any other word for its opposite.
func modeOf(vm *VM) string {
	if vm.CPU == nil || vm.CPU.Mode == "" {
		return "custom"
	}

	return vm.CPU.Mode
}

// propertiesOf are the custom properties; those of a VM without any are empty, which a request can say.
func propertiesOf(vm *VM) *Properties {
	if vm.Properties == nil {
		return &Properties{}
	}

	return vm.Properties
}

// Complete sets what the request leaves out to what is said again.
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

// ChangeVM changes the fields of the VM that are set, says again what waits for its next start, and keeps for that
// what a VM that runs cannot take. UpdateVM would drop what waits.
func (c *Client) ChangeVM(ctx context.Context, id ID, change *VM) (*VM, error) {
	settings, err := c.VMSettings(ctx, id)
	if err != nil {
		return nil, err
	}

	return c.changeVM(ctx, id, settings, change)
}

// changeVM is ChangeVM of a VM whose settings were read.
func (c *Client) changeVM(ctx context.Context, id ID, settings Settings, change *VM) (*VM, error) {
	again, _ := settings.Waiting()
	whole := *change
	whole.Complete(again)

	if settings.Now.Status != VMDown && whole.Memory != nil && !settings.TakesMemory(*whole.Memory) {
		return c.UpdateVMAtNextStart(ctx, id, &whole)
	}

	return c.UpdateVM(ctx, id, &whole)
}

// memoryStep is what an engine adds memory to a VM that runs in.
const memoryStep = 128 << 20

// TakesMemory reports whether a VM that runs can be given that memory, in bytes, without a restart. An engine accepts
// less as well, and does nothing.
func (s Settings) TakesMemory(memory int64) bool {
	now, most := s.Now.Memory, policyOf(s.Now).Max
	return now == nil || memory == *now ||
		memory > *now && (memory-*now)%memoryStep == 0 && (most == nil || memory <= *most)
}
