package desired

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

const (
	vmPath = "spec.virtualMachine."
	// highPerformance is the kind of VM with rules of its own.
	highPerformance = "high_performance"
)

// invalid is an option that contradicts another or the template.
func invalid(field, format string, args ...any) error {
	return blocker.New(infrav1.InvalidHardwareReason, field, format, args...)
}

// operatingSystem checks a name that an engine takes whatever it is: where it does not know it, it makes the VM with
// another system, and hands the user data to cloud-init.
func operatingSystem(ctx context.Context, client *engine.Client, vm infrav1.VirtualMachine) error {
	if vm.OSType == "" {
		return nil
	}

	if err := client.CheckOperatingSystem(ctx, vm.OSType); err != nil {
		return blocker.NotFound(err, infrav1.OperatingSystemNotFoundReason, vmPath+"osType")
	}

	return nil
}

// instanceType resolves the type that sizes a VM; nothing else may.
func instanceType(ctx context.Context, client *engine.Client, vm infrav1.VirtualMachine, out *render.Machine) error {
	if t := vm.CPU.Topology; t.Cores != 0 || t.Sockets != 0 || t.Threads != 0 {
		return invalid(vmPath+"cpu.topology", "the instance type %q has the CPU; remove one of the two",
			vm.InstanceType)
	}

	// Always the same of two: a condition that changes at each pass never settles.
	for _, size := range []struct{ field, value string }{
		{"guaranteedMemory", vm.GuaranteedMemory},
		{"maximumMemory", vm.MaximumMemory},
	} {
		if size.value != "" {
			return invalid(vmPath+size.field, "the instance type %q has the memory; remove one of the two",
				vm.InstanceType)
		}
	}

	sized, err := client.InstanceType(ctx, vm.InstanceType)
	if err != nil {
		return blocker.NotFound(err, infrav1.InstanceTypeNotFoundReason, vmPath+"instanceType")
	}

	out.InstanceTypeID = sized.ID.String()

	return nil
}

// sizes resolves memory and CPU: explicit ones, or an instance type.
func sizes(ctx context.Context, client *engine.Client, vm infrav1.VirtualMachine, out *render.Machine) error {
	if vm.InstanceType != "" {
		return instanceType(ctx, client, vm, out)
	}

	if !autoPinned(vm) {
		out.Cores, out.Sockets, out.Threads = Topology(vm)
	}

	for _, size := range []struct {
		field, text string
		into        *int64
	}{
		{"memory", vm.Memory, &out.Memory},
		{"guaranteedMemory", vm.GuaranteedMemory, &out.GuaranteedMemory},
		{"maximumMemory", vm.MaximumMemory, &out.MaximumMemory},
	} {
		if size.text == "" && size.field != "memory" {
			continue
		}

		var err error
		if *size.into, err = ParseMemory(size.text); err != nil {
			return &blocker.Error{
				Reason:  infrav1.InvalidMemoryReason,
				Field:   vmPath + size.field,
				Message: err.Error(),
			}
		}
	}

	switch {
	case out.GuaranteedMemory > out.Memory:
		return invalid(vmPath+"guaranteedMemory", "%s is more than memory, which is %s; lower it", vm.GuaranteedMemory,
			vm.Memory)
	case out.MaximumMemory != 0 && out.MaximumMemory < out.Memory:
		return invalid(vmPath+"maximumMemory", "%s is less than memory, which is %s; raise it", vm.MaximumMemory,
			vm.Memory)
	}

	return nil
}

// resizeAndPin leaves the CPU to the hosts.
const resizeAndPin = "resize_and_pin"

func autoPinned(vm infrav1.VirtualMachine) bool { return vm.CPU.AutoPinningPolicy == resizeAndPin }

// autoPinning checks what the engine would refuse when the VM is half made.
func autoPinning(
	ctx context.Context,
	client *engine.Client,
	vm infrav1.VirtualMachine,
	placement placement.Placement,
	out *render.Machine,
) error {
	const field = vmPath + "cpu.autoPinningPolicy"
	if !autoPinned(vm) {
		return nil
	}

	if t := vm.CPU.Topology; t.Cores != 0 || t.Sockets != 0 || t.Threads != 0 {
		return invalid(vmPath+"cpu.topology", "%s takes it from the host; remove one of the two", resizeAndPin)
	}

	if vm.InstanceType != "" {
		return invalid(field, "the instance type %q has the CPU; remove one of the two", vm.InstanceType)
	}

	if len(placement.HostIDs) == 0 {
		return invalid(
			field,
			"it needs hosts to pin to; name them in %splacement.hostNames, or use a failure domain that has hosts",
			vmPath,
		)
	}

	ok, product, err := client.Supports(ctx, 4, 4, 5)
	if err != nil {
		return err
	}

	if !ok {
		return invalid(field, "the engine is of version %s and cannot do it before 4.4.5; write none", product.Version)
	}

	out.OptimizeCPU = true

	return nil
}

