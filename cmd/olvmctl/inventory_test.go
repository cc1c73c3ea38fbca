package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/poolvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// pool is the manifest of an inventory for the site's engine.
const pool = `
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: OLVMInventory
metadata:
  name: lab
spec:
  olvmDatacenterName: Default
  olvmOvirtAPIServer:
    serverURL: %s
    credentialsSecret: {name: demo-credentials}
  virtualMachines: {tag: pool}
`

// poolVM creates a VM with the tag of the pool.
func (s *site) poolVM(name string) {
	s.t.Helper()
	session, err := engine.New(engine.Config{
		URL: s.sim.URL(), Username: s.sim.Username(), Password: s.sim.Password(), CA: s.sim.CA(),
	})
	check.Error(s.t, err, "")
	poolvm.CreateVM(s.t, session, poolvm.Tag, name, "")
}

// TestPlanOfMachinesOfAPool has workers that take their VMs from a pool. At first, the pool has one VM too few.
func TestPlanOfMachinesOfAPool(t *testing.T) {
	s := newSite(t)
	s.poolVM("vm-b")
	at := strings.LastIndex(s.manifests, "      olvmOvirtClusterName:")
	end := at + strings.Index(s.manifests[at:], "---")
	manifests := s.manifests[:at] + "      fromInventory: {inventoryName: lab}\n" + s.manifests[end:]

	code, _, problems := s.run(manifests, "plan", "-f", "-", "--ca-file", s.caFile)
	check.Equal(t, "exit code without the inventory", code, 1)
	check.Contains(t, "problems", problems, "OLVMInventory default/lab not found in the manifests")

	manifests += fmt.Sprintf(pool, s.sim.URL())
	code, out, problems := s.run(manifests, "plan", "-f", "-", "--ca-file", s.caFile)
	check.Equal(t, "exit code with too few VMs, after "+problems, code, 1)
	check.Contains(t, "plan", out, "needs 2 more VMs, but 1 can be claimed")

	s.poolVM("vm-a")
	code, out, problems = s.run(manifests, "plan", "-f", "-", "--ca-file", s.caFile, "-o", "json")
	check.Equal(t, "exit code, after "+problems, code, 2)
	var plan struct {
		Machines []struct {
			Name, VM string
			Changes  []struct{ Address, Action string }
		}
	}
	check.Error(t, json.Unmarshal([]byte(out), &plan), "")
	taken := map[string]string{}

	for _, m := range plan.Machines {
		if m.VM == "" {
			continue
		}

		taken[m.Name] = m.VM
		check.Length(t, "changes of "+m.Name, m.Changes, 2)
		check.Equal(t, "first change", m.Changes[0].Address, "ovirt_adopted_vm.this")
	}

	check.Equal(t, "VMs", taken, map[string]string{"demo-md-0-0": "vm-a", "demo-md-0-1": "vm-b"})
	check.Equal(t, "VMs in the engine", s.sim.Summarize().VMs, 2)
}

// provision adds VMs and their template to an inventory.
const provision = `  provision:
  - {name: small, machineTemplateName: small, count: 2, macAddresses: ["56:6f:00:00:01:00-56:6f:00:00:01:0f"]}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1
kind: OLVMMachineTemplate
metadata: {name: small}
spec:
  template:
    spec:
      olvmOvirtClusterName: Default
      vmTemplateName: ol9-k8s
      olvmNetwork: {networkName: kvm-vlan, vnicProfileName: kvm-vlan}
      virtualMachine:
        memory: 4GB
        network:
          ipv4: {subnet: 10.0.0.0/24, ipAddresses: ["10.0.0.60-10.0.0.69"]}
`

// TestPlanOfAProvision expects the plan to list the VMs created by an inventory. They have addresses, and are not
// started.
func TestPlanOfAProvision(t *testing.T) {
	s := newSite(t)
	manifests := s.manifests + fmt.Sprintf(pool, s.sim.URL())

	code, _, problems := s.run(manifests+strings.SplitN(provision, "---", 2)[0], "plan", "-f", "-", "--ca-file", s.caFile)
	check.Equal(t, "exit code without the template", code, 1)
	check.Contains(t, "problems", problems, "spec.provision[0].machineTemplateName: OLVMMachineTemplate small not found")

	code, out, problems := s.run(manifests+provision, "plan", "-f", "-", "--ca-file", s.caFile, "-o", "json")
	check.Equal(t, "exit code, after "+problems, code, 2)
	var plan struct {
		Machines []struct {
			Name, From string
			Addresses  []string
			Changes    []struct{ Address, Action string }
		}
	}
	check.Error(t, json.Unmarshal([]byte(out), &plan), "")
	got := map[string]string{}

	for _, m := range plan.Machines {
		if m.From != "OLVMInventory/lab" {
			continue
		}

		for _, change := range m.Changes {
			got[m.Name] += change.Action + " " + change.Address + ", "
		}

		got[m.Name] += strings.Join(m.Addresses, " ")
	}

	const made = `create ovirt_vm.this, create ovirt_nic.nic1, create ovirt_vm_tag.this["00000000-0000-0000-0000-000000000000"], 10.0.0.6`
	check.Equal(t, "VMs", got, map[string]string{"lab-small-0": made + "0", "lab-small-1": made + "1"})

	_, out, problems = s.run(manifests+provision, "plan", "-f", "-", "--ca-file", s.caFile)
	check.Contains(t, "text, after "+problems, out,
		"default/lab-small-0 of OLVMInventory/lab (no cluster, addresses: 10.0.0.60)")
	check.Contains(t, "text", out, `+ mac             = "56:6f:00:00:01:00"`)
	_, out, problems = s.run(manifests+provision, "plan", "-f", "-", "--offline")
	check.Contains(t, "offline, after "+problems, out, "default/lab-small-1 of OLVMInventory/lab")
}

