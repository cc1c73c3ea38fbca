package oci

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/e2e/oci/fakeoci"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// TestAClusterOnOracleCloudLivesAndIsDeleted (row 38) creates a cluster from nothing until its nodes are ready. Some
// calls to the cloud fail. The test upgrades the cluster, scales it by editing (row 39), changes it by a second start,
// moves it and deletes it. At the end, nothing is left.
func TestAClusterOnOracleCloudLivesAndIsDeleted(t *testing.T) {
	s := siteOn(t, suite.cloud)
	in := s.cloud.Compartment("parent/my")
	s.cloud.AddImage(in, "arm64", "1.36.1", time.Now())
	s.cloud.AddImage(in, "amd64", "1.36.1", time.Now())
	s.cloud.Fail(fakeoci.Fault{
		Call: regexp.MustCompile("^POST /20160918/vcns$"), Times: 1, Status: 409, Code: "Conflict", Message: "busy",
	})
	s.cloud.Fail(fakeoci.Fault{
		Call: regexp.MustCompile("^POST /20160918/instances$"), Times: 1, Status: 500, Code: "InternalError",
		Message: "Out of host capacity.",
	})
	s.clusterFile("prod", "parent/my")
	management := []string{"--kubeconfig", suite.plane.Kubeconfig, "--timeout", wait.Limit.String()}

	out, said := s.does(append([]string{"start", "-f", s.file}, management...)...)
	contains(t, "start", said+out, "Checking Oracle Cloud: ok", "Installing the cloud controller manager of OCI: ok",
		"Cluster prod is ready, with 2 nodes")
	kubeconfig := filepath.Join(s.dir, ".kube", "kubeconfig.prod")
	info, err := os.Stat(kubeconfig)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, or its mode is not 0600", err)
	}

	check.Equal(t, "instances", len(s.cloud.Objects("instances")), 2)
	check.Equal(t, "launches", len(s.cloud.Calls("^POST /20160918/instances$")), 3)
	check.Equal(t, "networks", len(s.cloud.Objects("vcns")), 1)
	check.Equal(t, "subnets", len(s.cloud.Objects("subnets")), 4)
	check.Equal(t, "backends", s.cloud.Backends(), []string{"10.0.1.2"})
	s.checkControllerManager()

	tree, _ := s.does("describe", "prod", "-n", "prod", "--kubeconfig", suite.plane.Kubeconfig)
	contains(t, "describe", tree, "OCICluster/prod", "KubeadmControlPlane/prod-control-plane  1 of 1 ready", "10.0.1.2")

	t.Run("Upgrade", func(t *testing.T) { s.in(t).upgrade(management) })
	t.Run("Row39ScaleByEditing", func(t *testing.T) { s.in(t).scaleByEditing() })
	t.Run("StartAgain", func(t *testing.T) { s.in(t).startAgain(management) })
	t.Run("MoveAndDelete", func(t *testing.T) { s.in(t).move(management) })
}

// in returns the site for a part of a test. It fails if an earlier part has failed.
func (s *site) in(t *testing.T) *site {
	t.Helper()
	if s.t.Failed() {
		t.Fatal("a part before has failed")
	}

	out := *s
	out.t = t

	return &out
}

// biggerWorkers is the change of the cluster file that makes workers bigger.
const biggerWorkers = "    workerShape: {shape: VM.Standard.E4.Flex, ocpus: 8}\n"

// upgrade replaces the workers by workers with another shape.
func (s *site) upgrade(management []string) {
	s.t.Helper()
	s.write("cluster.yaml", readFile(s.t, s.file)+biggerWorkers)
	s.fails(append([]string{"start", "-f", s.file}, management...),
		"MachineDeployment prod-md-0 has machines that differ from",
		"olvmctl upgrade prod -n prod -f")

	args := append([]string{"upgrade", "prod", "-n", "prod", "-f", s.file}, management...)
	code, out, _ := s.olvmctl(append(args, "--dry-run")...)
	check.Equal(s.t, "exit code of a dry run", code, 2)
	check.Equal(s.t, "what it says", strings.Count(out, "\n"), 1)
	contains(s.t, "a dry run", out, "MachineDeployment prod-md-0: all its machines are replaced, with version v1.36.1")

	s.does(append(args, "--yes")...)
	sizes := map[float64]int{}

	for _, instance := range s.cloud.Objects("instances") {
		if instance["lifecycleState"] == "RUNNING" {
			sizes[instance["shapeConfig"].(map[string]any)["ocpus"].(float64)]++
		}
	}

	check.Equal(s.t, "processors of instances", sizes, map[float64]int{2: 1, 8: 1})
	out, _ = s.does(append(args, "--yes")...)
	contains(s.t, "the same again", out, "prod is up to date")
}

// checkControllerManager verifies that the configuration of the cloud controller manager contains no key of a user.
func (s *site) checkControllerManager() {
	s.t.Helper()
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: "kube-system", Name: "oci-cloud-controller-manager"}
	if err := suite.other.Client.Get(s.t.Context(), key, &secret); err != nil {
		s.t.Fatal(err)
	}

	told := string(secret.Data["cloud-provider.yaml"])
	contains(s.t, "the cloud controller manager is told", told, "useInstancePrincipals: true",
		sorted(s.cloud.Objects("vcns"), "id")[0])

	if strings.Contains(told, "PRIVATE KEY") {
		s.t.Error("the key of the user is in the cluster")
	}
}

