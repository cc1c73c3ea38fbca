package api

import (
	"slices"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the life of hosts: failure, fencing, maintenance and recovery.

var hostLifeRoutes = []route{
	{"POST", "/hosts/{host}/activate", activateHost},
	{"POST", "/hosts/{host}/deactivate", deactivateHost},
	{"POST", "/hosts/{host}/fence", fenceHost},
}

func activateHost(c *call) (*wire.Element, error) {
	h, err := c.host()
	if err != nil {
		return nil, err
	}

	if h.Status == store.HostUp {
		return nil, wire.Conflict("Cannot activate Host. Host in Up status.")
	}

	c.fenced(h)
	c.hostStatus(h, store.HostUp)

	return c.complete(), nil
}

func deactivateHost(c *call) (*wire.Element, error) {
	h, err := c.host()
	if err != nil {
		return nil, err
	}

	if err := c.Maintain(h); err != nil {
		return nil, err
	}

	return c.complete(), nil
}

// Maintain migrates all VMs off a host and takes it out of service.
func (s *Engine) Maintain(h *store.Host) error {
	if h.Status != store.HostUp {
		return wire.Conflict("Cannot switch Host to Maintenance mode. The Host is not up.")
	}

	vms := s.vmsOn(h.ID)
	for _, v := range vms {
		if v.PlacementAffinity == "pinned" {
			return wire.Conflict(
				"Cannot switch Host to Maintenance mode. The following VMs are set to run "+
					"specifically only on this Host: %s.",
				v.Name,
			)
		}
	}

	s.hostStatus(h, store.HostPreparing)
	s.turnBack(h)
	s.drain()

	return nil
}

// turnBack ends migrations to a host no longer available.
func (s *Engine) turnBack(h *store.Host) {
	for _, v := range s.store.VMs.Rows {
		if v.Destination == h.ID {
			v.Destination = ""
			s.settle(v, store.StatusUp)
			s.event(65, "error", "Migration failed (VM: "+v.Name+", Destination: "+h.Name+").", eventOf{
				vm:   v.ID,
				host: v.Host,
			})
		}
	}
}

// drain migrates VMs off hosts preparing for maintenance, as far as other hosts have room now. It completes the
// maintenance of empty hosts. It is called whenever a VM reaches a stable status.
func (s *Engine) drain() {
	for _, h := range s.store.Hosts.Rows {
		if h.Status != store.HostPreparing {
			continue
		}

		vms := s.vmsOn(h.ID)
		for _, v := range vms {
			if v.Status == store.StatusUp {
				_ = s.move(v, "") // no host has room now, so it waits
			}
		}

		if len(vms) == 0 {
			s.hostStatus(h, store.HostMaintenance)
		}
	}
}

func (s *Engine) hostStatus(h *store.Host, status string) {
	h.Status, h.FailedAt = status, time.Time{}
	s.store.Hosts.Put(h.ID, h)
	s.event(13, "normal", "Status of host "+h.Name+" was set to "+status+".", eventOf{host: h.ID})
}

// fenceHost handles the power management of a host: a restart ends its VMs.
func fenceHost(c *call) (*wire.Element, error) {
	h, err := c.host()
	if err != nil {
		return nil, err
	}

	switch kind := c.body.Value("fence_type"); {
	case kind == "status":
		return c.complete().Str("power_management_status", "on"), nil
	case slices.Contains([]string{"restart", "stop", "start", ""}, kind):
	}

	c.Lose(h)
	c.fenced(h)
	c.hostStatus(h, store.HostUp)

	return c.complete(), nil
}

// Lose makes a host unreachable: its VMs are unknown until it is fenced.
func (s *Engine) Lose(h *store.Host) {
	h.Status, h.FailedAt = store.HostNonResponsive, s.now()
	s.store.Hosts.Put(h.ID, h)
	s.event(12, "error", "Host "+h.Name+" is non responsive.", eventOf{host: h.ID})
	s.turnBack(h)

	for _, v := range s.vmsOn(h.ID) {
		s.halt(v)
		v.Destination = ""
		s.settle(v, store.StatusUnknown)
	}

	failed := h.FailedAt
	s.at(failed.Add(s.settings.Timings.Fence), func() {
		if h.Status == store.HostNonResponsive && h.FailedAt.Equal(failed) {
			s.fenced(h)
		}
	})
}

// fenced marks the VMs of a lost host as down. Highly available ones start elsewhere.
func (s *Engine) fenced(h *store.Host) {
	for _, v := range s.vmsOn(h.ID) {
		if v.Status != store.StatusUnknown {
			continue
		}

		s.down(v)
		if v.HighlyAvailable {
			if err := s.launch(v); err != nil {
				s.event(54, "error", "Failed to restart VM "+v.Name+": "+err.Error(), eventOf{vm: v.ID})
			}
		}
	}
}

// Recover brings a host back, from failure or from maintenance; the store must be locked.
func (s *Engine) Recover(h *store.Host) {
	s.fenced(h)
	s.hostStatus(h, store.HostUp)
}