// TestTheSampleOfSIPIsPlanned (row 42) plans the manifests in docs/user/inventory.md with a pool of two flavors. Each
// of three servers in three racks has a VM of each flavor. One rack has a second worker.
func TestTheSampleOfSIPIsPlanned(t *testing.T) {
	center := ovirtsim.DataCenter{
		Name:           "Default",
		Networks:       []ovirtsim.Network{{Name: "nodes", VNICProfiles: []string{"nodes"}}},
		StorageDomains: []ovirtsim.StorageDomain{{Name: "data"}},
		Clusters:       []ovirtsim.Cluster{{Name: "Default"}},
	}
	for _, flavor := range []string{"control-plane", "worker"} {
		center.Templates = append(center.Templates, ovirtsim.Template{
			Name: "k8s-" + flavor, Disks: []ovirtsim.TemplateDisk{{Size: 8 << 30}},
			NICs: []ovirtsim.TemplateNIC{{Name: "nic1", Network: "nodes"}},
		})
	}

	for i := range 4 {
		center.Clusters[0].Hosts = append(center.Clusters[0].Hosts, ovirtsim.Host{
			Name: fmt.Sprintf("s%d", i), AffinityLabels: []string{fmt.Sprintf("rack-%d", min(i, 2))},
		})

		for _, flavor := range []string{"control-plane", "worker"} {
			center.VMs = append(center.VMs, ovirtsim.VM{
				Name: fmt.Sprintf("%s-%d", flavor, i), Cluster: "Default", Template: "k8s-" + flavor, Tags: []string{"vino"},
			})
		}
	}

	s := newSiteWith(t, ovirtsim.Options{Inventory: ovirtsim.Inventory{
		DataCenters: []ovirtsim.DataCenter{center}, Tags: []string{"vino"},
	}})
	s.bind(t)
	document := testenv.ReadDocuments(t)["docs/user/inventory.md"]
	_, sample, _ := strings.Cut(document, "## From SIP")
	_, sample, _ = strings.Cut(sample, "```yaml\n")
	sample, _, _ = strings.Cut(sample, "```")
	sample = strings.ReplaceAll(sample, "https://engine.example.com/ovirt-engine", s.sim.URL())

	code, out, problems := s.run(sample, "plan", "-f", "-", "--ca-file", s.caFile, "-o", "json")
	check.Equal(t, "exit code, after "+problems, code, 2)
	var plan struct{ Machines []struct{ Name, VM string } }
	check.Error(t, json.Unmarshal([]byte(out), &plan), "")

	taken := map[string]string{}
	for _, m := range plan.Machines {
		taken[m.Name] = m.VM
	}

	check.Equal(t, "VMs", taken, map[string]string{
		"sip-0": "control-plane-0", "sip-1": "control-plane-1", "sip-2": "control-plane-2",
		"sip-worker-0": "worker-0", "sip-worker-1": "worker-1",
	})

	more := strings.Replace(sample, "replicas: 2", "replicas: 4", 1)
	code, out, _ = s.run(more, "plan", "-f", "-", "--ca-file", s.caFile)
	check.Equal(t, "exit code of four workers in three racks", code, 1)
	check.Contains(t, "plan", out, "worker-3: worker-2 has the same airshipit.org/rack, 2")
}

// bind binds each VM to the host with the same number.
func (s *site) bind(t *testing.T) {
	t.Helper()
	session, err := engine.New(engine.Config{
		URL: s.sim.URL(), Username: s.sim.Username(), Password: s.sim.Password(), CA: s.sim.CA(),
	})
	check.Error(t, err, "")
	hosts, err := session.ListHosts(t.Context())
	check.Error(t, err, "")
	vms, err := session.ListVMs(t.Context())
	check.Error(t, err, "")

	for _, vm := range vms {
		for _, host := range hosts {
			if host.Name[1:] != vm.Name[len(vm.Name)-1:] {
				continue
			}

			_, err := session.UpdateVM(t.Context(), vm.ID, &engine.VM{PlacementPolicy: &engine.PlacementPolicy{
				Affinity: "migratable", Hosts: &engine.HostSet{Hosts: []engine.Ref{{ID: host.ID}}},
			}})
			check.Error(t, err, "")
		}
	}
}
