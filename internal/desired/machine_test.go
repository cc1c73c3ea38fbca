package desired

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

func TestParseMemory(t *testing.T) {
	const gib = 1 << 30
	for text, want := range map[string]int64{
		"7GB":        7 * gib,
		"16GiB":      16 * gib,
		"16G":        16 * gib,
		"1.5gb":      3 * gib / 2,
		"7680MB":     7680 << 20,
		"8 GB":       8 * gib,
		"1TB":        1024 * gib,
		"4294967296": 4 * gib,
	} {
		if got, err := ParseMemory(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", text, got, err, want)
		}
	}

	for _, text := range []string{"7 GBB", "", "GB", "-1GB", "1PB", "100MB", "13TB", "1.0001GB", "7,5GB", "0x10GB"} {
		if got, err := ParseMemory(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

func TestOwnerMarkersAreReadBack(t *testing.T) {
	owner := ownermark.Owner{Namespace: "default", Name: "demo-x7k2p", UID: "5f0c"}
	if got, ok := ownermark.OwnerOf(owner.Comment()); !ok || got != owner {
		t.Errorf("%q was read as %+v, %t", owner.Comment(), got, ok)
	}

	for _, comment := range []string{"", "my VM", "capolvm owner=default uid=1", "see capolvm owner=a/b uid=c please"} {
		if got, ok := ownermark.OwnerOf(comment); ok {
			t.Errorf("%q was taken for a marker of %+v", comment, got)
		}
	}
}

func TestEngineConfigNamesTheFieldAndTheRemedy(t *testing.T) {
	server := infrav1.OvirtAPIServer{
		ServerURL:         "https://engine.example.com/ovirt-engine",
		CredentialsSecret: infrav1.NamespacedName{Name: "creds"},
		CAConfigMap:       &infrav1.NamespacedName{Name: "ca"},
	}
	secret := func(data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "here", Name: "creds"}, Data: data}
	}
	bound := func(urls string) *corev1.Secret {
		return secret(map[string][]byte{
			"username":          []byte("admin@internal"),
			"password":          []byte("secret\n"),
			"allowedServerURLs": []byte(urls),
		})
	}
	good := bound(server.ServerURL)
	elsewhere := func(allowed string) *corev1.Secret {
		out := good.DeepCopy()
		out.Namespace, out.Annotations = "vault", map[string]string{infrav1.AllowedNamespacesAnnotation: allowed}
		return out
	}
	sim, err := ovirtsim.New(ovirtsim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	ca := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "ca"},
		Data:       map[string]string{"ca.crt": string(sim.CA())},
	}
	with := func(change func(*infrav1.OvirtAPIServer)) infrav1.OvirtAPIServer {
		changed := *server.DeepCopy()
		change(&changed)
		return changed
	}
	shared := ca.DeepCopy()
	shared.Namespace, shared.Annotations = "vault", map[string]string{infrav1.AllowedNamespacesAnnotation: "*"}
	theirs := with(func(s *infrav1.OvirtAPIServer) { s.CAConfigMap.Namespace = "vault" })

	tests := map[string]struct {
		server infrav1.OvirtAPIServer
		secret *corev1.Secret
		ca     *corev1.ConfigMap
		reason string
		// unbound is the manager's flag for Secrets that name no engine.
		unbound bool
	}{
		"all there": {server, good, ca, "", false},
		"the other keys": {server, secret(map[string][]byte{
			"ovirt_username": []byte("a@b"),
			"ovirt_password": []byte("c"),
			"ovirt_url":      []byte("https://engine.example.com/ovirt-engine/api"),
		}), ca, "", false},
		"no CA is asked for": {with(func(s *infrav1.OvirtAPIServer) {
			s.CAConfigMap = nil
		}), good, nil, "", false},
		"no verification needs no CA": {with(func(s *infrav1.OvirtAPIServer) {
			s.InsecureSkipTLSVerify = true
		}), good, nil, "", false},
		"a ConfigMap of others": {server, good, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "ca"},
			Data:       ca.Data,
		}, infrav1.CAConfigMapInvalidReason, false},
		"a Secret of others": {server, elsewhere(""), ca, infrav1.CredentialsNotAllowedReason, false},
		"a Secret that others may use": {
			server,
			elsewhere("there, elsewhere"),
			ca,
			infrav1.CredentialsNotAllowedReason,
			false,
		},
		"a Secret that we may use":   {theirs, elsewhere("there, here"), shared, "", false},
		"a Secret for everybody":     {theirs, elsewhere("*"), shared, "", false},
		"a Secret of others, our CA": {server, elsewhere("*"), ca, infrav1.CAConfigMapInvalidReason, false},
		"a Secret of others, no CA": {with(func(s *infrav1.OvirtAPIServer) {
			s.CAConfigMap = nil
		}), elsewhere("*"), nil, "", false},
		"a Secret of others, unverified": {with(func(s *infrav1.OvirtAPIServer) {
			s.InsecureSkipTLSVerify = true
		}), elsewhere("*"), nil, infrav1.CredentialsNotAllowedReason, false},
		"another engine": {with(func(s *infrav1.OvirtAPIServer) {
			s.ServerURL = "https://attacker.example.com/ovirt-engine"
		}), good, ca, infrav1.EngineNotAllowedReason, false},
		"another path of it": {with(func(s *infrav1.OvirtAPIServer) {
			s.ServerURL = "https://engine.example.com/evil"
		}), good, ca, infrav1.EngineNotAllowedReason, false},
		"a port of it": {with(func(s *infrav1.OvirtAPIServer) {
			s.ServerURL = "https://engine.example.com:8443/ovirt-engine"
		}), good, ca, infrav1.EngineNotAllowedReason, false},
		"a Secret that names no engine": {server, bound(""), ca, infrav1.EngineNotAllowedReason, false},
		"one of several": {
			server,
			bound("https://other.example.com/ovirt-engine, https://ENGINE.example.com/ovirt-engine/api/"),
			ca,
			"",
			false,
		},
		"no engine, with the flag": {server, bound(" \n"), ca, "", true},
		"another engine, with the flag": {
			server,
			bound("https://other.example.com/ovirt-engine"),
			ca,
			infrav1.EngineNotAllowedReason,
			true,
		},
		"no Secret": {server, nil, ca, infrav1.CredentialsNotFoundReason, false},
		"no password": {server, secret(map[string][]byte{
			"username":          []byte("a@b"),
			"allowedServerURLs": []byte(server.ServerURL),
		}), ca, infrav1.CredentialsNotFoundReason, false},
		"no ConfigMap": {server, good, nil, infrav1.CAConfigMapInvalidReason, false},
		"a ConfigMap without a CA": {server, good, &corev1.ConfigMap{
			Data: map[string]string{"ca.crt": "no certificate"},
		}, infrav1.CAConfigMapInvalidReason, false},
		"a URL that is not encrypted": {with(func(s *infrav1.OvirtAPIServer) {
			s.ServerURL = "http://engine"
		}), good, ca, infrav1.EngineUnreachableReason, false},
		"a URL with the path of the API": {with(func(s *infrav1.OvirtAPIServer) {
			s.ServerURL += "/api/"
		}), good, ca, "", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config, err := connection.Config(&infrav1.OLVMCluster{
				ObjectMeta: metav1.ObjectMeta{Namespace: "here"},
				Spec:       infrav1.OLVMClusterSpec{OLVMOvirtAPIServer: test.server},
			}, connection.Objects{Secret: test.secret, CA: test.ca, Unbound: test.unbound})

			var field *blocker.Error
			switch {
			case test.reason == "" && err != nil:
				t.Fatal(err)
			case test.reason != "" && (!errors.As(err, &field) || field.Reason != test.reason || field.Field == ""):
				t.Fatalf("got %v, want reason %s", err, test.reason)
			case test.reason == "" && config.Password == "secret\n":
				t.Fatal("the line break at the end of the password was kept")
			}
		})
	}
}

