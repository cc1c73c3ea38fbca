package e2e

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/servingcert"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// flavor is a shipped template with the special properties of its clusters.
type flavor struct {
	name      string
	subnet    int
	variables map[string]string
	// controlPlanes and workers are the expected numbers of machines. change changes the objects before the test
	// applies them.
	controlPlanes, workers int
	// prepare creates what the cluster requires.
	prepare func(*workload)
	// support is the number of VMs in the cluster's support services.
	support int
	change  func(*unstructured.Unstructured)
	// expect checks the running cluster. gone checks what is left after its deletion.
	expect, gone func(*workload)
}

// flavors are the templates of kubeadm without a ClusterClass, except for the default one: TestClustersAtOnce creates
// its cluster from the default and moves it. S in variables stands for the subnet.
var flavors = []flavor{
	{
		name:          "ock",
		subnet:        36,
		controlPlanes: 3,
		variables:     map[string]string{"OLVM_VM_TEMPLATE": "ock-1.36"},
		change:        deliverToWorkers,
		expect: func(w *workload) {
			w.expectFollowers(36)
			w.expectDelivered()
		},
	},
	{name: "dual-stack", subnet: 71, variables: map[string]string{
		"CONTROL_PLANE_ENDPOINT_IPV6": "fd00:S::5", "OLVM_SUBNET_IPV6": "fd00:S::/64", "OLVM_GATEWAY_IPV6": "fd00:S::1",
		"OLVM_CONTROL_PLANE_ADDRESSES_IPV6": "fd00:S::10-fd00:S::19",
		"OLVM_WORKER_ADDRESSES_IPV6":        "fd00:S::100-fd00:S::109",
	}, expect: (*workload).expectDualStack},
	{
		name:      "ipam",
		subnet:    72,
		variables: map[string]string{"OLVM_NODE_ADDRESSES": "127.20.S.10-127.20.S.14,127.20.S.100-127.20.S.109"},
		gone:      (*workload).expectNoClaims,
	},
	{name: "external-lb", subnet: 73, expect: func(w *workload) {
		data := w.userData("control-plane")
		if strings.Contains(data, "kube-vip") || strings.Contains(data, "keepalived") {
			w.t.Error("a node holds the endpoint of the load balancer")
		}
	}},
	{
		name:   "load-balancer",
		subnet: 78,
		variables: map[string]string{
			"OLVM_LOAD_BALANCER_TEMPLATE":  "ol9-k8s",
			"OLVM_LOAD_BALANCER_ADDRESSES": "127.20.S.30-127.20.S.31",
		},
		support: 2,
		expect:  (*workload).expectBalanced,
	},
	{
		name:      "oidc",
		subnet:    79,
		variables: map[string]string{"OIDC_VM_TEMPLATE": "ol9-k8s", "OIDC_ADDRESS": "127.20.S.40"},
		prepare:   (*workload).prepareOIDC,
		support:   1,
		expect: func(w *workload) {
			w.expectSupported("oidc", "127.20.79.40", 1)
			if data := w.userData("control-plane"); !strings.Contains(data, "oidc-issuer-url") {
				w.t.Errorf("the API server is told of no issuer:\n%s", data)
			}
		},
	},
	{
		name:      "dns",
		subnet:    74,
		variables: map[string]string{"CLUSTER_DOMAIN": "dns.example.com"},
		expect: func(w *workload) {
			for role, want := range map[string]string{
				"control-plane": "nodes.zone",
				"md-0":          "forward . 127.20.74.5 127.20.74.1",
			} {
				if data := w.userData(role); !strings.Contains(data, "capolvm-dns.yaml") ||
					!strings.Contains(data, want) {
					w.t.Errorf("the name server of %s has no %q:\n%s", role, want, data)
				}
			}
		},
	},
	{
		name:      "ingress",
		subnet:    80,
		variables: map[string]string{"CLUSTER_DOMAIN": "apps.example.com", "INGRESS_VIRTUAL_IP": "127.20.S.6"},
		expect: func(w *workload) {
			for _, role := range []string{"control-plane", "md-0"} {
				data := w.userData(role)
				if !strings.Contains(data, "127.20.80.6") || !strings.Contains(data, "keepalived") {
					w.t.Errorf("%s cannot hold the ingress address:\n%s", role, data)
				}
			}
		},
	},
	{
		name:    "failure-domains",
		subnet:  75,
		workers: 3,
		variables: map[string]string{
			"OLVM_FAILURE_DOMAIN_A": "rack-a",
			"OLVM_FAILURE_DOMAIN_B": "rack-b",
			"OLVM_FAILURE_DOMAIN_C": "rack-c",
		},
		expect: (*workload).expectSpread,
	},
	{
		name:      "machine-health-check",
		subnet:    76,
		variables: map[string]string{"NODE_LOST_SECONDS": "1", "NODES_LOST_AT_MOST": "100%"},
		expect: func(w *workload) {
			w.rebootAWorker()
			w.loseAWorker()
			w.expectMachines(1, 1)
		},
	},
	{name: "autoscaler", subnet: 77, expect: (*workload).expectScalable},
}

