package api

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// This file contains the start of an engine: it adds to an inventory's objects, or resumes after a restart.

// resumeOperations resumes pending operations after a restart of the simulator, and boots running VMs again.
func (s *Engine) resumeOperations() {
	for _, v := range s.store.VMs.Rows {
		switch {
		case v.Until.Status != "":
			s.startVMTimer(v)
			if v.Until.Status == store.StatusUp &&
				(v.Status == store.StatusMigrating || v.Status == store.StatusPoweringDown) {
				s.bootGuest(v) // the guest runs again
			}
		case v.Status == store.StatusUp:
			s.bootGuest(v)
		}
	}

	for _, d := range s.store.Disks.Rows {
		if d.Until.Status != "" {
			s.startDiskTimer(d)
		}
	}

	for _, found := range s.store.Snapshots.Rows {
		if found.Until.Status != "" {
			s.startSnapshotTimer(found)
		}
	}

	for _, t := range s.store.Templates.Rows {
		if t.Until.Status != "" {
			s.startTemplateTimer(t)
		}
	}

	for _, t := range s.store.Transfers.Rows {
		s.resumeUpload(t)
	}

	for _, h := range s.store.Hosts.Rows {
		if h.Status == store.HostNonResponsive {
			s.FailHost(h)
		}
	}
}

// seedVMs creates the VMs and affinity groups of an inventory, after Fill has created its other objects.
func (s *Engine) seedVMs(inv inventory.Inventory) error {
	for _, dc := range inv.DataCenters {
		for _, want := range dc.VMs {
			if err := s.seedVM(dc, want); err != nil {
				return fmt.Errorf("the inventory's VM %q cannot be made: %w", want.Name, err)
			}
		}

		for _, c := range dc.Clusters {
			for _, g := range c.AffinityGroups {
				made := &store.AffinityGroup{
					ID:       cmp.Or(g.ID, store.NewID()),
					Name:     g.Name,
					Cluster:  s.store.IDOf(c.ID, "cluster", dc.Name, c.Name),
					Priority: 1,
					VMsRule:  store.Rule{Enabled: true, Enforcing: g.Enforcing, Positive: g.Positive}}
				for _, v := range s.store.VMs.Rows {
					if v.Cluster == made.Cluster && slices.Contains(g.VMs, v.Name) {
						made.VMs = append(made.VMs, v.ID)
					}
				}

				s.store.Groups.Put(made.ID, made)
			}
		}
	}

	return nil
}

func (s *Engine) seedVM(dc inventory.DataCenter, want inventory.VM) error {
	c := &call{Engine: s}
	source := c.templateFor(wire.El("template").Str("name", want.Template), s.store.IDOf(dc.ID, "datacenter", dc.Name))
	home := &store.Cluster{}

	for _, one := range dc.Clusters {
		if one.Name == want.Cluster {
			home = s.store.Clusters.Get(s.store.IDOf(one.ID, "cluster", dc.Name, one.Name))
		}
	}

	made := c.newVMOf(source, home)
	made.ID = cmp.Or(want.ID, made.ID)
	made.Name = want.Name
	made.Comment = want.Comment
	made.DeleteProtected = want.DeleteProtected
	if want.Memory != 0 {
		made.Memory = int64(want.Memory)
		made.MaxMemory, made.GuaranteedMemory = 4*made.Memory, made.Memory
	}

	s.store.VMs.Put(made.ID, made)
	disks, err := c.copyDisks(made, source, nil, false)
	if err != nil {
		return err
	}

	for _, d := range disks {
		d.disk.Status = store.StatusOK
	}

	s.copyTemplateParts(made, source, disks)

	for _, name := range want.Tags {
		t := s.store.EnsureTag(name)
		store.SetMember(&t.VMs, made.ID, true)
		s.store.Tags.Put(t.ID, t)
	}

	if want.Up {
		placed, err := s.placeVM(made, "")
		if err != nil {
			return err
		}

		made.Host, made.Started = placed.ID, s.now()
		s.setStableStatus(made, store.StatusUp)
		s.bootGuest(made)
	}

	return nil
}
