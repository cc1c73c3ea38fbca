package engine_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// listed joins names in order.
func listed[T any](t *testing.T, items []T, err error, name func(T) string) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for _, item := range items {
		names = append(names, name(item))
	}

	slices.Sort(names)

	return strings.Join(names, " ")
}

func TestListsOfWhatCanBeChosen(t *testing.T) {
	inventory := ovirtsim.DefaultInventory()
	dc := &inventory.DataCenters[0]
	dc.Clusters = append(dc.Clusters, ovirtsim.Cluster{Name: "Edge", Hosts: []ovirtsim.Host{{Name: "edge-1"}}})
	dc.Networks[1].VNICProfiles = []string{"fast", "slow"}
	dc.Templates = append(dc.Templates, ovirtsim.Template{
		Name:    "edge",
		Cluster: "Edge",
	}, ovirtsim.Template{Name: "anywhere"})
	inventory.DataCenters = append(inventory.DataCenters, ovirtsim.DataCenter{
		Name:           "Lab",
		Clusters:       []ovirtsim.Cluster{{Name: "Lab"}},
		Networks:       []ovirtsim.Network{{Name: "lab"}},
		StorageDomains: []ovirtsim.StorageDomain{{Name: "lab-data"}},
	})
	sim, config := start(t, ovirtsim.Options{Inventory: inventory})
	c, ctx := client(t, config), t.Context()

	centers, err := c.ListDataCenters(ctx)
	if got := listed(t, centers, err, func(d engine.DataCenter) string { return d.Name }); got != "Default Lab" {
		t.Fatalf("data centers %s", got)
	}

	first := &centers[slices.IndexFunc(centers, func(d engine.DataCenter) bool { return d.Name == "Default" })]
	clusters, err := c.ListClusters(ctx, first)
	if got := listed(t, clusters, err, func(c engine.Cluster) string { return c.Name }); got != "Default Edge" {
		t.Fatalf("clusters %s", got)
	}

	cluster := &clusters[slices.IndexFunc(clusters, func(c engine.Cluster) bool { return c.Name == "Default" })]
	templates, err := c.ListClusterTemplates(ctx, cluster)
	got := listed(t, templates, err, func(t engine.Template) string { return t.Name })
	if got != "anywhere ock-1.36 ol9-k8s" {
		t.Errorf("templates %s", got)
	}

	networks, err := c.ListClusterNetworks(ctx, cluster)
	if got := listed(t, networks, err, func(n engine.Network) string { return n.Name }); got != "kvm-vlan ovirtmgmt" {
		t.Fatalf("networks %s", got)
	}

	profiles, err := c.ListNetworkProfiles(ctx)
	vlan := networks[slices.IndexFunc(networks, func(n engine.Network) bool { return n.Name == "kvm-vlan" })]
	got = listed(t, profiles[vlan.ID], err, func(p engine.VNICProfile) string { return p.Name })
	if got != "fast slow" {
		t.Errorf("profiles %s", got)
	}

	domains, err := c.ListStorageDomains(ctx, first)
	got = listed(t, domains, err, func(d engine.StorageDomain) string { return d.Name })
	if got != "olvm-data olvm-data-2" {
		t.Errorf("storage domains %s", got)
	}

	err = sim.Inject(ovirtsim.Fault{
		Method: "GET",
		Path:   "/(networks|templates|storagedomains|vnicprofiles|datacenters)$",
		Status: 500,
	})
	if err != nil {
		t.Fatal(err)
	}

	c = client(t, config)

	for what, list := range map[string]func() error{
		"data centers":    func() error { _, err := c.ListDataCenters(ctx); return err },
		"templates":       func() error { _, err := c.ListClusterTemplates(ctx, cluster); return err },
		"networks":        func() error { _, err := c.ListClusterNetworks(ctx, cluster); return err },
		"profiles":        func() error { _, err := c.ListNetworkProfiles(ctx); return err },
		"storage domains": func() error { _, err := c.ListStorageDomains(ctx, first); return err },
	} {
		if err := list(); err == nil || !strings.Contains(err.Error(), "failed to list") {
			t.Errorf("%s of an engine that fails: %v", what, err)
		}
	}
}

// TestNetworksThatAreNotForVMs adds a network only for migration, because the simulator has none.
func TestNetworksThatAreNotForVMs(t *testing.T) {
	_, config := start(t, ovirtsim.Options{Gate: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/clusters/"+uuidOf(1)+"/networks") {
				next.ServeHTTP(w, r)
				return
			}

			w.Header().Set("Content-Type", "application/xml")
			_, _ = w.Write(
				[]byte(
					`<networks><network id="` + uuidOf(
						2,
					) + `"><name>move</name><usages><usage>migration</usage></usages></network>` +
						`<network id="` + uuidOf(
						3,
					) + `"><name>all</name><usages><usage>migration</usage><usage>vm</usage></usages></network></networks>`,
				),
			)
		})
	}})
	networks, err := client(t, config).ListClusterNetworks(t.Context(), &engine.Cluster{ID: engine.ID(uuidOf(1))})
	if got := listed(t, networks, err, func(n engine.Network) string { return n.Name }); got != "all" {
		t.Errorf("networks %s", got)
	}
}

func TestTheAuthorityOfAnEngine(t *testing.T) {
	sim, config := start(t, ovirtsim.Options{})
	ca, trusted, err := engine.FetchAuthority(t.Context(), config.URL)
	if err != nil || trusted || string(pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: ca.Raw,
	})) != string(sim.CA()) {
		t.Fatalf("%v, %t, %v", ca, trusted, err)
	}

	if err := engine.VerifyAuthority(t.Context(), config.URL, ca); err != nil {
		t.Errorf("its own: %v", err)
	}

	_, other := start(t, ovirtsim.Options{})
	var untrusted *engine.TLSError
	if err := engine.VerifyAuthority(t.Context(), other.URL, ca); !errors.As(err, &untrusted) {
		t.Errorf("another engine: %v", err)
	}

	answers := map[string]struct {
		status int
		body   string
	}{
		"/page":        {200, "<html>"},
		"/none":        {404, string(sim.CA())},
		"/key":         {200, "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"},
		"/damaged":     {200, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
		"/redirection": {302, ""},
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := answers[strings.TrimSuffix(r.URL.Path, "/services/pki-resource")]
		if answer.status == http.StatusFound {
			w.Header().Set("Location", config.URL+"/services/pki-resource?resource=ca-certificate")
		}

		w.WriteHeader(answer.status)
		_, _ = w.Write([]byte(answer.body))
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	var name x509.HostnameError
	err = engine.VerifyAuthority(
		t.Context(), strings.Replace(server.URL, "127.0.0.1", "localhost", 1), server.Certificate(),
	)
	if !errors.As(err, &untrusted) || !errors.As(err, &name) {
		t.Errorf("a certificate for another name: %v", err)
	}

	for path := range answers {
		var unreachable *engine.UnreachableError
		ca, trusted, err := engine.FetchAuthority(t.Context(), server.URL+path)
		check.Equal(t, path+": errors.As(err, &unreachable)", errors.As(err, &unreachable), true)
		if ca != nil {
			t.Errorf("ca is there: %v", ca)
		}

		check.Equal(t, path+": trusted", trusted, false)
	}
}
