package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// place uses features of the ClusterClass that its template does not use: failure domains by hosts, an IP profile, and
// no affinity groups. Workers use the second domain, a larger root disk and a data disk.
func place(t *testing.T, cluster *unstructured.Unstructured, subnet int) {
	t.Helper()
	change := func(path []string, apply func([]any) []any) {
		list, _, err := unstructured.NestedSlice(cluster.Object, path...)
		if err == nil {
			err = unstructured.SetNestedSlice(cluster.Object, apply(list), path...)
		}

		if err != nil {
			t.Fatal(err)
		}
	}
	change([]string{"spec", "topology", "workers", "machineDeployments"}, func(deployments []any) []any {
		deployments[0].(map[string]any)["failureDomain"] = "two"
		return deployments
	})
	change([]string{"spec", "topology", "variables"}, func(list []any) []any {
		for _, entry := range list {
			v := entry.(map[string]any)

			value, _ := v["value"].(map[string]any)
			switch v["name"] {
			case "userData":
				value["ssh"] = map[string]any{
					"user":           "olvm",
					"authorizedKeys": []any{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP8 e2e"},
				}
			case "controlPlaneMachines":
				value["rootDisk"] = map[string]any{"storageDomainName": "olvm-data-2"}
				value["dataDisks"] = []any{map[string]any{"name": "etcd", "size": "2GB", "format": "raw"}}
				value["placement"] = map[string]any{"affinityGroupNames": []any{"together"}}
				value["additionalNetworks"] = []any{
					map[string]any{"networkName": "leased", "vnicProfileName": "leased", "vnicName": "storage"},
				}
			case "workerMachines":
				delete(value, "ipAddresses")
				value["network"] = map[string]any{"ipProfileName": "workers"}
				value["rootDisk"] = map[string]any{"size": "25GB"}
				value["dataDisks"] = []any{map[string]any{"name": "images", "size": "5GB"}}
				value["placement"] = map[string]any{"affinityGroupNames": []any{"together"}}
				value["additionalNetworks"] = []any{
					map[string]any{"networkName": "leased", "vnicProfileName": "leased", "vnicName": "storage"},
				}
			}
		}

		return append(list,
			map[string]any{"name": "failureDomains", "value": []any{
				map[string]any{"name": "one", "hosts": map[string]any{"names": []any{"host-1"}}},
				map[string]any{
					"name":         "two",
					"controlPlane": false,
					"hosts":        map[string]any{"names": []any{"host-2", "host-3"}},
				},
			}},
			map[string]any{"name": "ipProfiles", "value": []any{map[string]any{
				"name": "workers",
				"ipv4": map[string]any{
					"subnet":      fmt.Sprintf("127.20.%d.0/24", subnet),
					"ipAddresses": []any{fmt.Sprintf("127.20.%d.100-127.20.%d.119", subnet, subnet)},
				},
			}}},
			map[string]any{
				"name":  "affinityGroups",
				"value": []any{map[string]any{"name": "together", "positive": true, "priority": int64(3)}},
			})
	})
}

// expectPlaced verifies that the VMs match the requests of place.
func (w *workload) expectPlaced() {
	w.t.Helper()
	ctx := context.Background()
	hosts, err := suite.engine.ListHosts(ctx)
	if err != nil {
		w.t.Fatal(err)
	}

	worker, err := w.worker()
	if err != nil {
		w.t.Fatal(err)
	}

	for id, vm := range w.vms() {
		var placed []string

		for _, h := range hosts {
			p := vm.PlacementPolicy
			if p != nil && p.Hosts != nil &&
				slices.ContainsFunc(p.Hosts.Hosts, func(r engine.Ref) bool { return r.ID == h.ID }) {
				placed = append(placed, h.Name)
			}
		}

		slices.Sort(placed)
		disks := map[string]int64{}
		attached, err := suite.engine.ListDiskAttachments(ctx, engine.ID(id))
		if err != nil {
			w.t.Fatal(err)
		}

		for i := range attached {
			disk, err := suite.engine.FetchDisk(ctx, attached[i].DiskID())
			if err != nil {
				w.t.Fatal(err)
			}

			disks[strings.TrimPrefix(disk.AliasText(), vm.Name+"_")] = disk.ProvisionedSize >> 30
		}

		want := "[host-1] map[etcd:2 ol9-k8s_Disk1:20]"
		if vm.Name == worker.Name {
			want = "[host-2 host-3] map[images:5 ol9-k8s_Disk1:25]"
		}

		if got := fmt.Sprintf("%v %v", placed, disks); got != want {
			w.t.Errorf("VM %s has hosts and disks %s, want %s", vm.Name, got, want)
		}
	}
}
