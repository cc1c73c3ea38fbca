package engine_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestEventsOfAVM finds the events of one VM, newest first, up to the requested number.
func TestEventsOfAVM(t *testing.T) {
	_, config := start(t, ovirtsim.Options{})
	c, ctx := client(t, config), t.Context()

	dc, err := c.FindDataCenter(ctx, "Default")
	check.Error(t, err, "")
	disk, err := c.FindStorageDomain(ctx, dc, "olvm-data")
	check.Error(t, err, "")

	for _, alias := range []string{"one", "two"} {
		_, err := c.CreateDisk(ctx, &engine.Disk{
			Alias: ptr.To(alias), Format: "cow", Sparse: ptr.To(true), ProvisionedSize: 1 << 20,
			StorageDomains: &engine.StorageDomains{Items: []engine.Ref{{ID: disk.ID}}},
		})
		check.Error(t, err, "")
	}

	all, err := c.ListEvents(ctx, "", 100)
	check.Error(t, err, "")
	check.Equal(t, "the newest is first", all[0].Time >= all[len(all)-1].Time, true)

	newest, err := c.ListEvents(ctx, "", 1)
	check.Error(t, err, "")
	check.Equal(t, "events", len(newest), 1)
	check.Equal(t, "the newest", newest[0], all[0])

	found, err := c.ListEvents(ctx, "severity=normal", 100)
	check.Error(t, err, "")
	check.Equal(t, "of a severity", len(found) > 0, true)

	none, err := c.ListEvents(ctx, "event_vm=prod-md-0-abcde", 100)
	check.Error(t, err, "")
	check.Equal(t, "of a VM that never was", len(none), 0)
}

// TestOnlyAnErrorAtTheLastEndIsAFailure has events of a VM that ended, newest first, as an engine lists them.
func TestOnlyAnErrorAtTheLastEndIsAFailure(t *testing.T) {
	const anyID = "00000000-0000-4000-8000-00000000000"
	const end, at = "2026-11-28T12:00:00.000Z", "2026-11-28T12:00:01.000Z"
	event := func(code int, vm, at string) string {
		return fmt.Sprintf(`<event><index>1</index><code>%d</code><time>%s</time><vm id="%s%s"/></event>`,
			code, at, anyID, vm)
	}

	for name, c := range map[string]struct {
		end, events string
		want        bool
	}{
		"an error at the end":              {end, event(119, "1", at), true},
		"an error a moment before the end": {end, event(119, "1", "2026-11-28T11:59:58.000Z"), true},
		"another time zone":                {end, event(119, "1", "2026-11-28T13:00:01.000+01:00"), true},
		"an error of an earlier run":       {end, event(119, "1", "2026-11-28T11:00:00.000Z"), false},
		"an error before a start":          {end, event(32, "1", at) + event(119, "1", at), false},
		"an error of another VM":           {end, event(119, "2", at), false},
		"a start of another VM":            {end, event(32, "2", at) + event(119, "1", at), true},
		"the end of a guest":               {end, event(61, "1", at), false},
		"an event that has no time":        {end, event(119, "1", ""), false},
		"a VM without an end":              {"", event(119, "1", at), false},
		"a newer event of another kind":    {end, event(33, "1", at) + event(119, "1", at), true},
		"an engine that has lost events":   {end, "", false},
	} {
		got, err := withEvents(t, c.events).HasEndedByError(t.Context(), &engine.VM{ID: anyID + "1", StopTime: c.end})
		check.Error(t, err, "")
		check.Equal(t, name, got, c.want)
	}
}

// withEvents returns a client of an engine that has only events.
func withEvents(t *testing.T, events string) *engine.Client {
	t.Helper()

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := strings.TrimPrefix(r.URL.Path, "/ovirt-engine"); path {
		case "/sso/oauth/token":
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, `{"access_token":"token"}`)
		case "/api/events":
			_, _ = fmt.Fprintf(w, "<events>%s</events>", events)
		default:
			_, _ = fmt.Fprint(w, `<api><product_info><instance_id>one</instance_id></product_info></api>`)
		}
	}))
	t.Cleanup(server.Close)

	c, err := engine.New(engine.Config{
		URL: server.URL + "/ovirt-engine", Username: "u@internal", Password: "p", Insecure: true,
	})
	check.Error(t, err, "")

	return c
}
