package nodes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/bootstrapvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// clusterFile is the file of a cluster. Its bootstrap VM uses the address of the test's machine.
const clusterFile = `name: trip
virtualIp: 10.198.0.5
kubernetesVersion: VERSION
providers:
  olvm:
    namespace: tour
    olvmDatacenterName: Default
    olvmOvirtAPIServer: {serverURL: https://engine.example.com/ovirt-engine, insecureSkipTLSVerify: true}
    controlPlaneMachine: &machine
      olvmOvirtClusterName: Default
      vmTemplateName: debian-k8s
      olvmNetwork: {networkName: vlan, vnicProfileName: vlan}
      virtualMachine:
        memory: 8GB
        network:
          gateway: 10.198.0.1
          ipv4: {subnet: 10.198.0.0/24, ipAddresses: 10.198.0.8-10.198.0.11}
    workerMachine: *machine
`

// userDataOfVM returns the user data that olvmctl start --bootstrap vm gives to the VM.
func userDataOfVM(t *testing.T, version string) string {
	t.Helper()
	testenv.EmptyState(t)

	path := filepath.Join(t.TempDir(), "cluster.yaml")
	content := strings.ReplaceAll(clusterFile, "VERSION", strings.TrimPrefix(version, "v"))
	check.Error(t, os.WriteFile(path, []byte(content), 0o600), "")

	file, problems, err := clusterfile.Load(path, "", "default")
	if err != nil || clusterfile.HasErrors(problems) {
		t.Fatal(problems, err)
	}

	vm, err := bootstrapvm.New(bootstrapvm.Options{
		Namespace: "tour", Cluster: "trip", Manifests: file.Objects, Engine: engine.Config{},
	})
	check.Error(t, err, "")
	check.Equal(t, "the address", vm.Address(), "10.198.0.11")

	return string(vm.Data)
}

// TestABootstrapVMOnARealNode lets an unmodified kubeadm and kubelet create the cluster of one machine from which other
// clusters are created. The node of this cluster is ready because a bridge serves as its CNI, and it accepts pods
// although it is a control plane node.
func TestABootstrapVMOnARealNode(t *testing.T) {
	s := newSite(t)
	m := s.start(s.config("trip-bootstrap", userDataOfVM(t, s.image.Kubernetes)))
	begin := time.Now()

	kubectl := func(args ...string) string {
		return s.until(m, append([]string{"kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf"}, args...)...)
	}
	kubectl("wait", "--for=condition=Ready", "node/trip-bootstrap", "--timeout=5s")
	t.Logf("power on to Ready: %.1f s", time.Since(begin).Seconds())

	// Kubernetes schedules a pod without tolerations, and the pod gets an address from the bridge.
	kubectl("get", "serviceaccount", "default")
	kubectl("run", "nothing", "--image="+s.image.Pause)
	kubectl("wait", "--for=condition=Ready", "pod/nothing", "--timeout=5s")
	t.Logf("power on to a pod that runs: %.1f s", time.Since(begin).Seconds())
	check.Contains(t, "its address", kubectl("get", "pod", "nothing", "-o", "jsonpath={.status.podIP}"),
		"10.244.0.")

	check.Equal(t, "taints of the only node", kubectl("get", "nodes", "-o",
		"jsonpath={.items[*].spec.taints}"), "")
	check.Contains(t, "its provider ID", kubectl("get", "nodes", "-o",
		"jsonpath={.items[*].spec.providerID}"), "olvm://3bd3d5e2-60fb-4b8d-b848-4f548a425cd7")
}
