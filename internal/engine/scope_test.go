package engine_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// twoDataCenters returns an inventory with two data centers. Both have objects with the same names, and each has an
// object of each kind that the other lacks.
func twoDataCenters() ovirtsim.Inventory {
	center := func(name string) ovirtsim.DataCenter {
		return ovirtsim.DataCenter{
			Name: name,
			Clusters: []ovirtsim.Cluster{
				{Name: "same", Hosts: []ovirtsim.Host{{Name: "host-" + name}}}, {Name: "only-" + name},
			},
			Networks: []ovirtsim.Network{
				{Name: "same", VNICProfiles: []string{"gold", "only-" + name}}, {Name: "only-" + name},
			},
			StorageDomains: []ovirtsim.StorageDomain{{Name: "same"}, {Name: "only-" + name}},
			Templates: []ovirtsim.Template{
				{Name: "same", Cluster: "same", Disks: []ovirtsim.TemplateDisk{{Size: 1 << 30}}},
				{Name: "only-" + name, Cluster: "same"},
			},
			VMs: []ovirtsim.VM{
				{Name: "same", Cluster: "same", Template: "Blank"},
				{Name: "only-" + name, Cluster: "same", Template: "Blank"},
			},
		}
	}

	return ovirtsim.Inventory{DataCenters: []ovirtsim.DataCenter{center("Paris"), center("Berlin")}}
}

// lookups returns all look-ups by name. Each returns the number of found objects, and the data center of the first.
func lookups(t *testing.T, c *engine.Client) map[string]func(*engine.DataCenter, string) (int, engine.ID, error) {
	t.Helper()

	ctx := t.Context()
	ofCluster := func(id engine.ID) engine.ID {
		dc, err := c.FindDataCenterOf(ctx, id)
		check.Error(t, err, "")

		return dc.ID
	}

	return map[string]func(*engine.DataCenter, string) (int, engine.ID, error){
		"cluster": func(dc *engine.DataCenter, name string) (int, engine.ID, error) {
			found, err := c.FindCluster(ctx, dc, name)
			if err != nil {
				return 0, "", err
			}

			return 1, found.DataCenter.ID, nil
		},
		"network": func(dc *engine.DataCenter, name string) (int, engine.ID, error) {
			found, err := c.FindNetwork(ctx, dc, name)
			if err != nil {
				return 0, "", err
			}

			return 1, found.DataCenter.ID, nil
		},
		"vNIC profile": func(dc *engine.DataCenter, name string) (int, engine.ID, error) {
			if name == "same" {
				name = "gold"
			}

			found, networks, err := c.ListVNICProfiles(ctx, dc, name)
			if err != nil || len(found) == 0 {
				return 0, "", err
			}

			return len(found), networks[0].DataCenter.ID, nil
		},
		"storage domain": func(dc *engine.DataCenter, name string) (int, engine.ID, error) {
			found, err := c.FindStorageDomain(ctx, dc, name)
			if err != nil {
				return 0, "", err
			}

			return 1, found.DataCenters.Items[0].ID, nil
		},
		"template": func(dc *engine.DataCenter, name string) (int, engine.ID, error) {
			found, err := c.FindTemplate(ctx, dc, name)
			if err != nil {
				return 0, "", err
			}

			return 1, ofCluster(found.Cluster.ID), nil
		},
		"templates": func(dc *engine.DataCenter, name string) (int, engine.ID, error) {
			found, err := c.FindTemplates(ctx, dc, name)
			if err != nil || len(found) == 0 {
				return 0, "", err
			}

			return len(found), ofCluster(found[0].Cluster.ID), nil
		},
		"VM": func(dc *engine.DataCenter, name string) (int, engine.ID, error) {
			found, err := c.FindVMs(ctx, dc, name)
			if err != nil || len(found) == 0 {
				return 0, "", err
			}

			return len(found), ofCluster(found[0].Cluster.ID), nil
		},
		"disk": func(dc *engine.DataCenter, name string) (int, engine.ID, error) {
			found, err := c.FindDisksNotFromTemplates(ctx, dc, name)
			if err != nil || len(found) == 0 {
				return 0, "", err
			}

			domains, err := c.ListStorageDomains(ctx, dc)
			for _, domain := range domains {
				if domain.ID == found[0].StorageDomainIDs()[0] {
					return len(found), dc.ID, err
				}
			}

			return len(found), "", err
		},
	}
}

