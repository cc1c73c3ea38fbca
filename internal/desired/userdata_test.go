package desired

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

const (
	cloudConfig = "#cloud-config\nruncmd: [kubeadm join]\n"
	ignition3   = `{"ignition":{"version":"3.4.0"}}`
)

// templateOf returns a template with this operating system.
func templateOf(system string) *engine.Template {
	out := &engine.Template{}
	out.OS.Type = system

	return out
}

// inputOf returns a machine with bootstrap data in this format, and one interface.
func inputOf(data string, format bootstrap.Format) Input {
	return Input{
		VMName:    "demo-1",
		NICs:      []addressing.NIC{{OLVMNetwork: infrav1.OLVMNetwork{VNICName: "nic1"}, Field: "spec.olvmNetwork."}},
		Bootstrap: &Bootstrap{Source: "Secret boot", Data: []byte(data), Format: format},
	}
}

func addresses(texts ...string) []addressrange.Address {
	var out []addressrange.Address
	for _, text := range texts {
		out = append(out, addressrange.Address{Prefix: netip.MustParsePrefix(text)})
	}

	return out
}

func TestUserDataFitsWhatReadsIt(t *testing.T) {
	const field = "spec.virtualMachine.osType"

	tests := map[string]struct {
		data     string
		format   bootstrap.Format
		template string
		osType   string
		// problem is part of the error, or "" without an error.
		problem string
	}{
		"a cloud-config for cloud-init":      {cloudConfig, bootstrap.CloudConfig, "ol_9x64", "", ""},
		"a format that is not named":         {cloudConfig, "", "ol_9x64", "", ""},
		"Ignition for Ignition":              {ignition3, bootstrap.Ignition, IgnitionOS, "", ""},
		"Ignition, because the machine says": {ignition3, bootstrap.Ignition, "ol_9x64", IgnitionOS, ""},
		"Ignition for cloud-init": {
			ignition3,
			bootstrap.Ignition,
			"ol_9x64",
			"",
			"Secret boot is for Ignition",
		},
		"a cloud-config for Ignition": {
			cloudConfig,
			bootstrap.CloudConfig,
			IgnitionOS,
			"",
			"is a cloud-config",
		},
		"a format that is not named, Ignition": {cloudConfig, "", IgnitionOS, "", "Secret boot is a cloud-config"},
		"cloud-init, because the machine says": {
			ignition3,
			bootstrap.Ignition,
			IgnitionOS,
			"ol_9x64",
			"is for Ignition",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := inputOf(test.data, test.format)
			in.Spec.VirtualMachine.OSType = test.osType
			got, err := mergeUserData(in, templateOf(test.template), render.Machine{})
			if test.problem != "" {
				checkBlocked(t, err, infrav1.BootstrapDataInvalidReason, field, test.problem)
				return
			}

			check.Error(t, err, "")
			check.Equal(t, "it is the data", strings.HasPrefix(got, test.data[:10]), true)
		})
	}
}

// TestAFormatIsCheckedBeforeThereIsData has a machine that has no bootstrap data yet.
func TestAFormatIsCheckedBeforeThereIsData(t *testing.T) {
	tests := map[string]struct {
		announced bootstrap.Format
		template  string
		problem   string
	}{
		"not known, for cloud-init": {"", "ol_9x64", ""},
		"not known, for Ignition":   {"", IgnitionOS, ""},
		"as the template reads it":  {bootstrap.Ignition, IgnitionOS, ""},
		"Ignition for cloud-init":   {bootstrap.Ignition, "ol_9x64", "the user data from KubeadmConfig a is for Ignition"},
		"a cloud-config for Ignition": {
			bootstrap.CloudConfig,
			IgnitionOS,
			"the user data from KubeadmConfig a is a cloud-config",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := Input{Announced: test.announced, AnnouncedBy: "KubeadmConfig a"}
			got, err := mergeUserData(in, templateOf(test.template), render.Machine{})
			check.Error(t, err, test.problem)
			check.Equal(t, "user data", got, "")
		})
	}
}

