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
	h, err := c.findHost()
	if err != nil {
		return nil, err
	}

	if h.Status == store.HostUp {
		return nil, wire.Conflict("Cannot activate Host. Host in Up status.")
	}

	c.failOverVMs(h)
	c.setHostStatus(h, store.HostUp)

	return c.answerComplete(), nil
}

func deactivateHost(c *call) (*wire.Element, error) {
	h, err := c.findHost()
	if err != nil {
		return nil, err
	}

	if err := c.StartMaintenance(h); err != nil {
		return nil, err
	}

	return c.answerComplete(), nil
}

// StartMaintenance migrates all VMs off a host and takes it out of service.
func (s *Engine) StartMaintenance(h *store.Host) error {
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

	s.setHostStatus(h, store.HostPreparing)
	s.failMigrationsTo(h)
	s.drainHosts()

	return nil
}

// failMigrationsTo ends the migrations to an unavailable host.
func (s *Engine) failMigrationsTo(h *store.Host) {
	for _, v := range s.store.VMs.Rows {
		if v.Destination == h.ID {
			v.Destination = ""
			s.setStableStatus(v, store.StatusUp)
			s.recordEvent(65, "error", "Migration failed (VM: "+v.Name+", Destination: "+h.Name+").", eventOf{
				vm:   v.ID,
				host: v.Host,
			})
		}
	}
}

// drainHosts migrates VMs off hosts in preparation for maintenance, as far as other hosts have room. It completes the
// maintenance of hosts without VMs. The engine calls it whenever a VM reaches a stable status.
func (s *Engine) drainHosts() {
	for _, h := range s.store.Hosts.Rows {
		if h.Status != store.HostPreparing {
			continue
		}

		vms := s.vmsOn(h.ID)
		for _, v := range vms {
			if v.Status == store.StatusUp {
				_ = s.startMigration(v, "") // if no host has room now, the VM waits
			}
		}

		if len(vms) == 0 {
			s.setHostStatus(h, store.HostMaintenance)
		}
	}
}

func (s *Engine) setHostStatus(h *store.Host, status string) {
	h.Status, h.FailedAt = status, time.Time{}
	s.store.Hosts.Put(h.ID, h)
	s.recordEvent(13, "normal", "Status of host "+h.Name+" was set to "+status+".", eventOf{host: h.ID})
}

// fenceHost handles the power management of a host. A restart of the host ends its VMs.
func fenceHost(c *call) (*wire.Element, error) {
	h, err := c.findHost()
	if err != nil {
		return nil, err
	}

	switch kind := c.body.Value("fence_type"); {
	case kind == "status":
		return c.answerComplete().Str("power_management_status", "on"), nil
	case slices.Contains([]string{"restart", "stop", "start", ""}, kind):
	}

	c.FailHost(h)
	c.failOverVMs(h)
	c.setHostStatus(h, store.HostUp)

	return c.answerComplete(), nil
}

// FailHost makes a host unreachable. The status of its VMs is unknown until the host is fenced.
func (s *Engine) FailHost(h *store.Host) {
	h.Status, h.FailedAt = store.HostNonResponsive, s.now()
	s.store.Hosts.Put(h.ID, h)
	s.recordEvent(12, "error", "Host "+h.Name+" is non responsive.", eventOf{host: h.ID})
	s.failMigrationsTo(h)

	for _, v := range s.vmsOn(h.ID) {
		s.haltGuest(v)
		v.Destination = ""
		s.setStableStatus(v, store.StatusUnknown)
	}

	failed := h.FailedAt
	s.scheduleChange(failed.Add(s.settings.Timings.Fence), func() {
		if h.Status == store.HostNonResponsive && h.FailedAt.Equal(failed) {
			s.failOverVMs(h)
		}
	})
}

// failOverVMs marks the VMs of a lost host as down. It starts highly available VMs on other hosts.
func (s *Engine) failOverVMs(h *store.Host) {
	for _, v := range s.vmsOn(h.ID) {
		if v.Status != store.StatusUnknown {
			continue
		}

		s.markDown(v)
		if v.HighlyAvailable {
			if err := s.launchVM(v); err != nil {
				s.recordEvent(54, "error", "Failed to restart VM "+v.Name+": "+err.Error(), eventOf{vm: v.ID})
			}
		}
	}
}

// RecoverHost brings a host back from failure or maintenance. The caller must hold the lock.
func (s *Engine) RecoverHost(h *store.Host) {
	s.failOverVMs(h)
	s.setHostStatus(h, store.HostUp)
}
