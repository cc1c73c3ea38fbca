package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/doctor"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// doctorsFile is a cluster file. The first %s is the URL of the engine, and the second %s is its CA file.
const doctorsFile = `name: trip
virtualIp: 10.198.0.5
kubernetesVersion: 1.36.1
workerNodes: 2
providers:
  olvm:
    namespace: tour
    olvmDatacenterName: Default
    olvmOvirtAPIServer: {serverURL: %s, serverCAPath: %s}
    controlPlaneMachine:
      olvmOvirtClusterName: Default
      vmTemplateName: ock-1.36
      olvmNetwork: {networkName: kvm-vlan, vnicProfileName: kvm-vlan}
      virtualMachine:
        memory: 8GB
        network:
          dnsServers: 10.198.0.53
          gateway: 10.198.0.1
          ipv4: {subnet: 10.198.0.0/24, ipAddresses: 10.198.0.10-10.198.0.19}
    workerMachine:
      olvmOvirtClusterName: Default
      vmTemplateName: ock-1.36
      olvmNetwork: {networkName: kvm-vlan, vnicProfileName: kvm-vlan}
      virtualMachine:
        memory: 8GB
        network:
          dnsServers: 10.198.0.53
          gateway: 10.198.0.1
          ipv4: {subnet: 10.198.0.0/24, ipAddresses: 10.198.0.20-10.198.0.29}
`

// examined returns the findings of doctor by check, for a cluster on an engine with an inventory.
func examined(
	t *testing.T, user, password string, change func(*ovirtsim.Inventory),
) (code int, text string, byCheck map[string]doctor.Finding) {
	t.Helper()

	inventory := ovirtsim.DefaultInventory()
	change(&inventory)
	sim, err := ovirtsim.New(ovirtsim.Options{Inventory: inventory})
	check.Error(t, err, "")
	t.Cleanup(sim.Close)

	dir := t.TempDir()
	ca, file := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cluster.yaml")
	check.Error(t, os.WriteFile(ca, sim.CA(), 0o600), "")
	check.Error(t, os.WriteFile(file, fmt.Appendf(nil, doctorsFile, sim.URL(), ca), 0o600), "")

	if password == "" {
		password = sim.Password()
	}

	if user == "" {
		user = sim.Username()
	}

	t.Setenv("OLVM_USERNAME", user)
	t.Setenv("OLVM_PASSWORD", password)
	t.Setenv("OLVM_URL", sim.URL())

	var out, problems bytes.Buffer

	command := newCommand(streams{out: &out, err: &problems})
	command.SetArgs([]string{"doctor", "-f", file, "--defaults", "", "-o", "json"})
	code = exitCode(command.ExecuteContext(t.Context()))

	var said struct{ Findings []doctor.Finding }
	check.Error(t, json.Unmarshal(out.Bytes(), &said), "")

	byCheck = map[string]doctor.Finding{}
	for _, finding := range said.Findings {
		byCheck[finding.Check] = finding
	}

	out.Reset()
	check.Error(t, printFindings(&out, said.Findings), "")

	return code, out.String() + problems.String(), byCheck
}

func unchanged(*ovirtsim.Inventory) {}

func TestDoctorFindsNothing(t *testing.T) {
	code, text, found := examined(t, "", "", unchanged)
	check.Equal(t, "exit code, with "+text, code, 0)

	for _, name := range []string{
		"file", "engine", "certificate", "clock", "rights", "names", "addresses", "capacity",
	} {
		check.Equal(t, name+": "+found[name].Message, found[name].Verdict, doctor.OK)
	}

	check.Contains(t, "capacity", found["capacity"].Message, "3 new VMs with 12 CPUs and 24 GiB; 3 hosts are up")
	check.Contains(t, "progress", text, "checking for addresses in use")
}

