package engine_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestANameIsKnownFromListsThatWereRead looks up names without a request to the engine.
func TestANameIsKnownFromListsThatWereRead(t *testing.T) {
	var requests atomic.Int64

	c, _ := proxied(t, func(*http.Response) error { requests.Add(1); return nil })
	ctx := t.Context()
	dc, err := c.DataCenter(ctx, "Default")
	check.Error(t, err, "")
	hosts, err := c.Hosts(ctx) // this list is not cached
	check.Error(t, err, "")
	check.Equal(t, "a host of no kept list", c.KnownName(ctx, hosts[0].ID), "")

	_, err = c.HostsWithin(ctx, time.Minute)
	check.Error(t, err, "")
	domains, err := c.StorageDomains(ctx, dc)
	check.Error(t, err, "")
	profiles, err := c.NetworkProfiles(ctx)
	check.Error(t, err, "")

	want := map[engine.ID]string{hosts[0].ID: hosts[0].Name, domains[0].ID: domains[0].Name, "no-such-id": ""}

	for _, list := range profiles {
		want[list[0].ID] = list[0].Name
	}

	before := requests.Load()

	for id, name := range want {
		check.Equal(t, "the name of "+string(id), c.KnownName(ctx, id), name)
	}

	check.Equal(t, "requests", requests.Load(), before)
}
