package store

import (
	"reflect"
	"slices"
)

// CPUProfileID returns the ID of the CPU profile of a cluster.
func (s *Store) CPUProfileID(clusterID string) string { return s.IDOf("", "cpuprofile", clusterID) }

// QuotaID returns the ID of the only quota of a cluster's data center.
func (s *Store) QuotaID(clusterID string) string {
	return s.IDOf("", "quota", s.DataCenterOf(clusterID))
}

// ReportedAddresses returns all addresses reported by the guest agent.
func (v *VM) ReportedAddresses() []string {
	var out []string
	for _, device := range v.Report.Interfaces {
		out = append(out, device.Addresses...)
	}

	return out
}

// MissingDevices returns the types of mediated devices that the VM needs and the host lacks.
func (h *Host) MissingDevices(v *VM) []string {
	var out []string

	for _, d := range v.MediatedDevices {
		for _, p := range d.Parameters {
			if p.Name == "mdevType" && !slices.Contains(h.MediatedTypes, p.Value) {
				out = append(out, p.Value)
			}
		}
	}

	return out
}

// IsRunning reports whether the VM is on a host, or is coming to a host or leaving it.
func (v *VM) IsRunning() bool {
	return v.Status != StatusDown && v.Status != StatusImageLocked && v.Status != StatusSuspended
}

// HasPendingMemory reports whether the next start changes the VM's memory.
func (v *VM) HasPendingMemory() bool { return v.Next != nil && v.Next.Memory != v.Memory }

// SetHardware gives a VM the requested hardware. A running VM applies some changes at once. The others wait for the
// VM's next start. The pending hardware is the VM's present hardware with the changes of this request. Pending changes
// of earlier requests are lost.
func (v *VM) SetHardware(wanted Hardware, running, onlyNext bool) {
	if !running {
		v.Hardware, v.Next = wanted, nil
		return
	}

	now := v.CopyOf()
	if !onlyNext {
		now.OSType = wanted.OSType
		now.DeleteProtected = wanted.DeleteProtected
		now.GuaranteedMemory = wanted.GuaranteedMemory

		now.PlacementAffinity, now.PlacementHosts = wanted.PlacementAffinity, wanted.PlacementHosts
		for _, name := range []string{"high_availability", "lease", "storage_error_resume_behaviour"} {
			now.Settings.ReplaceKid(name, wanted.Settings.Get(name).Clone())
		}

		now.HighlyAvailable, now.CPU.Sockets = wanted.HighlyAvailable, max(wanted.CPU.Sockets, now.CPU.Sockets)
		now.Memory = max(wanted.Memory, now.Memory) // a guest gives memory back only if it offers this
		if !v.HasPendingMemory() {
			wanted.Memory = now.Memory
		}
	}

	waits := v.Next != nil || !reflect.DeepEqual(now, wanted)
	v.Hardware = now
	if waits {
		v.Next = &wanted
	}
}
