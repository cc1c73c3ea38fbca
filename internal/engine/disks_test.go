package engine_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestADiskOfAProcessThatMayNoLongerAct has a process lose its right to act before and after the engine made its disk.
func TestADiskOfAProcessThatMayNoLongerAct(t *testing.T) {
	for name, test := range map[string]struct {
		may     int // number of times MayAct agrees
		refusal error
		asked   int
		disks   int
		err     string
	}{
		"may act":                        {may: 2, asked: 2, disks: 1},
		"may not act before the request": {refusal: engine.ErrSuperseded, asked: 1, err: "another manager leads"},
		"was halted while the disk was created": {
			may: 1, refusal: engine.ErrSuperseded, asked: 2, err: "another manager",
		},
		"nobody answers before the request": {refusal: errors.New("no answer"), asked: 1, err: "no answer"},
		"nobody answers after it":           {may: 1, refusal: errors.New("no answer"), asked: 2, disks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, config := start(t, ovirtsim.Options{})
			c := client(t, config)
			dc, _ := home(t, c)
			domain, err := c.FindStorageDomain(t.Context(), dc, "olvm-data")
			check.Error(t, err, "")

			asked := 0
			mayAct := func(context.Context) error {
				asked++
				if asked <= test.may {
					return nil
				}

				return test.refusal
			}

			_, err = c.CreateDiskOnce(t.Context(), "owner", &engine.Disk{
				Alias:           ptr.To("etcd"),
				Format:          engine.FormatCow,
				Sparse:          ptr.To(true),
				ProvisionedSize: 1 << 30,
				StorageDomains:  &engine.StorageDomains{Items: []engine.Ref{{ID: domain.ID}}},
			}, mayAct, nil)
			check.Error(t, err, test.err)
			check.Equal(t, "questions", asked, test.asked)

			left, err := c.FindDisks(t.Context(), nil, "etcd")
			check.Error(t, err, "")
			check.Equal(t, "disks in the engine", len(left), test.disks)
		})
	}
}

// TestADiskThatTheSuccessorHasTakenStays has the acting process find the disk by its mark and attach it to its VM. Only
// then does the creator of the disk learn that it may no longer act. An engine would delete even the disk of a VM that
// is down.
func TestADiskThatTheSuccessorHasTakenStays(t *testing.T) {
	_, config := start(t, ovirtsim.Options{})
	c := client(t, config)
	dc, cluster := home(t, c)
	domain, err := c.FindStorageDomain(t.Context(), dc, "olvm-data")
	check.Error(t, err, "")
	vm, err := c.CreateVM(t.Context(), &engine.VM{
		Name: "one", Cluster: engine.NewRef(cluster.ID), Template: engine.NewRef(engine.BlankTemplateID),
	}, nil)
	check.Error(t, err, "")

	asked := 0
	mayAct := func(ctx context.Context) error {
		if asked++; asked == 1 {
			return nil
		}

		made, err := c.ListDisksMadeFor(ctx, "owner")
		check.Error(t, err, "")
		check.Error(t, c.WaitDisk(ctx, made[0].ID, nil), "")
		_, err = c.AttachDisk(ctx, vm.ID, &engine.DiskAttachment{
			Disk: &engine.Disk{ID: made[0].ID}, Interface: "virtio_scsi", Active: ptr.To(true),
		})
		check.Error(t, err, "")

		return engine.ErrSuperseded
	}

	_, err = c.CreateDiskOnce(t.Context(), "owner", &engine.Disk{
		Alias: ptr.To("etcd"), Format: engine.FormatCow, Sparse: ptr.To(true), ProvisionedSize: 1 << 30,
		StorageDomains: &engine.StorageDomains{Items: []engine.Ref{{ID: domain.ID}}},
	}, mayAct, nil)
	check.Error(t, err, "another manager leads")

	attached, err := c.ListDiskAttachments(t.Context(), vm.ID)
	check.Error(t, err, "")
	check.Length(t, "disks of the VM", attached, 1)
}

// TestATagOfAProcessThatMayNoLongerActIsRemovedUnlessAVMHasIt has a process lose its right to act while it makes a tag.
func TestATagOfAProcessThatMayNoLongerActIsRemovedUnlessAVMHasIt(t *testing.T) {
	for name, test := range map[string]struct {
		halted, used bool
		left         int
	}{
		"it acts":              {left: 1},
		"it was halted":        {halted: true},
		"its successor has it": {halted: true, used: true, left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, config := start(t, ovirtsim.Options{})
			successor := client(t, config)
			_, cluster := home(t, successor)
			vm, err := successor.CreateVM(t.Context(), &engine.VM{
				Name: "one", Cluster: engine.NewRef(cluster.ID), Template: engine.NewRef(engine.BlankTemplateID),
			}, nil)
			check.Error(t, err, "")

			asked := 0
			config.MayAct = func(ctx context.Context) error {
				if asked++; asked == 1 || !test.halted {
					return nil
				}

				if test.used {
					tags, err := successor.ListTagsNamed(ctx, "pool")
					check.Error(t, err, "")
					check.Error(t, successor.TagVM(ctx, vm.ID, tags[0].ID), "")
				}

				return engine.ErrSuperseded
			}
			_, err = client(t, config).CreateTag(t.Context(), &engine.Tag{Name: "pool"})
			check.Equal(t, "it is refused", errors.Is(err, engine.ErrSuperseded), test.halted)

			tags, err := successor.ListTagsNamed(t.Context(), "pool")
			check.Error(t, err, "")
			check.Length(t, "tags", tags, test.left)
		})
	}
}