func TestDoctorSaysWhatToMend(t *testing.T) {
	user := func(role string, permits ...string) func(*ovirtsim.Inventory) {
		return func(inventory *ovirtsim.Inventory) {
			inventory.Users = append(inventory.Users, ovirtsim.User{
				Name: "k8s@internal", Password: "p", Role: role, Permits: permits,
			})
		}
	}

	for name, test := range map[string]struct {
		user, password  string
		change          func(*ovirtsim.Inventory)
		code            int
		check           string
		verdict         doctor.Verdict
		message, remedy string
	}{
		"a wrong password": {
			"", "wrong", unchanged, 1, "engine", doctor.Failed, "engine refuses user", "",
		},
		"a user who may not make VMs": {
			"k8s@internal", "p", user("ClusterAdmin"), 1, "rights", doctor.Failed, "may not create VMs",
			"docs/operate/rights.md",
		},
		"a role that may not make VMs": {
			"k8s@internal", "p", user("HostAdmin"), 1, "rights", doctor.Failed,
			"the user has HostAdmin, which lacks 1 (create_vm)", "docs/operate/rights.md",
		},
		"a role without the permit for vNIC profiles": {
			"k8s@internal", "p", user("k8s", "1300", "1", "1550", "1301", "1100", "14", "15"), 0, "rights", doctor.Warning,
			"lacks 9 (configure_vm_network)", "docs/operate/rights.md",
		},
		"a role without the permit for groups": {
			"k8s@internal", "p", user("k8s", "1300", "1", "9"), 1, "rights", doctor.Failed,
			"lacks 1550 (manipulate_affinity_groups)", "docs/operate/rights.md",
		},
		"a role with all": {
			"k8s@internal", "p", user("k8s", "1300", "1", "9", "1550", "1301", "1100", "14", "15"), 0, "rights", doctor.OK,
			"the user has k8s, with the permits", "",
		},
		"a template that is not there": {
			"", "", func(inventory *ovirtsim.Inventory) { inventory.DataCenters[0].Templates = nil }, 1,
			"names", doctor.Failed, `"ock-1.36"`, "",
		},
		"hosts that are too small": {
			"", "", func(inventory *ovirtsim.Inventory) {
				for i := range inventory.DataCenters[0].Clusters[0].Hosts {
					inventory.DataCenters[0].Clusters[0].Hosts[i].Memory = 7 << 30
				}
			}, 0, "capacity", doctor.Warning, "no host has 8.0 GiB free", "add hosts",
		},
		"a template of which no VM runs": {
			"", "", unchanged, 0, "guest agent", doctor.Unknown, "no VM of template ock-1.36 is running", "qemu-guest-agent",
		},
		"a template whose guests do not report": {
			"", "", func(inventory *ovirtsim.Inventory) {
				vm := ovirtsim.VM{Name: "silent", Cluster: "Default", Template: "ock-1.36", Up: true}
				inventory.DataCenters[0].VMs = append(inventory.DataCenters[0].VMs, vm)
			}, 0, "guest agent", doctor.Warning, "but no guest reports an address", "qemu-guest-agent",
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, text, found := examined(t, test.user, test.password, test.change)
			check.Equal(t, "exit code, with "+text, code, test.code)
			check.Equal(t, "verdict: "+found[test.check].Message, found[test.check].Verdict, test.verdict)
			check.Contains(t, "message", found[test.check].Message, test.message)
			check.Contains(t, "remedy", found[test.check].Remedy, test.remedy)
		})
	}
}

func TestDoctorTellsOfAFileThatIsNotValid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	check.Error(t, os.WriteFile(file, []byte("name: trip\nworkerNode: 2\n"), 0o600), "")

	var out bytes.Buffer

	command := newCommand(streams{out: &out, err: &out})
	command.SetArgs([]string{"doctor", "-f", file, "--defaults", ""})
	check.Equal(t, "exit code", exitCode(command.ExecuteContext(t.Context())), 1)
	check.Contains(t, "output", out.String(), "failed   file")
	check.Contains(t, "output", out.String(), "workerNode")
}
