package engine

import (
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

	keep(&names, "CPU", cpuOf(now), cpuOf(next), &again.CPU)
	keep(&names, "operating system", now.OS, next.OS, &again.OS)
	keep(&names, "serial console", now.Console, next.Console, &again.Console)
	keep(&names, "sound card", now.Soundcard, next.Soundcard, &again.Soundcard)
	keep(&names, "TPM", now.TPM, next.TPM, &again.TPM)
	keep(&names, "custom properties", now.Properties, next.Properties, &again.Properties)
	if now.Type != next.Type {
		again.Type = next.Type
		names = append(names, "type")
	}

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

func policyOf(vm *VM) MemoryPolicy {
	if vm.MemoryPolicy == nil {
		return MemoryPolicy{}
	}

	return *vm.MemoryPolicy
}

// cpuOf is what a request says of a CPU; nil where the engine reports nothing.
func cpuOf(vm *VM) *CPU {
	if vm.CPU == nil || vm.CPU.Topology == nil {
		return nil
	}

	return &CPU{Topology: vm.CPU.Topology}
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

	fill(&v.CPU, again.CPU)
	fill(&v.OS, again.OS)
	fill(&v.Console, again.Console)
	fill(&v.Soundcard, again.Soundcard)
	fill(&v.TPM, again.TPM)
	fill(&v.Properties, again.Properties)
	if v.Type == "" {
		v.Type = again.Type
	}
}

func fill[T any](value **T, other *T) {
	if *value == nil {
		*value = other
	}
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
