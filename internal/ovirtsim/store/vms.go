package store

import (
	"reflect"
	"slices"
)

// CPUProfileID is the ID of the CPU profile of a cluster.
func (s *Store) CPUProfileID(clusterID string) string { return s.IDOf("", "cpuprofile", clusterID) }

// QuotaID is the ID of the only quota of a data center.
func (s *Store) QuotaID(clusterID string) string {
	return s.IDOf("", "quota", s.DataCenterOf(clusterID))
}

// Addresses are all that the guest agent reports.
func (v *VM) Addresses() []string {
	var out []string
	for _, device := range v.Report.Interfaces {
		out = append(out, device.Addresses...)
	}

	return out
}

// MissingDevices are the types of mediated devices of a VM that a host does not have.
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

// Running reports whether the VM is on a host, or on its way there or away.
func (v *VM) Running() bool {
	return v.Status != StatusDown && v.Status != StatusImageLocked && v.Status != StatusSuspended
}

// MemoryWaits reports that the VM has other memory after its next start.
func (v *VM) MemoryWaits() bool { return v.Next != nil && v.Next.Memory != v.Memory }

// Take gives a VM the hardware that a request asks for. A VM that runs takes some of it at once; the rest waits for its
// next start. What waits is what the VM is now and what this request says: what an earlier request left waiting is
// lost.
func (v *VM) Take(wanted Hardware, running, onlyNext bool) {
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
			now.Settings.Replace(name, wanted.Settings.Get(name).Clone())
		}

		now.HighlyAvailable, now.CPU.Sockets = wanted.HighlyAvailable, max(wanted.CPU.Sockets, now.CPU.Sockets)
		now.Memory = max(wanted.Memory, now.Memory) // a guest gives nothing back that it does not offer
		if !v.MemoryWaits() {
			wanted.Memory = now.Memory
		}
	}

	waits := v.Next != nil || !reflect.DeepEqual(now, wanted)
	v.Hardware = now
	if waits {
		v.Next = &wanted
	}
}