// options are the settings that need no look-up. A high-performance VM has rules that the engine's web interface
// applies and its API does not.
func options(vm infrav1.VirtualMachine, out *render.Machine) error {
	out.CPUMode = vm.CPU.Mode
	out.OSType = vm.OSType
	out.VMType = vm.Type
	out.HugePages = int64(vm.HugePages)
	out.Description = vm.Description
	out.MemoryBallooning, out.SerialConsole, out.SoundCard = vm.MemoryBallooning, vm.SerialConsole, vm.SoundCard
	out.RemoveGraphicsConsoles = vm.GraphicsConsoles == "Remove" || vm.GraphicsConsoles == "" && vm.Type == "server"
	if vm.Type != highPerformance {
		return nil
	}

	if vm.GraphicsConsoles == "Keep" {
		return invalid(vmPath+"graphicsConsoles", "a high_performance VM has none; write Remove or leave it out")
	}

	out.RemoveGraphicsConsoles = true

	out.CPUMode = cmp.Or(out.CPUMode, "host_passthrough")
	for setting, value := range map[**bool]bool{
		&out.MemoryBallooning: false,
		&out.SerialConsole:    true,
		&out.SoundCard:        false,
	} {
		if *setting == nil {
			*setting = &value
		}
	}

	return nil
}

// tags resolves the names of tags.
func tags(ctx context.Context, client *engine.Client, names []string, out *render.Machine) error {
	for i, name := range names {
		tag, err := client.TagByName(ctx, name)
		if err != nil {
			return blocker.NotFound(err, infrav1.TagNotFoundReason, fmt.Sprintf("%stags[%d]", vmPath, i))
		}

		out.TagIDs = append(out.TagIDs, tag.ID.String())
	}

	slices.Sort(out.TagIDs)

	return nil
}

// disks resolves the root disk, which comes from the template, and the data disks.
func disks(
	ctx context.Context,
	client *engine.Client,
	dc *engine.DataCenter,
	template *engine.Template,
	vm infrav1.VirtualMachine,
	out *render.Machine,
) error {
	if vm.RootDisk == nil && len(vm.DataDisks) == 0 {
		return nil
	}

	hardware, err := client.Hardware(ctx, template.ID)
	if err != nil {
		return err
	}

	home := "" // the storage domain of the template's disk
	if hardware.RootDisk != nil && len(hardware.RootDisk.StorageDomainIDs()) > 0 {
		home = slices.Min(hardware.RootDisk.StorageDomainIDs()).String() // of several, always the same
	}

	if vm.RootDisk != nil {
		if hardware.RootDisk == nil {
			return invalid(
				vmPath+"rootDisk",
				"template %q has no bootable disk; name another template or remove rootDisk",
				template.Name,
			)
		}

		if err := rootDisk(ctx, client, dc, hardware, *vm.RootDisk, out); err != nil {
			return err
		}
	}

	for i, d := range vm.DataDisks {
		made, err := dataDisk(ctx, client, dc, fmt.Sprintf("%sdataDisks[%d].", vmPath, i), d, home)
		if err != nil {
			return err
		}

		out.DataDisks = append(out.DataDisks, made)
	}

	return nil
}

// dataDisk resolves one data disk. field is the path of its fields; home is the UUID of the storage domain of the
// template's disk, where it goes unless it names another one.
func dataDisk(
	ctx context.Context, client *engine.Client, dc *engine.DataCenter, field string, d infrav1.DataDisk, home string,
) (render.DataDisk, error) {
	out := render.DataDisk{
		Name:            d.Name,
		Format:          cmp.Or(d.Format, engine.FormatCow),
		StorageDomainID: home,
		Interface:       cmp.Or(d.Interface, "virtio_scsi"),
	}
	var err error
	if out.Size, err = ParseMemory(d.Size); err != nil {
		return out, invalid(field+"size", "%v", err)
	}

	out.Sparse = out.Format == engine.FormatCow
	if d.Sparse != nil {
		out.Sparse = *d.Sparse
	}

	if out.Format == engine.FormatCow && !out.Sparse {
		return out, invalid(field+"sparse", "a cow disk is always sparse; write format raw for a preallocated one")
	}

	if d.StorageDomainName != "" {
		domain, err := client.StorageDomain(ctx, dc, d.StorageDomainName)
		if err != nil {
			return out, blocker.NotFound(err, infrav1.StorageDomainNotFoundReason, field+"storageDomainName")
		}

		out.StorageDomainID = domain.ID.String()
	}

	if out.StorageDomainID == "" {
		return out, invalid(field+"storageDomainName",
			"the template has no disk whose storage domain could be taken; name one")
	}

	return out, nil
}

