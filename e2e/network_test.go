package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
)

// newNetworkedWorkload creates the sample cluster with other sources of addresses. Control plane machines use an IP
// profile with both families, and workers use an InClusterIPPool. The user chooses the names of the machines.
func newNetworkedWorkload(t *testing.T, name string, subnet int) *workload {
	t.Helper()
	prefix := fmt.Sprintf("127.20.%d.", subnet)

	return newChangedWorkload(t, name, subnet, func(objects []*unstructured.Unstructured) error {
		pool := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "ipam.cluster.x-k8s.io/v1alpha2",
			"kind":       "InClusterIPPool",
			"metadata":   map[string]any{"name": "nodes", "namespace": "e2e-" + name},
			"spec": map[string]any{
				"addresses": []any{prefix + "50-" + prefix + "70"},
				"prefix":    int64(24),
				"gateway":   prefix + "1",
			},
		}}
		if err := localplane.Apply(t.Context(), suite.plane.Client, pool); err != nil {
			return err
		}

		var errs []error

		for _, object := range objects {
			switch object.GetKind() {
			case "Cluster":
				errs = append(
					errs,
					unstructured.SetNestedStringSlice(
						object.Object,
						[]string{"10.244.0.0/16", "fd01::/48"},
						"spec", "clusterNetwork", "pods", "cidrBlocks",
					),
					unstructured.SetNestedStringSlice(
						object.Object,
						[]string{"10.96.0.0/12", "fd02::/108"},
						"spec", "clusterNetwork", "services", "cidrBlocks",
					),
				)
			case "OLVMCluster":
				errs = append(errs, unstructured.SetNestedSlice(object.Object, []any{map[string]any{
					"name": "control-plane", "gateway": prefix + "1", "dnsServers": []any{prefix + "53"},
					"ipv4": map[string]any{
						"subnet":      prefix + "0/24",
						"ipAddresses": []any{prefix + "10-" + prefix + "40"},
					},
					"ipv6": map[string]any{
						"ipAddresses": []any{fmt.Sprintf("fd00:%d::10-fd00:%d::40", subnet, subnet)},
					},
				}}, "spec", "ipProfiles"))
			case "KubeadmControlPlane", "MachineDeployment":
				errs = append(
					errs,
					unstructured.SetNestedField(
						object.Object,
						"{{ .cluster.name }}."+strings.ToLower(object.GetKind()[:1])+".{{ .random }}",
						"spec", "machineNaming", "template",
					),
				)
			case "OLVMMachineTemplate":
				network := map[string]any{"ipProfileName": "control-plane"}
				if object.GetName() == name+"-md-0" {
					network = map[string]any{
						"addressesFromPools": []any{
							map[string]any{
								"apiGroup": "ipam.cluster.x-k8s.io",
								"kind":     "InClusterIPPool",
								"name":     "nodes",
							},
						},
					}
				}

				errs = append(
					errs,
					unstructured.SetNestedMap(
						object.Object, network, "spec", "template", "spec", "virtualMachine", "network",
					),
				)
			}
		}

		return errors.Join(errs...)
	})
}

// expectAddresses compares the addresses of each machine with their source and with those of its Node.
func (w *workload) expectAddresses() {
	w.t.Helper()
	ctx := context.Background()
	var machines infrav1.OLVMMachineList
	var addresses ipamv1.IPAddressList
	err := errors.Join(w.plane.Client.List(ctx, &machines, client.InNamespace(w.namespace)),
		w.plane.Client.List(ctx, &addresses, client.InNamespace(w.namespace)))
	if err != nil {
		w.t.Fatal(err)
	}

	nodes, workers, names := w.nodes(), 0, regexp.MustCompile(`^`+w.name+`\.[km]\.[a-z0-9]+$`)

	for i := range machines.Items {
		m := &machines.Items[i]
		if !names.MatchString(m.Name) || m.Status.OLVM.VirtualMachine.VMName != m.Name {
			w.t.Errorf("machine %s has VM %s, want both as the machine's owner names them", m.Name,
				m.Status.OLVM.VirtualMachine.VMName)
		}

		var ips []string

		for _, a := range m.Status.Addresses {
			if a.Type == clusterv1.MachineInternalIP {
				ips = append(ips, a.Address)
			}
		}

		if _, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]; controlPlane {
			if len(ips) != 2 || !netip.MustParseAddr(ips[0]).Is4() || !netip.MustParseAddr(ips[1]).Is6() {
				w.t.Errorf("control plane machine %s has the addresses %v", m.Name, ips)
			}
		} else {
			workers++
			at := slices.IndexFunc(addresses.Items, func(a ipamv1.IPAddress) bool {
				return a.Spec.ClaimRef.Name == m.Name+"-0-0"
			})
			if at < 0 || len(ips) != 1 || addresses.Items[at].Spec.Address != ips[0] {
				w.t.Errorf("worker %s has the addresses %v, and the IPAM provider gave %+v", m.Name, ips,
					addresses.Items)
			}
		}

		if reported := internalIPs(nodes[m.Name]); !slices.Equal(reported, ips) {
			w.t.Errorf("Node %s reports %v, its machine has %v", m.Name, reported, ips)
		}
	}

	if len(addresses.Items) != workers {
		w.t.Errorf("the IPAM provider holds %d addresses for %d workers", len(addresses.Items), workers)
	}
}

// expectNoClaims waits until the IPAM provider has got all addresses back.
func (w *workload) expectNoClaims() {
	w.t.Helper()
	w.eventually("all addresses are given back", func() error {
		var claims ipamv1.IPAddressClaimList
		var addresses ipamv1.IPAddressList
		err := errors.Join(w.plane.Client.List(context.Background(), &claims, client.InNamespace(w.namespace)),
			w.plane.Client.List(context.Background(), &addresses, client.InNamespace(w.namespace)))
		if left := len(claims.Items) + len(addresses.Items); err == nil && left > 0 {
			return fmt.Errorf("%d claims and addresses are left", left)
		}

		return err
	})
}