// TestUserDataIsNoLargerThanWhatCanBeGiven determines the largest data by their exact size after the merge.
func TestUserDataIsNoLargerThanWhatCanBeGiven(t *testing.T) {
	tests := map[string]struct {
		delivery string
		most     int
	}{
		"in the state of Terraform": {"", maxUserData},
		"from the manager":          {byPointer, bootstrap.MaxDeliveredData},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			given := 0
			build := func(padding int) (string, error) {
				in := inputOf(fmt.Sprintf(`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/a",`+
					`"contents":{"source":"data:,%s"}}]}}`, strings.Repeat("a", padding)), bootstrap.Ignition)
				in.Spec.UserData = &infrav1.UserData{BootstrapDelivery: test.delivery}
				in.Bootstrap.Offer = func(data []byte) (bootstrap.Pointer, error) {
					given = len(data)
					return bootstrap.Pointer{URL: "https://m/1", Token: "t", CA: []byte("c")}, nil
				}

				out, err := mergeUserData(in, templateOf(IgnitionOS), render.Machine{})
				if test.delivery == "" {
					given = len(out)
				}

				return out, err
			}

			_, err := build(1)
			check.Error(t, err, "")

			padding := test.most - given + 1
			_, err = build(padding)
			check.Error(t, err, "")
			check.Equal(t, "size", given, test.most)

			_, err = build(padding + 1)
			checkBlocked(t, err, infrav1.BootstrapDataInvalidReason, "Secret boot",
				fmt.Sprintf("has %d bytes, but a VM can get at most %d", test.most+1, test.most))
		})
	}
}

func TestUserDataByPointer(t *testing.T) {
	offer := func([]byte) (bootstrap.Pointer, error) {
		return bootstrap.Pointer{URL: "https://manager/1", Token: "t", CA: []byte("c")}, nil
	}
	refuse := func([]byte) (bootstrap.Pointer, error) { return bootstrap.Pointer{}, errors.New("no room") }

	tests := map[string]struct {
		offer            func([]byte) (bootstrap.Pointer, error)
		system           string
		machine, cluster string
		pointer          bool
		problem          string
	}{
		"the machine asks for it":              {offer, IgnitionOS, byPointer, "", true, ""},
		"the cluster asks for it":              {offer, IgnitionOS, "", byPointer, true, ""},
		"the machine asks for the data itself": {offer, IgnitionOS, "Inline", byPointer, false, ""},
		"nobody asks for it":                   {offer, IgnitionOS, "", "", false, ""},
		"cloud-init cannot follow it": {
			offer,
			"ol_9x64",
			byPointer,
			"",
			false,
			"Pointer works only for images with Ignition",
		},
		"the manager has no server": {
			nil,
			IgnitionOS,
			byPointer,
			"",
			false,
			"needs the manager's flag --bootstrap-url",
		},
		"the manager cannot keep the data":       {refuse, IgnitionOS, byPointer, "", false, "no room"},
		"a manager without a server is no worry": {nil, IgnitionOS, "", "", false, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := inputOf(ignition3, bootstrap.Ignition)
			if test.system != IgnitionOS {
				in = inputOf(cloudConfig, bootstrap.CloudConfig)
			}

			in.Bootstrap.Offer = test.offer
			in.Spec.UserData = &infrav1.UserData{BootstrapDelivery: test.machine}
			in.Cluster.UserData = &infrav1.UserData{BootstrapDelivery: test.cluster}
			got, err := mergeUserData(in, templateOf(test.system), render.Machine{})
			check.Error(t, err, test.problem)
			check.Equal(t, "it is a pointer", strings.Contains(got, "https://manager/1"), test.pointer)
			check.Equal(t, "it is the data", strings.Contains(got, "/etc/hostname"), !test.pointer && err == nil)
		})
	}
}