func TestFlavors(t *testing.T) {
	for _, f := range flavors {
		t.Run("flavor "+f.name, func(t *testing.T) {
			testenv.SkipInShort(t, "makes a cluster of each flavor")
			t.Parallel()
			w := prepare(t, "flavor-"+f.name)
			file := "cluster-template-" + f.name + ".yaml"

			if f.change == nil {
				f.change = func(*unstructured.Unstructured) {}
			}

			if f.variables == nil {
				f.variables = map[string]string{}
			}

			w.support = f.support
			if f.prepare != nil {
				f.prepare(w)
			}

			controlPlanes, workers := max(f.controlPlanes, 1), max(f.workers, 1)
			f.variables["CONTROL_PLANE_MACHINE_COUNT"] = fmt.Sprint(controlPlanes)
			w.applyTemplates(f.subnet, f.variables, f.change, file)
			w.expectMachines(controlPlanes, workers)
			w.expectEmptyPlans(controlPlanes + workers + f.support)
			if f.expect != nil {
				f.expect(w)
			}

			w.delete()
			if f.gone != nil {
				f.gone(w)
			}
		})
	}
}

// userData returns the engine's user data of the first VM whose name contains part.
func (w *workload) userData(part string) string {
	w.t.Helper()

	for _, vm := range w.vms() {
		if !strings.Contains(vm.Name, part) {
			continue
		}

		data, err := driveOf(context.Background(), vm.ID.String())
		if err != nil {
			w.t.Fatal(err)
		}

		return data
	}

	w.t.Fatalf("there is no VM %s", part)

	return ""
}

// driveOf returns the user data on the drive of a VM's last start. The engine itself keeps this user data until the VM
// is a node.
func driveOf(ctx context.Context, vm string) (string, error) {
	var drive struct {
		UserData string `json:"userData"`
	}

	err := suite.plane.CallControl(ctx, "GET", "/vms/"+vm+"/drive", nil, &drive)

	return drive.UserData, err
}

// deliverToWorkers makes workers fetch their user data from the manager. They are on a network with DHCP.
func deliverToWorkers(object *unstructured.Unstructured) {
	if object.GetKind() != "OLVMMachineTemplate" || !strings.HasSuffix(object.GetName(), "-md-0") {
		return
	}

	spec := object.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	spec["userData"] = map[string]any{"bootstrapDelivery": "Pointer"}
	spec["olvmNetwork"] = map[string]any{"networkName": "leased", "vnicProfileName": "leased"}
}

// expectDelivered fails if the engine has user data that it must not have.
func (w *workload) expectDelivered() {
	w.t.Helper()
	if data := w.userData("md-0"); strings.Contains(data, "kubeadm") || !strings.Contains(data, `"replace"`) {
		w.t.Errorf("the engine has the user data of a worker:\n%s", data)
	}
}

// expectDualStack compares the addresses of Nodes and of the endpoint.
func (w *workload) expectDualStack() {
	w.t.Helper()

	for name, node := range w.nodes() {
		ips := internalIPs(node)
		if len(ips) != 2 || !strings.HasPrefix(ips[0], "127.20.71.") || !strings.HasPrefix(ips[1], "fd00:71::") {
			w.t.Errorf("Node %s has the addresses %v", name, ips)
		}
	}

	data := w.userData("control-plane")
	if !strings.Contains(data, "127.20.71.5,fd00:71::5") || !strings.Contains(data, "fd01::/48") {
		w.t.Errorf("kube-vip or kubeadm have one family alone:\n%s", data)
	}
}

// prepareOIDC creates a certificate authority and a connector.
func (w *workload) prepareOIDC() {
	w.t.Helper()
	certificate, key, err := servingcert.NewAuthority("tenant")
	if err != nil {
		w.t.Fatal(err)
	}

	for name, data := range map[string]map[string][]byte{
		"ca":         {"tls.crt": certificate, "tls.key": key},
		"connectors": {"connectors.yaml": []byte("- {type: mockCallback, id: mock, name: Mock}\n")},
	} {
		secret := &corev1.Secret{Data: data}
		secret.Namespace, secret.Name = w.namespace, w.name+"-oidc-"+name
		if err := w.plane.Client.Create(context.Background(), secret); err != nil {
			w.t.Fatal(err)
		}
	}
}

