package api

import (
	"time"
)

// Timings are the durations of the engine's asynchronous operations.
type Timings struct {
	// Clone is the time during which a new VM's disks are locked. Copied disks and new templates take twice as long.
	Clone time.Duration
	// Launch is the time during which a starting VM waits for its host.
	Launch time.Duration
	// PowerUp is the time from the host's start of a VM until the guest runs.
	PowerUp time.Duration
	// PowerDown is the time to stop a VM.
	PowerDown time.Duration
	// Disk is the time during which a disk is locked for its creation, resizing or removal; 0 means the value of Clone.
	Disk time.Duration
	// Migrate is the duration of a VM's migration between hosts; 0 means the value of PowerUp.
	Migrate time.Duration
	// Remove is the time during which a removed VM or disk stays visible and locked; 0 means immediate removal.
	Remove time.Duration
	// Fence is the time from a host's failure until the engine knows that the host's VMs are down. 0 means four times
	// PowerDown.
	Fence time.Duration
}

// DefaultTimings returns timings that are short enough to watch, and long enough to show every status.
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
