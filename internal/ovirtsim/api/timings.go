package api

import (
	"time"
)

// Timings are how long the engine's asynchronous operations take.
type Timings struct {
	// Clone is how long a new VM's disks stay locked; copied disks, and new templates, take twice as long.
	Clone time.Duration
	// Launch is how long a starting VM waits for its host.
	Launch time.Duration
	// PowerUp is how long the host takes until the guest runs.
	PowerUp time.Duration
	// PowerDown is how long stopping takes.
	PowerDown time.Duration
	// Disk is how long a disk is locked while it is made, resized or removed; 0 means as long as Clone.
	Disk time.Duration
	// Migrate is how long a VM moves between hosts; 0 means as long as PowerUp.
	Migrate time.Duration
	// Remove is how long a VM or disk that is removed can still be seen, locked; 0 means that it is gone at once.
	Remove time.Duration
	// Fence is how long after a host was lost its VMs are known to be down; 0 means four times PowerDown.
	Fence time.Duration
}

// DefaultTimings are short enough for a person to watch and long enough for every status to be seen.
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