func TestBootstrapDataThatCannotBeMergedNamesItsSource(t *testing.T) {
	_, err := mergeUserData(inputOf("#!/bin/sh\n", bootstrap.CloudConfig), templateOf("ol_9x64"), render.Machine{})
	checkBlocked(t, err, infrav1.BootstrapDataInvalidReason, "Secret boot", "cloud-config")
}

func TestUserDataOfAMachineAndItsCluster(t *testing.T) {
	ours, theirs := &infrav1.ProxySettings{HTTPProxy: "a"}, &infrav1.ProxySettings{HTTPProxy: "b"}
	first, second := infrav1.ExtraUserData{Inline: "of the cluster"}, infrav1.ExtraUserData{Inline: "of the machine"}
	cluster := infrav1.OLVMClusterSpec{UserData: &infrav1.UserData{
		Proxy: theirs, SSH: &infrav1.SSHAccess{User: "c"}, BootstrapDelivery: byPointer,
		Extra: []infrav1.ExtraUserData{first},
	}}
	machine := infrav1.OLVMMachineSpec{UserData: &infrav1.UserData{
		Proxy: ours, Extra: []infrav1.ExtraUserData{second},
	}}

	got := CollectUserData(machine, cluster)
	check.Equal(t, "the machine's proxy", got.Proxy, ours)
	check.Equal(t, "the cluster's SSH", got.SSH.User, "c")
	check.Equal(t, "the cluster's delivery", got.BootstrapDelivery, byPointer)
	check.Equal(t, "both configurations, the cluster's first", got.Extra, []infrav1.ExtraUserData{first, second})
	check.Equal(t, "neither", CollectUserData(infrav1.OLVMMachineSpec{}, infrav1.OLVMClusterSpec{}), infrav1.UserData{})
}

func TestTheAddressesOfAKubelet(t *testing.T) {
	tests := map[string]struct {
		addresses []addressrange.Address
		pods      []string
		want      string
	}{
		"IPv4 without networks of pods": {addresses("10.0.0.1/24", "fd00::1/64"), nil, "[10.0.0.1]"},
		"IPv6 without networks of pods": {addresses("fd00::1/64"), nil, "[]"},
		"IPv4": {
			addresses("fd00::1/64", "10.0.0.1/24"),
			[]string{"10.1.0.0/16"},
			"[10.0.0.1]",
		},
		"IPv6": {
			addresses("10.0.0.1/24", "fd00::1/64"),
			[]string{"fd01::/48"},
			"[fd00::1]",
		},
		"both, in the order of the pods": {
			addresses("10.0.0.1/24", "fd00::1/64"),
			[]string{"fd01::/48", "10.1.0.0/16"},
			"[fd00::1 10.0.0.1]",
		},
		"two networks of one family": {
			addresses("10.0.0.1/24"),
			[]string{"10.1.0.0/16", "10.2.0.0/16"},
			"[10.0.0.1]",
		},
		"a family that only the guest has": {addresses("10.0.0.1/24"), []string{"fd01::/48"}, "[]"},
		"a network that is none":           {addresses("10.0.0.1/24"), []string{"x", "10.1.0.0/16"}, "[10.0.0.1]"},
		"no address":                       {nil, []string{"10.1.0.0/16"}, "[]"},
	}
	for name, test := range tests {
		in := inputOf(cloudConfig, "")
		in.Bootstrap.Network.Pods.CIDRBlocks = test.pods
		in.Addresses = map[string][]addressrange.Address{"nic1": test.addresses, "nic2": addresses("10.9.0.9/24")}
		check.Equal(t, name, fmt.Sprint(collectNodeIPs(in)), test.want)
	}
}

