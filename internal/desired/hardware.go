package desired

import (
	"cmp"
	"context"
	"errors"
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
	// highPerformance is a type of VM with special rules.
	highPerformance = "high_performance"
)

// newInvalidError returns the error for an option that conflicts with another option or with the template.
func newInvalidError(field, format string, args ...any) error {
	return blocker.New(infrav1.InvalidHardwareReason, field, format, args...)
}

// checkOperatingSystem checks the name of an operating system. An engine accepts any name. For an unknown name, it
// creates the VM with another system, and passes the user data to cloud-init.
func checkOperatingSystem(ctx context.Context, client *engine.Client, vm infrav1.VirtualMachine) error {
	if vm.OSType == "" {
		return nil
	}

	if err := client.CheckOperatingSystem(ctx, vm.OSType); err != nil {
		return blocker.WrapNotFound(err, infrav1.OperatingSystemNotFoundReason, vmPath+"osType")
	}

	return nil
}

// resolveInstanceType resolves the instance type that sets the sizes of a VM. No other field may set a size.
func resolveInstanceType(
	ctx context.Context, client *engine.Client, vm infrav1.VirtualMachine, out *render.Machine,
) error {
	if t := vm.CPU.Topology; t.Cores != 0 || t.Sockets != 0 || t.Threads != 0 {
		return newInvalidError(vmPath+"cpu.topology", "the instance type %q defines the CPU; remove one of the two",
			vm.InstanceType)
	}

	// Of two mistakes, always report the same one, because a condition that changes at each pass never settles.
	for _, size := range []struct{ field, value string }{
		{"guaranteedMemory", vm.GuaranteedMemory},
		{"maximumMemory", vm.MaximumMemory},
	} {
		if size.value != "" {
			return newInvalidError(vmPath+size.field, "the instance type %q defines the memory; remove one of the two",
				vm.InstanceType)
		}
	}

	sized, err := client.FindInstanceType(ctx, vm.InstanceType)
	if err != nil {
		return blocker.WrapNotFound(err, infrav1.InstanceTypeNotFoundReason, vmPath+"instanceType")
	}

	out.InstanceTypeID = sized.ID.String()

	return nil
}

// resolveSizes resolves memory and CPU, from the explicit values or the instance type.
func resolveSizes(ctx context.Context, client *engine.Client, vm infrav1.VirtualMachine, out *render.Machine) error {
	if vm.InstanceType != "" {
		return resolveInstanceType(ctx, client, vm, out)
	}

	if !isAutoPinned(vm) {
		out.Cores, out.Sockets, out.Threads = GetTopology(vm)
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
		return newInvalidError(
			vmPath+"guaranteedMemory", "%s is more than memory, which is %s; lower it", vm.GuaranteedMemory, vm.Memory,
		)
	case out.MaximumMemory != 0 && out.MaximumMemory < out.Memory:
		return newInvalidError(
			vmPath+"maximumMemory", "%s is less than memory, which is %s; raise it", vm.MaximumMemory, vm.Memory,
		)
	}

	return nil
}

// resizeAndPin is the policy that adapts the CPU to the host.
const resizeAndPin = "resize_and_pin"

func isAutoPinned(vm infrav1.VirtualMachine) bool { return vm.CPU.AutoPinningPolicy == resizeAndPin }

// checkAutoPinning returns errors that the engine would report only after the VM is half created.
func checkAutoPinning(
	ctx context.Context,
	client *engine.Client,
	vm infrav1.VirtualMachine,
	placement placement.Placement,
	out *render.Machine,
) error {
	const field = vmPath + "cpu.autoPinningPolicy"
	if !isAutoPinned(vm) {
		return nil
	}

	if t := vm.CPU.Topology; t.Cores != 0 || t.Sockets != 0 || t.Threads != 0 {
		return newInvalidError(vmPath+"cpu.topology", "%s takes it from the host; remove one of the two", resizeAndPin)
	}

	if vm.InstanceType != "" {
		return newInvalidError(field, "the instance type %q defines the CPU; remove one of the two", vm.InstanceType)
	}

	if len(placement.HostIDs) == 0 {
		return newInvalidError(
			field,
			"pinning needs hosts; name them in %splacement.hostNames, or use a failure domain with hosts",
			vmPath,
		)
	}

	ok, product, err := client.SupportsVersion(ctx, 4, 4, 5)
	if err != nil {
		return err
	}

	if !ok {
		return newInvalidError(
			field, "the engine has version %s, but this needs 4.4.5 or later; set it to none", product.Version,
		)
	}

	out.OptimizeCPU = true

	return nil
}

