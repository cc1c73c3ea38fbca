package api

import (
	"time"
)

// Timings are the durations of the engine's asynchronous operations.
type Timings struct {
	// Clone is the time a new VM's disks stay locked; copied disks, and new templates, take twice as long.
	Clone time.Duration
	// Launch is the time a starting VM waits for its host.
	Launch time.Duration
	// PowerUp is the time a host needs before the guest runs.
	PowerUp time.Duration
	// PowerDown is the time to stop a VM.
	PowerDown time.Duration
	// Disk is the time a disk is locked during its creation, resizing or removal; 0 means the value of Clone.
	Disk time.Duration
	// Migrate is the time of a VM's migration between hosts; 0 means the value of PowerUp.
	Migrate time.Duration
	// Remove is the time a removed VM or disk remains visible, locked; 0 means immediate removal.
	Remove time.Duration
	// Fence is the time after a host's failure until its VMs are known to be down; 0 means four times PowerDown.
	Fence time.Duration
}

// DefaultTimings returns timings short enough to watch, and long enough for every status to be visible.
func DefaultTimings() Timings {
	return Timings{
		Clone:     700 * time.Millisecond,
		Launch:    300 * time.Millisecond,
		PowerUp:   time.Second,
		PowerDown: 500 * time.Millisecond,
		Remove:    200 * time.Millisecond,
	}
}

// Faster divides all timings by a factor.
func (t Timings) Faster(factor float64) Timings {
	for _, d := range []*time.Duration{&t.Clone, &t.Launch, &t.PowerUp, &t.PowerDown, &t.Disk, &t.Migrate, &t.Fence,
		&t.Remove} {
		*d = time.Duration(float64(*d) / factor)
	}

	return t
}
