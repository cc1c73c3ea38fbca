package desired

import (
	"context"
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

// This file resolves host devices, and the services of the engine that keep a VM available.

// resolveAvailability resolves high availability. For a VM with a lease, the engine silently replaces any other
// behavior after a storage error with kill.
func resolveAvailability(
	ctx context.Context, client *engine.Client, dc *engine.DataCenter, vm infrav1.VirtualMachine, out *render.Machine,
) error {
	const path = vmPath + "highAvailability."
	wanted := vm.HighAvailability
	if wanted == nil {
		return nil
	}

	out.HighAvailability = &render.HighAvailability{
		Priority:     int64(wanted.Priority),
		StorageError: wanted.StorageErrorResume,
	}
	if wanted.LeaseStorageDomainName == "" {
		return nil
	}

	if wanted.StorageErrorResume != "" && wanted.StorageErrorResume != "kill" {
		return newInvalidError(path+"storageErrorResume",
			"a VM with a lease is killed when its storage fails: write kill, or remove leaseStorageDomainName")
	}

	domain, err := client.FindStorageDomain(ctx, dc, wanted.LeaseStorageDomainName)
	if err != nil {
		return blocker.WrapNotFound(err, infrav1.StorageDomainNotFoundReason, path+"leaseStorageDomainName")
	}

	out.HighAvailability.LeaseStorageDomainID = domain.ID.String()

	return nil
}

// checkDevices checks the watchdog, the firmware and the custom properties, without look-ups.
func checkDevices(vm infrav1.VirtualMachine, out *render.Machine) error {
	firmware := vm.Firmware
	if strings.HasSuffix(firmware.BiosType, "_sea_bios") && firmware.TPM != nil && *firmware.TPM {
		return newInvalidError(vmPath+"firmware.tpm",
			"a TPM needs UEFI, but biosType is %s; set it to q35_ovmf or q35_secure_boot", firmware.BiosType)
	}

	out.BIOSType, out.TPM = firmware.BiosType, firmware.TPM
	if vm.Watchdog != nil {
		out.WatchdogAction = "reset"
		if vm.Watchdog.Action != "" {
			out.WatchdogAction = vm.Watchdog.Action
		}
	}

	for _, device := range vm.MediatedDevices {
		out.MediatedDevices = append(out.MediatedDevices, device.Type)
	}

	for i, property := range vm.CustomProperties {
		switch field := fmt.Sprintf("%scustomProperties[%d].name", vmPath, i); property.Name {
		case "hugepages":
			return newInvalidError(field, "huge pages have a separate field: use %shugePages", vmPath)
		case "mdev_type":
			return newInvalidError(field, "mediated devices have a separate field: use %smediatedDevices", vmPath)
		}

		if out.CustomProperties == nil {
			out.CustomProperties = map[string]string{}
		}

		out.CustomProperties[property.Name] = property.Value
	}

	return nil
}

// checkHostDevices checks the host devices of a VM. The VM must be bound to one host.
func checkHostDevices(
	ctx context.Context, client *engine.Client, vm infrav1.VirtualMachine, hosts []engine.ID, out *render.Machine,
) error {
	const field = vmPath + "hostDevices"
	if len(vm.HostDevices) == 0 {
		return nil
	}

	if len(hosts) != 1 {
		return newInvalidError(field, "a host device belongs to one host, but the VM may run on %s; name one host in "+
			"%splacement.hostNames", describeHostCount(len(hosts)), vmPath)
	}

	there, err := client.ListHostDevices(ctx, hosts[0])
	if err != nil {
		return err
	}

	for _, name := range vm.HostDevices {
		if !slices.Contains(there, name) {
			return newInvalidError(field, "the host has no device %q; it has %s", name, joinShortened(there))
		}
	}

	out.HostDevices = slices.Sorted(slices.Values(vm.HostDevices))

	return nil
}

func describeHostCount(hosts int) string {
	if hosts == 0 {
		return "any"
	}

	return fmt.Sprintf("any of %d", hosts)
}

// joinShortened joins names for a message. It shortens a long list, because a host may have hundreds of devices.
func joinShortened(names []string) string {
	const most = 20

	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	default:
		return strings.Join(names, ", ")
	}
}