func TestWhatIsAskedWithoutAProxy(t *testing.T) {
	always := []string{"localhost", "127.0.0.1", "::1", "169.254.169.254", ".svc"}
	in := inputOf(cloudConfig, "")
	check.Equal(
		t, "of a cluster of which nothing is known", collectNoProxyHosts(in, nil), append(always, ".cluster.local"),
	)

	in.Bootstrap.Network = clusterv1.ClusterNetwork{
		ServiceDomain: "k.example.com",
		Services:      clusterv1.NetworkRanges{CIDRBlocks: []string{"10.96.0.0/12"}},
		Pods:          clusterv1.NetworkRanges{CIDRBlocks: []string{"10.1.0.0/16", "10.96.0.0/12"}},
	}
	in.Cluster.ControlPlaneEndpoint.Host = "api.example.com"
	in.Addresses = map[string][]addressrange.Address{"nic1": addresses("10.0.0.7/24", "fd00::7/64")}
	check.Equal(
		t,
		"of a cluster",
		collectNoProxyHosts(in, []string{"registry", "localhost"}),
		append(always, ".k.example.com",
			"10.96.0.0/12", "10.1.0.0/16", "api.example.com", "10.0.0.0/24", "fd00::/64", "registry"),
	)
}

func TestWhatAGuestIsTold(t *testing.T) {
	in := inputOf(cloudConfig, "")
	in.Spec.UserData = &infrav1.UserData{
		SSH:   &infrav1.SSHAccess{User: "ops", AuthorizedKeys: []string{"key"}},
		Proxy: &infrav1.ProxySettings{HTTPProxy: "http://p", HTTPSProxy: "https://p", NoProxy: []string{"registry"}},
	}
	in.Bootstrap.Extra = []bootstrap.Extra{{Source: "s"}}
	in.Addresses = map[string][]addressrange.Address{"nic1": addresses("10.0.0.7/24")}
	machine := render.Machine{
		Guests:        []render.GuestNIC{{Name: "enp1s0"}},
		DNSServers:    []string{"10.0.0.3", "10.0.0.2", "10.0.0.3"},
		SearchDomains: []string{"example.com"},
	}

	got := buildGuest(in, machine)
	check.Equal(t, "host name", got.HostName, "demo-1")
	check.Equal(t, "interfaces", got.Interfaces, machine.Guests)
	check.Equal(t, "name servers, in their order", fmt.Sprint(got.DNSServers), "[10.0.0.3 10.0.0.2]")
	check.Equal(t, "domains", got.SearchDomains, machine.SearchDomains)
	check.Equal(t, "extra", got.Extra, in.Bootstrap.Extra)
	check.Equal(t, "addresses", fmt.Sprint(got.NodeIPs), "[10.0.0.7]")
	check.Equal(t, "user", *got.SSH, bootstrap.SSH{User: "ops", AuthorizedKeys: []string{"key"}})
	check.Equal(t, "proxy", got.Proxy.HTTP+" "+got.Proxy.HTTPS, "http://p https://p")
	check.Equal(t, "no proxy", got.Proxy.NoProxy[len(got.Proxy.NoProxy)-1], "registry")

	in.Spec.UserData = nil
	got = buildGuest(in, machine)
	check.Equal(t, "neither user nor proxy", got.SSH == nil && got.Proxy == nil, true)
}

// TestAPointerNamesNothingOfTheData has a pointer in place of data that contain a secret.
func TestAPointerNamesNothingOfTheData(t *testing.T) {
	in := inputOf(
		`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/a","contents":{"source":"data:,hush"}}]}}`,
		bootstrap.Ignition,
	)
	in.Spec.UserData = &infrav1.UserData{BootstrapDelivery: byPointer}
	in.Bootstrap.Offer = func(data []byte) (bootstrap.Pointer, error) {
		check.Contains(t, "what is kept", string(data), "hush")
		return bootstrap.Pointer{URL: "https://manager/1", Token: "t", CA: []byte("c")}, nil
	}

	got, err := mergeUserData(in, templateOf(IgnitionOS), render.Machine{})
	check.Error(t, err, "")
	check.Lacks(t, "user data", got, "hush")
	check.Equal(t, "it is JSON", json.Valid([]byte(got)), true)
}
