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
	dc, err := c.FindDataCenter(ctx, "Default")
	check.Error(t, err, "")
	hosts, err := c.ListHosts(ctx) // this list is not cached
	check.Error(t, err, "")
	check.Equal(t, "a host of no kept list", c.GetKnownName(ctx, hosts[0].ID), "")

	_, err = c.ListHostsWithin(ctx, time.Minute)
	check.Error(t, err, "")
	domains, err := c.ListStorageDomains(ctx, dc)
	check.Error(t, err, "")
	profiles, err := c.ListNetworkProfiles(ctx)
	check.Error(t, err, "")

	want := map[engine.ID]string{hosts[0].ID: hosts[0].Name, domains[0].ID: domains[0].Name, "no-such-id": ""}

	for _, list := range profiles {
		want[list[0].ID] = list[0].Name
	}

	before := requests.Load()

	for id, name := range want {
		check.Equal(t, "the name of "+string(id), c.GetKnownName(ctx, id), name)
	}

	check.Equal(t, "requests", requests.Load(), before)
}