func TestWhatALostRunMadeIsFound(t *testing.T) {
	sim, err := ovirtsim.New(ovirtsim.Options{Timings: ovirtsim.Timings{Clone: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	client, err := engine.New(engine.Config{
		URL:      sim.URL(),
		Username: sim.Username(),
		Password: sim.Password(),
		CA:       sim.CA(),
	})
	if err != nil {
		t.Fatal(err)
	}

	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	dc, err := client.DataCenter(ctx, "Default")
	must(err)
	cluster, err := client.Cluster(ctx, dc, "Default")
	must(err)
	template, err := client.Template(ctx, dc, "ol9-k8s")
	must(err)
	domain, err := client.StorageDomain(ctx, dc, "olvm-data")
	must(err)
	network, err := client.Network(ctx, dc, "kvm-vlan")
	must(err)
	profile, err := client.VNICProfile(ctx, network, "kvm-vlan")
	must(err)
	comment := ownermark.Owner{Namespace: "a", Name: "b", UID: "c"}.Comment()
	vm, err := client.CreateVM(ctx, &engine.VM{
		Name:     "one",
		Comment:  &comment,
		Cluster:  engine.NewRef(cluster.ID),
		Template: engine.NewRef(template.ID),
	}, nil)
	must(err)
	disk := func(alias, owner string) string {
		made, err := client.CreateDiskOnce(ctx, owner, &engine.Disk{
			Alias:           &alias,
			Format:          engine.FormatCow,
			ProvisionedSize: 1 << 30,
			StorageDomains:  &engine.StorageDomains{Items: []engine.Ref{{ID: domain.ID}}},
		}, nil, func(string) {})
		must(err)
		must(client.WaitDisk(ctx, made.ID, func(string) {}))

		return made.ID.String()
	}
	attached, loose := disk("one_attached", ""), disk("one_loose", comment)
	disk("one_kept", "")
	disk("one_kept", ownermark.Owner{Namespace: "a", Name: "b", UID: "of an earlier machine"}.Comment())
	no := false
	must(engine.Wait(ctx, "the disk to be attached", func(ctx context.Context) (bool, string, error) {
		_, err := client.AttachDisk(ctx, vm.ID, &engine.DiskAttachment{
			Interface: "virtio_scsi",
			Bootable:  &no,
			Disk:      &engine.Disk{ID: engine.ID(attached)},
		})

		return err == nil, "", err
	}, func(string) {}))
	nic, err := client.CreateNIC(ctx, vm.ID, &engine.NIC{Name: "nic2", VNICProfile: engine.NewRef(profile.ID)})
	must(err)
	_, err = client.CreateNIC(ctx, vm.ID, &engine.NIC{Name: "by-hand", VNICProfile: engine.NewRef(profile.ID)})
	must(err)
	found, err := FindExisting(ctx, client, "Default", "one", infrav1.OLVMMachineSpec{
		AdditionalNetworks: []infrav1.AdditionalNetwork{{}},
		VirtualMachine: infrav1.VirtualMachine{
			DataDisks: []infrav1.DataDisk{{Name: "attached"}, {Name: "loose"}, {Name: "kept"}, {Name: "missing"}},
		},
	})
	must(err)
	want := map[render.Address]string{
		render.VMAddress:                             vm.ID.String(),
		render.NICAddress(1):                         vm.ID.String() + "/" + nic.ID.String(),
		render.DataDiskAddress("attached"):           attached,
		render.DataDiskAttachmentAddress("attached"): vm.ID.String() + "/" + attached,
		render.DataDiskAddress("loose"):              loose,
	}
	if !maps.Equal(found.imports, want) || found.Owner.Name != "b" {
		t.Errorf("found %+v, want %+v", found.imports, want)
	}
}
