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
		may     int // how many questions are agreed to
		refusal error
		asked   int
		disks   int
		err     string
	}{
		"may act":                               {may: 2, asked: 2, disks: 1},
		"may not act before the request":        {refusal: engine.ErrSuperseded, asked: 1, err: "another manager leads"},
		"was halted while the disk was created": {may: 1, refusal: engine.ErrSuperseded, asked: 2, err: "another manager"},
		"nobody answers before the request":     {refusal: errors.New("no answer"), asked: 1, err: "no answer"},
		"nobody answers after it":               {may: 1, refusal: errors.New("no answer"), asked: 2, disks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, config := start(t, ovirtsim.Options{})
			c := client(t, config)
			dc, _ := home(t, c)
			domain, err := c.StorageDomain(t.Context(), dc, "olvm-data")
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