// rootDisk decides whether the template's disk is linked to or copied: linked disks are cow, sparse, and where the
// template's are.
func rootDisk(
	ctx context.Context,
	client *engine.Client,
	dc *engine.DataCenter,
	template *engine.Hardware,
	want infrav1.RootDisk,
	out *render.Machine,
) error {
	const path = vmPath + "rootDisk."
	origin := template.RootDisk
	preallocated := want.Sparse != nil && !*want.Sparse
	if preallocated && cmp.Or(want.Format, origin.Format) == engine.FormatCow {
		return invalid(path+"sparse", "a cow disk is always sparse; write format raw for a preallocated one")
	}

	domainID, elsewhere := "", false
	if want.StorageDomainName != "" {
		domain, err := client.StorageDomain(ctx, dc, want.StorageDomainName)
		if err != nil {
			return blocker.NotFound(err, infrav1.StorageDomainNotFoundReason, path+"storageDomainName")
		}

		domainID = domain.ID.String()
		elsewhere = !slices.Contains(origin.StorageDomainIDs(), domain.ID)
	}

	needs := ""

	switch {
	case want.Format == engine.FormatRaw:
		needs = "format raw"
	case preallocated:
		needs = "a preallocated disk"
	case elsewhere:
		needs = "another storage domain than the template's"
	}

	if out.Clone = want.Clone; needs != "" {
		if want.Clone != nil && !*want.Clone {
			return invalid(path+"clone", "%s needs a copy; write true or leave it out", needs)
		}

		yes := true
		out.Clone = &yes
	}

	if want.Format != "" || want.Sparse != nil || domainID != "" {
		overrideDisks(template, want, domainID, out)
	}

	if want.Size == "" {
		return nil
	}

	size, err := ParseMemory(want.Size)
	if err != nil {
		return invalid(path+"size", "%v", err)
	}

	if size < origin.ProvisionedSize {
		return invalid(path+"size", "%s is less than the template's disk has (%d bytes); disks are not shrunk",
			want.Size, origin.ProvisionedSize)
	}

	out.RootDiskSize = size // also where it is the template's: the next version of that may be smaller

	return nil
}

// overrideDisks says how the template's disks are copied, or linked to.
func overrideDisks(template *engine.Hardware, want infrav1.RootDisk, domainID string, out *render.Machine) {
	origin := template.RootDisk
	clone := out.Clone != nil && *out.Clone
	override := render.TemplateDisk{
		ID:              origin.ID.String(),
		StorageDomainID: domainID,
		Format:          engine.FormatCow,
		Provisioning:    sparse,
	}
	if clone {
		override.Format = cmp.Or(want.Format, origin.Format)
		override.Provisioning = allocation(origin, want)
	}

	out.TemplateDisks = append([]render.TemplateDisk{override}, unchanged(template.OtherDisks, clone)...)
}

// The allocations of disks, as Terraform has them.
const (
	sparse    = "sparse"
	nonSparse = "non-sparse"
)

// allocation is that of a copy of a template's disk. The engine would keep the template's whatever the format is, which
// block storage refuses for raw disks that are sparse, and every storage for cow disks that are not.
func allocation(origin *engine.Disk, want infrav1.RootDisk) string {
	isSparse := origin.Sparse == nil || *origin.Sparse
	switch {
	case want.Sparse != nil:
		isSparse = *want.Sparse
	case cmp.Or(want.Format, origin.Format) == engine.FormatCow:
		isSparse = true
	case want.Format == engine.FormatRaw:
		isSparse = false
	}

	if isSparse {
		return sparse
	}

	return nonSparse
}

// unchanged says of disks of a template that they are copied as they are, for an engine that wants to be told of all
// where it is told of one. Disks that are linked to the template's are cow and sparse.
func unchanged(disks []*engine.Disk, clone bool) []render.TemplateDisk {
	var out []render.TemplateDisk

	for _, disk := range disks {
		same := render.TemplateDisk{ID: disk.ID.String(), Format: engine.FormatCow, Provisioning: sparse}
		if clone {
			same.Format = disk.Format
			same.Provisioning = allocation(disk, infrav1.RootDisk{})
		}

		if domains := disk.StorageDomainIDs(); len(domains) > 0 {
			same.StorageDomainID = slices.Min(domains).String()
		}

		out = append(out, same)
	}

	return out
}