// copyOptions copies the settings that need no look-ups. It applies the special rules for a high-performance VM,
// because the engine's web interface applies them, but its API does not.
func copyOptions(vm infrav1.VirtualMachine, out *render.Machine) error {
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
		return newInvalidError(
			vmPath+"graphicsConsoles",
			"a high_performance VM cannot have graphics consoles; set it to Remove, or omit it",
		)
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

// resolveTags resolves the names of tags.
func resolveTags(ctx context.Context, client *engine.Client, names []string, out *render.Machine) error {
	for i, name := range names {
		tag, err := client.FindTag(ctx, name)
		if err != nil {
			return blocker.WrapNotFound(err, infrav1.TagNotFoundReason, fmt.Sprintf("%stags[%d]", vmPath, i))
		}

		out.TagIDs = append(out.TagIDs, tag.ID.String())
	}

	slices.Sort(out.TagIDs)

	return nil
}

// resolveDisks resolves the data disks, and the root disk of the template.
func resolveDisks(
	ctx context.Context,
	client *engine.Client,
	dc *engine.DataCenter,
	template *engine.Template,
	vm infrav1.VirtualMachine,
	out *render.Machine,
) error {
	hardware, err := client.FetchHardware(ctx, template.ID)
	if err != nil {
		return err
	}

	if err := checkTemplateDisks(ctx, client, dc, template, hardware); err != nil {
		return err
	}

	if vm.RootDisk == nil && len(vm.DataDisks) == 0 {
		return nil
	}

	var home []engine.ID // the storage domains of the template's disk
	if hardware.RootDisk != nil {
		home = hardware.RootDisk.StorageDomainIDs()
	}

	if vm.RootDisk != nil {
		if hardware.RootDisk == nil {
			return newInvalidError(
				vmPath+"rootDisk",
				"template %q has no bootable disk; name another template or remove rootDisk",
				template.Name,
			)
		}

		if err := resolveRootDisk(ctx, client, dc, hardware, *vm.RootDisk, out); err != nil {
			return err
		}
	}

	for i, d := range vm.DataDisks {
		made, err := resolveDataDisk(ctx, client, dc, fmt.Sprintf("%sdataDisks[%d].", vmPath, i), d, home)
		if err != nil {
			return err
		}

		out.DataDisks = append(out.DataDisks, made)
	}

	return nil
}

// checkTemplateDisks checks that a VM can be created from each disk of a template on its storage domain.
func checkTemplateDisks(
	ctx context.Context,
	client *engine.Client,
	dc *engine.DataCenter,
	template *engine.Template,
	hardware *engine.Hardware,
) error {
	all := hardware.OtherDisks
	if hardware.RootDisk != nil {
		all = append([]*engine.Disk{hardware.RootDisk}, all...)
	}

	for _, disk := range all {
		var inactive *engine.InactiveError

		_, _, err := client.ChooseDiskPlace(ctx, dc, engine.DiskPlace{Among: disk.StorageDomainIDs()})
		if errors.As(err, &inactive) {
			return blocker.New(infrav1.StorageDomainInactiveReason, "spec.vmTemplateName",
				"disk %q of template %q cannot be copied to a VM: %s. Activate the storage domain in the engine, copy "+
					"the disk to another domain there, or use another template",
				disk.AliasText(), template.Name, inactive)
		} else if err != nil {
			return err
		}
	}

	return nil
}

// placeDisk decides where to create a disk, and whether the disk is sparse there. field is the path of the disk's
// fields.
func placeDisk(
	ctx context.Context, client *engine.Client, dc *engine.DataCenter, field string, at engine.DiskPlace,
) (domainID string, sparse *bool, err error) {
	domain, sparse, err := client.ChooseDiskPlace(ctx, dc, at)

	var impossible *engine.AllocationError
	if errors.As(err, &impossible) {
		return "", nil, newInvalidError(field+"sparse", "%v", impossible)
	}

	if err != nil {
		return "", nil, blocker.WrapNotFound(err, infrav1.StorageDomainNotFoundReason, field+"storageDomainName")
	}

	if domain != nil {
		domainID = domain.ID.String()
	}

	return domainID, sparse, nil
}

// resolveDataDisk resolves one data disk. field is the path of its fields. home has the storage domains of the
// template's disk. The disk goes to one of them unless it names its own.
func resolveDataDisk(
	ctx context.Context,
	client *engine.Client,
	dc *engine.DataCenter,
	field string,
	d infrav1.DataDisk,
	home []engine.ID,
) (render.DataDisk, error) {
	out := render.DataDisk{
		Name:      d.Name,
		Format:    cmp.Or(d.Format, engine.FormatCow),
		Interface: cmp.Or(d.InterfaceType, "virtio_scsi"),
	}
	var err error
	if out.Size, err = ParseMemory(d.Size); err != nil {
		return out, newInvalidError(field+"size", "%v", err)
	}

	at := engine.DiskPlace{Domain: d.StorageDomainName, Among: home, Format: out.Format, Sparse: d.Sparse}

	var isSparse *bool
	if out.StorageDomainID, isSparse, err = placeDisk(ctx, client, dc, field, at); err != nil {
		return out, err
	}

	out.Sparse = isSparse != nil && *isSparse // a raw disk is preallocated unless it requests sparse
	if out.StorageDomainID == "" {
		return out, newInvalidError(field+"storageDomainName",
			"the template has no disk to copy the storage domain from; name a storage domain")
	}

	return out, nil
}

// resolveRootDisk decides whether the root disk is linked to the template's disk or copied. Linked disks are cow and
// sparse, and stay on the template's storage domain.
func resolveRootDisk(
	ctx context.Context,
	client *engine.Client,
	dc *engine.DataCenter,
	template *engine.Hardware,
	want infrav1.RootDisk,
	out *render.Machine,
) error {
	const path = vmPath + "rootDisk."
	origin := template.RootDisk
	home := origin.StorageDomainIDs()
	preallocated := want.Sparse != nil && !*want.Sparse

	domainID, _, err := placeDisk(ctx, client, dc, path, engine.DiskPlace{Domain: want.StorageDomainName, Among: home})
	if err != nil {
		return err
	}

	needs := ""

	switch {
	case want.Format == engine.FormatRaw:
		needs = "format raw"
	case preallocated:
		needs = "a preallocated disk"
	case want.StorageDomainName != "" && !slices.Contains(home, engine.ID(domainID)):
		needs = "another storage domain than the template's"
	}

	if out.Clone = want.Clone; needs != "" {
		if want.Clone != nil && !*want.Clone {
			return newInvalidError(path+"clone", "%s needs a copy; set it to true, or omit it", needs)
		}

		yes := true
		out.Clone = &yes
	}

	if err := overrideDisks(ctx, client, dc, template, want, out); err != nil {
		return err
	}

	if want.Size == "" {
		return nil
	}

	size, err := ParseMemory(want.Size)
	if err != nil {
		return newInvalidError(path+"size", "%v", err)
	}

	if size < origin.ProvisionedSize {
		return newInvalidError(path+"size", "%s is less than the size of the template's disk (%d bytes), and disks "+
			"cannot shrink",
			want.Size, origin.ProvisionedSize)
	}

	out.RootDiskSize = size // even if unchanged: the template's next version may be smaller

	return nil
}

// overrideDisks describes how to copy the template's disks, or how to link to them. It adds nothing if the engine does
// the same by default, as for an unchanged disk on one storage domain.
func overrideDisks(
	ctx context.Context,
	client *engine.Client,
	dc *engine.DataCenter,
	template *engine.Hardware,
	want infrav1.RootDisk,
	out *render.Machine,
) error {
	clone := out.Clone != nil && *out.Clone
	severalDomains := func(d *engine.Disk) bool { return len(d.StorageDomainIDs()) > 1 }

	chooses := severalDomains(template.RootDisk) || slices.ContainsFunc(template.OtherDisks, severalDomains)
	if want.Format == "" && want.Sparse == nil && want.StorageDomainName == "" && !chooses {
		return nil
	}

	const path = vmPath + "rootDisk."
	override, err := describeTemplateDisk(ctx, client, dc, path, template.RootDisk, want, clone)
	if err != nil {
		return err
	}

	if want.StorageDomainName == "" && !chooses {
		override.StorageDomainID = "" // the template's domain
	}

	out.TemplateDisks = []render.TemplateDisk{override}

	// If a request has any disk, the engine needs all of them.
	for _, disk := range template.OtherDisks {
		same, err := describeTemplateDisk(ctx, client, dc, path, disk, infrav1.RootDisk{}, clone)
		if err != nil {
			return err
		}

		out.TemplateDisks = append(out.TemplateDisks, same)
	}

	return nil
}

// describeTemplateDisk describes how to copy one disk of a template, or how to link to it. A linked disk is always cow
// and sparse.
func describeTemplateDisk(
	ctx context.Context,
	client *engine.Client,
	dc *engine.DataCenter,
	field string,
	origin *engine.Disk,
	want infrav1.RootDisk,
	clone bool,
) (render.TemplateDisk, error) {
	at := engine.DiskPlace{Domain: want.StorageDomainName, Among: origin.StorageDomainIDs(), Format: engine.FormatCow}
	if clone {
		at.Format, at.Sparse = cmp.Or(want.Format, origin.Format), want.Sparse
	}

	domainID, isSparse, err := placeDisk(ctx, client, dc, field, at)
	if err != nil {
		return render.TemplateDisk{}, err
	}

	if isSparse == nil { // the storage supports both
		follows := want.Format == "" && (origin.Sparse == nil || *origin.Sparse)
		isSparse = &follows
	}

	out := render.TemplateDisk{
		ID: origin.ID.String(), StorageDomainID: domainID, Format: at.Format, Provisioning: nonSparse,
	}
	if *isSparse {
		out.Provisioning = sparse
	}

	return out, nil
}

// These are Terraform's names for the allocations of disks.
const (
	sparse    = "sparse"
	nonSparse = "non-sparse"
)