func TestNamesAreLookedUpInTheirDataCenter(t *testing.T) {
	_, config := start(t, ovirtsim.Options{Inventory: twoDataCenters()})
	c, ctx := client(t, config), t.Context()

	for _, center := range []string{"Paris", "Berlin"} {
		dc, err := c.FindDataCenter(ctx, center)
		check.Error(t, err, "")

		domain, err := c.FindStorageDomain(ctx, dc, "same")
		check.Error(t, err, "")

		for _, alias := range []string{"same", "only-" + center} {
			_, err := c.CreateDisk(ctx, &engine.Disk{
				Alias: &alias, Format: engine.FormatCow, ProvisionedSize: 1 << 30,
				StorageDomains: &engine.StorageDomains{Items: []engine.Ref{{ID: domain.ID}}},
			})
			check.Error(t, err, "")
		}
	}

	for _, test := range []struct{ center, other string }{{"Paris", "Berlin"}, {"Berlin", "Paris"}} {
		dc, err := c.FindDataCenter(ctx, test.center)
		check.Error(t, err, "")

		for kind, find := range lookups(t, c) {
			what := kind + " of " + test.center
			count, in, err := find(dc, "same")
			check.Error(t, err, "")
			check.Equal(t, what+": count", count, 1)
			check.Equal(t, what+": data center", in, dc.ID)

			// A look-up does not find objects of the other data center, and no error reveals them.
			count, _, err = find(dc, "only-"+test.other)
			check.Equal(t, what+": of the other's", count, 0)

			var unknown *engine.NameError
			if errors.As(err, &unknown) {
				check.Equal(t, what+": blame", unknown.Scope, `data center "`+test.center+`"`)
				check.Equal(t, what+": tells the other's", slices.Contains(unknown.Known, "only-"+test.other), false)
				check.Equal(t, what+": tells its own", slices.Contains(unknown.Known, "only-"+test.center), true)
			}
		}

		hosts, err := c.ListHostsIn(ctx, dc, nil, time.Minute)
		check.Error(t, err, "")
		check.Length(t, "hosts", hosts, 1)
		check.Equal(t, "host", hosts[0].Name, "host-"+test.center)
	}
}

// TestALookUpFailsWithItsEngine has an engine refuse the lists needed to determine the data center.
func TestALookUpFailsWithItsEngine(t *testing.T) {
	sim, config := start(t, ovirtsim.Options{Inventory: twoDataCenters()})
	dc, err := client(t, config).FindDataCenter(t.Context(), "Paris")
	check.Error(t, err, "")
	check.Error(t, sim.Inject(ovirtsim.Fault{
		Method: "GET", Path: "/(clusters|networks|storagedomains)$", Status: 500, Reason: "Operation Failed",
	}), "")

	for kind, find := range lookups(t, client(t, config)) {
		if kind == "disk" { // a look-up of no disk reads no storage domain
			continue
		}

		_, _, err := find(dc, "same")

		var unknown *engine.NameError
		check.Equal(t, kind+": fails", err != nil, true)
		check.Equal(t, kind+": blames a name", errors.As(err, &unknown), false)
	}
}

// TestAProfileWhoseNetworkIsNotListedIsLeftOut has an engine list vNIC profiles without their networks.
func TestAProfileWhoseNetworkIsNotListedIsLeftOut(t *testing.T) {
	c, _ := proxied(t, func(answer *http.Response) error {
		if strings.HasSuffix(answer.Request.URL.Path, "/networks") {
			const none = "<networks/>"

			answer.Body, answer.ContentLength = io.NopCloser(strings.NewReader(none)), int64(len(none))
			answer.Header.Set("Content-Length", strconv.Itoa(len(none)))
		}

		return nil
	})

	for _, dc := range []*engine.DataCenter{nil, {ID: "5ea7cafe-0000-4000-8000-000000000001"}} {
		profiles, networks, err := c.ListVNICProfiles(t.Context(), dc, "ovirtmgmt")
		check.Error(t, err, "")
		check.Length(t, "profiles", profiles, 0)
		check.Length(t, "networks", networks, 0)
	}
}