// scaleByEditing edits the MachineDeployment as in the seed. The phase changes to ScalingUp, and then to Running.
func (s *site) scaleByEditing() {
	s.t.Helper()
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "prod-md-0"}}
	edit := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2}}`))
	if err := suite.plane.Client.Patch(s.t.Context(), deployment, edit); err != nil {
		s.t.Fatal(err)
	}

	for _, phase := range []clusterv1.MachineDeploymentPhase{
		clusterv1.MachineDeploymentPhaseScalingUp, clusterv1.MachineDeploymentPhaseRunning,
	} {
		wait.Until(s.t, "the phase is "+string(phase), func() bool {
			err := suite.plane.Client.Get(s.t.Context(), client.ObjectKeyFromObject(deployment), deployment)
			return err == nil && deployment.Status.GetTypedPhase() == phase
		})
	}

	// The phase Running means that the number of Machines is right, but not that they have instances.
	wait.Until(s.t, "the third instance is there", func() bool { return len(s.cloud.Objects("instances")) == 3 })
}

// startAgain changes the cluster file, and applies the change by a second start.
func (s *site) startAgain(management []string) {
	s.t.Helper()
	s.clusterFile("prod", "parent/my", "workerNodes: 3")
	s.write("cluster.yaml", readFile(s.t, s.file)+biggerWorkers)
	newer := s.cloud.AddImage(s.cloud.Compartment("parent/my"), "amd64", "1.36.1", time.Now())
	s.fails(append([]string{"start", "-f", s.file}, management...), "has made it 2, and", "--force-conflicts")

	out, _ := s.does(append([]string{"start", "-f", s.file, "--force-conflicts"}, management...)...)
	contains(s.t, "the second start", out, "Cluster prod is ready, with 4 nodes")

	for _, instance := range s.cloud.Objects("instances") {
		if source, _ := instance["sourceDetails"].(map[string]any); source["imageId"] == newer {
			s.t.Error("a newer image is used without a rollout")
		}
	}
}

// move moves the cluster to the other management cluster, where the test deletes it.
func (s *site) move(management []string) {
	s.t.Helper()
	written := s.cloud.Calls(writes)
	s.does(append([]string{"move", "-n", "prod", "--to-kubeconfig", suite.other.Kubeconfig}, management...)...)
	check.Equal(s.t, "writes of a move", s.cloud.Calls(writes), written)

	var left clusterv1.ClusterList
	if err := suite.plane.Client.List(s.t.Context(), &left); err != nil || len(left.Items) > 0 {
		s.t.Errorf("%v, %d clusters are left", err, len(left.Items))
	}

	balancer := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
	if err := suite.other.Client.Create(s.t.Context(), balancer); err != nil {
		s.t.Fatal(err)
	}

	args := []string{"delete", "prod", "-n", "prod", "--yes", "--kubeconfig", suite.other.Kubeconfig, "--timeout", wait.Limit.String()}
	_, said := s.does(args...)
	contains(s.t, "delete", said, "deleting the load balancers of Services default/web")
	s.fails(args, "Cluster prod not found in namespace prod")

	for _, path := range []string{
		"instances", "vnics", "vcns", "subnets", "networkSecurityGroups", "routeTables", "internetGateways",
		"natGateways", "serviceGateways", "networkLoadBalancers",
	} {
		check.Equal(s.t, path+" that are left", len(s.cloud.Objects(path)), 0)
	}

	var secret corev1.Secret
	key := client.ObjectKey{Namespace: "prod", Name: "prod-oci-credentials"}
	if err := suite.other.Client.Get(s.t.Context(), key, &secret); client.IgnoreNotFound(err) != nil || err == nil {
		s.t.Errorf("the Secret with the key is left: %v", err)
	}
}

// TestAClusterOnOracleCloudWithoutAManagementCluster (row 34) creates a cluster without a management cluster. It
// deletes the cluster with the management cluster that start has created.
func TestAClusterOnOracleCloudWithoutAManagementCluster(t *testing.T) {
	s := siteOn(t, suite.cloud)
	in := s.cloud.Compartment("parent/my/child")
	s.cloud.AddImage(in, "arm64", "1.36.1", time.Now())
	s.clusterFile("alone", in, "workerNodes: 1")
	s.write("cluster.yaml", readFile(t, s.file)+"    workerShape: {shape: VM.Standard.A1.Flex}\n")
	t.Cleanup(func() { s.olvmctl("local", "stop") })

	_, said := s.does("start", "-f", s.file, "--timeout", wait.Limit.String())
	contains(t, "start", said, "Adding the infrastructure provider to the local management cluster: ok",
		"Starting the local management cluster: ok")

	_, said = s.does("delete", "-f", s.file, "--yes", "--timeout", wait.Limit.String())
	contains(t, "delete", said, "deleted Secret alone/alone-oci-credentials", "deleted OCIClusterIdentity alone/alone",
		"deleted namespace alone", "Stopping the local management cluster: ok")
	check.Equal(t, "instances that are left", len(s.cloud.Objects("instances")), 0)
	check.Equal(t, "networks that are left", len(s.cloud.Objects("vcns")), 0)
}