// expectBalanced verifies that the load balancers know the control plane's machines.
func (w *workload) expectBalanced() { w.expectSupported("lb-api", "127.20.78.5", 2) }

// expectSupported verifies that a support service serves, and that olvmctl lists it.
func (w *workload) expectSupported(name, address string, machines int) {
	w.t.Helper()
	var asked infrav1alpha1.OLVMSupportServices
	w.eventually("the service uses its configuration", func() error {
		err := w.plane.Client.Get(context.Background(), client.ObjectKey{Namespace: w.namespace, Name: w.name}, &asked)
		if err == nil && !conditions.IsTrue(&asked, infrav1.ReadyCondition) {
			err = errors.New(conditions.GetMessage(&asked, infrav1.ReadyCondition))
		}

		return err
	})

	services := asked.Status.Services
	if len(services) != 1 || services[0].Address != address || len(services[0].Machines) != machines {
		w.t.Errorf("the support services are %+v", services)
	}

	tree, err := exec.CommandContext(w.t.Context(), filepath.Join(suite.binDir, "olvmctl"), "describe", w.name,
		"--kubeconfig", w.plane.Kubeconfig, "-n", w.namespace).CombinedOutput()
	if want := "SupportService/" + name + "  " + address; err != nil || !strings.Contains(string(tree), want) {
		w.t.Errorf("olvmctl describe has no %q: %v\n%s", want, err, tree)
	}
}

// expectSpread verifies that each worker can run only on hosts of its own failure domain.
func (w *workload) expectSpread() {
	w.t.Helper()
	hosts, err := suite.engine.ListHosts(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}

	var placed []string

	for _, vm := range w.vms() {
		if !strings.Contains(vm.Name, "-md-") {
			continue
		}

		at := slices.IndexFunc(hosts, func(h engine.Host) bool {
			return vm.PlacementPolicy != nil && vm.PlacementPolicy.Hosts != nil &&
				len(vm.PlacementPolicy.Hosts.Hosts) == 1 && vm.PlacementPolicy.Hosts.Hosts[0].ID == h.ID
		})
		if at < 0 {
			w.t.Errorf("VM %s is bound to %+v", vm.Name, vm.PlacementPolicy)
			continue
		}

		placed = append(placed, hosts[at].Name)
	}

	if slices.Sort(placed); !slices.Equal(placed, []string{"host-1", "host-2", "host-3"}) {
		w.t.Errorf("the workers are bound to %v", placed)
	}
}

// expectScalable acts like the cluster autoscaler. It reads the capacity of a machine and the limits, and sets the
// replicas.
func (w *workload) expectScalable() {
	w.t.Helper()
	ctx := context.Background()
	var md clusterv1.MachineDeployment
	key := client.ObjectKey{Namespace: w.namespace, Name: w.name + "-md-0"}
	w.eventually("the MachineDeployment is scaled", func() error {
		if err := w.plane.Client.Get(ctx, key, &md); err != nil {
			return err
		}

		least := md.Annotations[clusterv1.AutoscalerMinSizeAnnotation]
		most := md.Annotations[clusterv1.AutoscalerMaxSizeAnnotation]
		if least != "1" || most != "10" || ptr.Deref(md.Spec.Replicas, 0) != 1 {
			w.t.Fatalf("%d replicas of %s to %s", ptr.Deref(md.Spec.Replicas, 0), least, most)
		}

		template := &unstructured.Unstructured{
			Object: map[string]any{
				"apiVersion": "infrastructure.cluster.x-k8s.io/v1",
				"kind":       md.Spec.Template.Spec.InfrastructureRef.Kind,
			},
		}
		err := w.plane.Client.Get(ctx, client.ObjectKey{
			Namespace: w.namespace,
			Name:      md.Spec.Template.Spec.InfrastructureRef.Name,
		}, template)
		if err != nil {
			return err
		}

		capacity, _, err := unstructured.NestedStringMap(template.Object, "status", "capacity")
		if err != nil || capacity["cpu"] != "4" || capacity["memory"] == "" {
			return errors.Join(fmt.Errorf("a machine would be %v", capacity), err)
		}

		md.Spec.Replicas = ptr.To[int32](2)

		return w.plane.Client.Update(ctx, &md)
	})
	w.expectMachines(1, 2)
}
