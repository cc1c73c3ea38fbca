package nodes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// recordedDrive returns the files of a recorded drive.
func recordedDrive(t *testing.T, name string) map[string]string {
	t.Helper()
	out := map[string]string{}

	for _, file := range []string{"meta_data.json", "network_data.json", "user_data"} {
		content, err := os.ReadFile(filepath.Join("testdata", name, file))
		check.Error(t, err, "")
		out["openstack/latest/"+file] = string(content)
	}

	return out
}

// TestTheDriveIsThatOfAnEngine compares the drive byte for byte with the drive that an engine 4.5.8 passed to libvirt
// for the same VM.
func TestTheDriveIsThatOfAnEngine(t *testing.T) {
	recorded := recordedDrive(t, "cloud-init")
	_, script, _ := strings.Cut(recorded["openstack/latest/user_data"], "  expire: false\n")
	check.Equal(t, "the files", driveFiles(api.GuestVM{
		DriveID:  "8df586f6-0732-4a2f-88fd-13ee06163618", // each start has a new one
		HostName: "md-kk6hw-jbdr9",
		UserData: script,
		NICs: []api.GuestNIC{{
			Interface: "enp1s0", BootProtocol: "static",
			Address: "127.20.40.102", Netmask: "255.255.255.0", Gateway: "127.20.40.1",
		}},
	}), recorded)
}

// TestTheDriveForIgnitionIsThatOfAnEngine compares a drive for Ignition whose script is complete.
func TestTheDriveForIgnitionIsThatOfAnEngine(t *testing.T) {
	recorded := recordedDrive(t, "ignition")
	check.Equal(t, "the files", driveFiles(api.GuestVM{
		DriveID:  "670a0f37-851c-48b4-ba83-1d610b641cf8",
		Ignition: true,
		UserData: recorded["openstack/latest/user_data"],
		NICs: []api.GuestNIC{{
			Interface: "enp1s0", BootProtocol: "static",
			Address: "127.20.40.100", Netmask: "255.255.255.0", Gateway: "127.20.40.1",
		}},
	}), recorded)
}

// TestTheHostNameOfIgnition verifies that a script without a host name gets one, as in the recording of an engine.
// According to the engine's sources, the engine drops a storage section without files.
func TestTheHostNameOfIgnition(t *testing.T) {
	const file = `{"filesystem":"root","path":"/etc/hostname","mode":420,"contents":{"source":"data:,rec-ign"}}`

	for name, test := range map[string]struct{ script, want string }{
		"as recorded": {
			`{"storage":{"files":[{"path":"/etc/rec","contents":{"source":"data:,one"}}]},"ignition":{"version":"3.4.0"}}`,
			`{"storage":{"files":[{"path":"/etc/rec","contents":{"source":"data:,one"}},` + file +
				`]},"ignition":{"version":"3.4.0"}}`,
		},
		"one that has it": {
			`{"storage": {"files": [{"path": "/etc/hostname"}]}}`,
			`{"storage":{"files":[{"path":"/etc/hostname"}]}}`,
		},
		"no storage":    {"", `{"storage":{"files":[` + file + `]}}`},
		"no files":      {`{"storage":{"disks":[{}]}}`, `{"storage":{"files":[` + file + `]}}`},
		"an empty list": {`{"storage":{"files":[]}}`, `{"storage":{"files":[` + file + `]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, "user data", ignitionOutput(test.script, "rec-ign"), test.want)
		})
	}
}

// TestNetworksOfADrive covers networks that no recording contains, according to the engine's sources.
func TestNetworksOfADrive(t *testing.T) {
	for name, test := range map[string]struct {
		vm   api.GuestVM
		want string
	}{
		"nothing": {},
		"DNS servers alone": {api.GuestVM{DNSServers: []string{"10.0.0.53"}}, `{
  "services" : [ {
    "address" : "10.0.0.53",
    "type" : "dns"
  } ]
}`},
		"both families, one by DHCP": {api.GuestVM{
			DNSServers:    []string{"10.0.0.53", "fd00::53"},
			SearchDomains: []string{"example.com"},
			NICs: []api.GuestNIC{{
				Interface: "eth0", BootProtocol: "dhcp",
				IPv6BootProtocol: "static", IPv6Address: "fd00::10", IPv6Prefix: "64", IPv6Gateway: "fd00::1",
			}},
		}, `{
  "links" : [ {
    "name" : "eth0",
    "id" : "eth0",
    "type" : "vif"
  } ],
  "services" : [ {
    "address" : "10.0.0.53",
    "type" : "dns"
  }, {
    "address" : "fd00::53",
    "type" : "dns"
  } ],
  "networks" : [ {
    "dns_search" : [ "example.com" ],
    "link" : "eth0",
    "id" : "eth0",
    "type" : "ipv4_dhcp",
    "dns_nameservers" : [ "10.0.0.53", "fd00::53" ]
  }, {
    "netmask" : "64",
    "dns_search" : [ "example.com" ],
    "link" : "eth0",
    "id" : "eth0",
    "ip_address" : "fd00::10",
    "type" : "ipv6",
    "gateway" : "fd00::1",
    "dns_nameservers" : [ "10.0.0.53", "fd00::53" ]
  } ]
}`},
		"a NIC that nothing configures": {api.GuestVM{NICs: []api.GuestNIC{{
			Interface: "eth0", BootProtocol: "none", IPv6BootProtocol: "none",
		}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			check.Equal(t, "network_data.json", driveFiles(test.vm)["openstack/latest/network_data.json"], test.want)
		})
	}
}

// TestARunWithoutADrive verifies that a run without a drive removes the drive of an earlier run.
func TestARunWithoutADrive(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "drive")
	path, err := WriteDrive(api.GuestVM{DriveID: "one"}, dir)
	check.Error(t, err, "")
	check.Equal(t, "the folder", path, dir)

	path, err = WriteDrive(api.GuestVM{}, dir)
	check.Error(t, err, "")
	check.Equal(t, "the folder of a run without one", path, "")

	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the drive is still there: %v", err)
	}
}
