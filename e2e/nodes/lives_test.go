package nodes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/nodeimage"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// served makes kubelets request serving certificates.
func served(object *unstructured.Unstructured) {
	argument := map[string]any{"name": "rotate-server-certificates", "value": "true"}

	var paths []string

	switch object.GetKind() {
	case "KubeadmControlPlane":
		paths = []string{"spec.kubeadmConfigSpec.initConfiguration", "spec.kubeadmConfigSpec.joinConfiguration"}
	case "KubeadmConfigTemplate":
		paths = []string{"spec.template.spec.joinConfiguration"}
	}

	for _, path := range paths {
		fields := append(strings.Split(path, "."), "nodeRegistration", "kubeletExtraArgs")
		list, _, _ := unstructured.NestedSlice(object.Object, fields...)
		_ = unstructured.SetNestedSlice(object.Object, append(list, argument), fields...)
	}
}

// expectNodes compares the reports of kubelets and guest agents about their machines with the engine's data.
func (c *cluster) expectNodes(count int) {
	c.t.Helper()

	byName := map[string]engine.VM{}

	for _, vm := range c.vms() {
		byName[vm.Name] = vm
	}

	nodes, err := c.workload.CoreV1().Nodes().List(c.t.Context(), metav1.ListOptions{})
	check.Error(c.t, err, "")
	check.Equal(c.t, "nodes", len(nodes.Items), count)

	for i := range nodes.Items {
		node := &nodes.Items[i]
		id := byName[node.Name].ID.String()
		check.Equal(c.t, node.Name+": provider ID", node.Spec.ProviderID, "olvm://"+id)
		check.Equal(c.t, node.Name+": what the agent reports", byName[node.Name].FQDN, node.Name)
		check.Equal(c.t, node.Name+": system UUID", node.Status.NodeInfo.SystemUUID, id)
		check.Equal(c.t, node.Name+": machine ID", node.Status.NodeInfo.MachineID, strings.ReplaceAll(id, "-", ""))

		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP && strings.HasSuffix(address.Address, ".5") {
				c.t.Errorf("%s registers the address of the endpoint: %v", node.Name, node.Status.Addresses)
			}
		}
	}
}

// expectLabels waits until each node has labels for the data center and the host of its machine.
func (c *cluster) expectLabels() {
	c.t.Helper()
	c.eventually("nodes say where their machines are", func(ctx context.Context) error {
		var machines infrav1.OLVMMachineList
		if err := c.management.List(ctx, &machines, client.InNamespace(c.namespace)); err != nil {
			return err
		}

		for i := range machines.Items {
			m := &machines.Items[i]
			node, err := c.workload.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}

			host := m.Status.OLVM.VirtualMachine.HostName
			if node.Labels[corev1.LabelTopologyRegion] != "Default" || node.Labels[infrav1.HostLabel] != host {
				return fmt.Errorf("VM %s runs on %s, and its node has %v", m.Name, host, node.Labels)
			}
		}

		return nil
	})
}

// expectServingCertificates waits until every kubelet has a serving certificate.
func (c *cluster) expectServingCertificates(count int) {
	c.t.Helper()
	c.eventually("kubelets have serving certificates", func(ctx context.Context) error {
		list, err := c.workload.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}

		issued := map[string]bool{}

		for i := range list.Items {
			request := &list.Items[i]
			if request.Spec.SignerName == certificatesv1.KubeletServingSignerName && len(request.Status.Certificate) > 0 {
				issued[request.Spec.Username] = true
			}
		}

		if len(issued) != count {
			return fmt.Errorf("%d have one", len(issued))
		}

		return nil
	})
}

// deploy creates a Deployment with one pod on each of several nodes. It also creates a Service for these pods.
func (c *cluster) deploy(replicas int32) {
	c.t.Helper()
	labels := map[string]string{"app": "hello"}
	meta := metav1.ObjectMeta{Name: "hello", Namespace: metav1.NamespaceDefault}
	deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "hello", Image: nodeimage.Hello}},
				Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
						TopologyKey:   corev1.LabelHostname,
						LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
					}},
				}},
			},
		},
	}}
	service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		Selector: labels,
		Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}

	_, err := c.workload.AppsV1().Deployments(meta.Namespace).Create(c.t.Context(), deployment, metav1.CreateOptions{})
	check.Error(c.t, err, "")
	_, err = c.workload.CoreV1().Services(meta.Namespace).Create(c.t.Context(), service, metav1.CreateOptions{})
	check.Error(c.t, err, "")

	c.eventually(fmt.Sprintf("%d pods run, each on another node", replicas),
		func(ctx context.Context) error {
			found, err := c.workload.AppsV1().Deployments(meta.Namespace).Get(ctx, meta.Name, metav1.GetOptions{})
			if err == nil && found.Status.AvailableReplicas != replicas {
				err = fmt.Errorf("%d are available", found.Status.AvailableReplicas)
			}

			return err
		})
}

// expectAnswers lets pods send requests to the Service by its name until each of the Service's pods has answered. This
// proves that pods can reach names, Services, and pods on other nodes.
func (c *cluster) expectAnswers(replicas int) {
	c.t.Helper()

	answered := map[string]bool{}
	c.eventually(fmt.Sprintf("%d pods have answered through their Service", replicas),
		func(ctx context.Context) error {
			problem := ""
			logs, err := c.ask(ctx, "http://hello.default.svc.cluster.local")

			for _, log := range logs {
				name, ok := strings.CutPrefix(log, "hello from ")
				if ok {
					answered[name] = true
				} else {
					problem = log
				}
			}

			if err == nil && len(answered) < replicas {
				err = fmt.Errorf("%d have answered; %s", len(answered), problem)
			}

			return err
		})
}

// expectName lets pods send a request to the API server by a name that only the nodes' DNS knows. The pods do not trust
// the API server's authority.
func (c *cluster) expectName(name string) {
	c.t.Helper()
	c.eventually("pods know the name "+name, func(ctx context.Context) error {
		logs, err := c.ask(ctx, "https://"+name+":6443/readyz")
		if err == nil && len(logs) == 0 {
			err = errors.New("no pod has said anything")
		}

		for _, log := range logs {
			if !strings.Contains(log, "x509: certificate signed by unknown authority") {
				err = errors.Join(err, errors.New(log))
			}
		}

		return err
	})
}

// askingLimit is the time in which the pods of a Job must finish before a new Job replaces it. One of the pods may be
// on a node without power.
const askingLimit = 5 * time.Minute

// asking is a Job whose pods send requests to a URL.
type asking struct {
	url, job string
	since    time.Time
}

// ask lets three pods send one request to a URL, and returns their output. Until they finish, it returns an error, and
// the next call checks the same pods. If each call started new pods, a busy node would never finish any.
func (c *cluster) ask(ctx context.Context, url string) ([]string, error) {
	if c.asking.url != url || time.Since(c.asking.since) > askingLimit {
		if err := c.stopAsking(ctx); err != nil {
			return nil, err
		}

		if err := c.startAsking(ctx, url); err != nil {
			return nil, err
		}
	}

	job, err := c.workload.BatchV1().Jobs(metav1.NamespaceDefault).Get(ctx, c.asking.job, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}

	if job.Status.Succeeded+job.Status.Failed < *job.Spec.Completions {
		return nil, errors.New("a pod that asks has not ended")
	}

	logs, err := c.logs(ctx, "job-name="+c.asking.job)
	if err != nil {
		return nil, err
	}

	return logs, c.stopAsking(ctx)
}

func (c *cluster) startAsking(ctx context.Context, url string) error {
	job, err := c.workload.BatchV1().Jobs(metav1.NamespaceDefault).Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "ask-"},
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To[int32](0),
			Completions:  ptr.To[int32](3),
			Parallelism:  ptr.To[int32](3),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{
					Name: "ask", Image: nodeimage.Hello, Args: []string{"get", url},
				}},
			}},
		},
	}, metav1.CreateOptions{})
	if err == nil {
		c.asking = asking{url: url, job: job.Name, since: time.Now()}
	}

	return err
}

// stopAsking deletes the present Job with its pods.
func (c *cluster) stopAsking(ctx context.Context) error {
	if c.asking.job == "" {
		return nil
	}

	err := c.workload.BatchV1().Jobs(metav1.NamespaceDefault).Delete(ctx, c.asking.job, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
	})
	if err == nil || apierrors.IsNotFound(err) {
		c.asking = asking{}
		return nil
	}

	return err
}

// logs returns the logs of pods with a label.
func (c *cluster) logs(ctx context.Context, label string) ([]string, error) {
	pods := c.workload.CoreV1().Pods(metav1.NamespaceDefault)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return nil, err
	}

	var out []string

	for i := range list.Items {
		log, err := pods.GetLogs(list.Items[i].Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil {
			return nil, err
		}

		out = append(out, string(log))
	}

	return out, nil
}

// logMemory logs the memory that each machine uses, including the page cache.
func (c *cluster) logMemory() {
	c.t.Helper()

	for _, vm := range c.vms() {
		err := filepath.WalkDir("/sys/fs/cgroup", func(path string, entry os.DirEntry, err error) error {
			if err != nil || !entry.IsDir() || entry.Name() != vm.ID.String() {
				return nil //nolint:nilerr // groups come and go
			}

			for _, file := range []string{"memory.usage_in_bytes", "memory.current"} {
				content, err := os.ReadFile(filepath.Join(path, file))
				if err != nil {
					continue
				}

				bytes, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
				check.Error(c.t, err, "")
				c.t.Logf("memory of %s: %d MiB", vm.Name, bytes>>20)
			}

			return filepath.SkipDir
		})
		check.Error(c.t, err, "")
	}
}

// holder returns the node that holds the endpoint's address. It finds the node by the MAC address.
func (c *cluster) holder(ctx context.Context) (string, error) {
	nodes, err := c.workload.CoreV1().Nodes().List(ctx, metav1.ListOptions{
		LabelSelector: "node-role.kubernetes.io/control-plane",
	})
	if err != nil {
		return "", err
	}

	endpoint, err := macOf(ctx, c.network.address("5"))
	if err != nil {
		return "", err
	}

	for i := range nodes.Items {
		own, err := macOf(ctx, nodes.Items[i].Status.Addresses[0].Address)
		if err == nil && own == endpoint {
			return nodes.Items[i].Name, nil
		}
	}

	return "", fmt.Errorf("no node has the MAC address %s", endpoint)
}

// macOf returns the MAC address that answers for an IP address.
func macOf(ctx context.Context, address string) (string, error) {
	dialer := net.Dialer{Timeout: time.Second}
	if connection, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address, "6443")); err == nil {
		_ = connection.Close()
	} // even a failed attempt has resolved the address

	out, err := exec.CommandContext(ctx, "ip", "neighbour", "show", address).Output()
	if err != nil {
		return "", err
	}

	_, after, _ := strings.Cut(string(out), " lladdr ")
	mac, _, _ := strings.Cut(after, " ")
	if mac == "" {
		return "", fmt.Errorf("nobody answers for %s: %s", address, out)
	}

	return mac, nil
}

// expectOtherHolder cuts the power of the node that holds the endpoint. It waits until another node takes over, and
// starts the first node again.
func (c *cluster) expectOtherHolder() {
	c.t.Helper()
	holder, err := c.holder(c.t.Context())
	check.Error(c.t, err, "")

	away := c.outage(func() {
		c.losePower(holder)
		c.eventually("another node holds the endpoint", func(ctx context.Context) error {
			if next, err := c.holder(ctx); err != nil || next == holder {
				return errors.Join(fmt.Errorf("%q holds it", next), err)
			}

			return nil
		})
	})
	c.t.Logf("the API did not answer for %s when %s, which held the endpoint, lost its power", away, holder)
	own := c.addressOf(holder)
	c.startVM(holder)
	c.expectServes(own)
}

// losePower cuts the power of a VM.
func (c *cluster) losePower(name string) {
	c.t.Helper()
	check.Error(c.t, suite.plane.CallControl(c.t.Context(), "POST", "/vms/"+name+"/crash", nil, nil), "")
}

// startVM starts a VM as an administrator would.
func (c *cluster) startVM(name string) {
	c.t.Helper()
	vms, err := c.engine.FindVMs(c.t.Context(), nil, name)
	check.Error(c.t, err, "")
	check.Equal(c.t, "VMs "+name, len(vms), 1)
	check.Error(c.t, c.engine.StartVM(c.t.Context(), vms[0].ID, false), "")
}

// outage sends requests to the API server through the endpoint during an event. It returns the longest time between two
// answers.
func (c *cluster) outage(happens func()) time.Duration {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	longest := make(chan time.Duration)

	go func() {
		var most time.Duration
		last := time.Now()

		for ctx.Err() == nil {
			ask, cancel := context.WithTimeout(ctx, time.Second)
			_, err := c.workload.CoreV1().Namespaces().Get(ask, metav1.NamespaceSystem, metav1.GetOptions{})
			cancel()

			if err == nil {
				most = max(most, time.Since(last))
				last = time.Now()
			}

			time.Sleep(50 * time.Millisecond)
		}

		longest <- max(most, time.Since(last))
	}()

	happens()
	stop()

	return <-longest
}

// expectServes waits until an API server answers at an address with a certificate for this address.
func (c *cluster) expectServes(address string) {
	c.t.Helper()
	config := rest.CopyConfig(c.config)
	config.Host = "https://" + net.JoinHostPort(address, "6443")
	own, err := kubernetes.NewForConfig(config)
	check.Error(c.t, err, "")

	c.eventually("an API server answers at "+address, func(ctx context.Context) error {
		return own.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// addressOf returns the first address of a node.
func (c *cluster) addressOf(node string) string {
	c.t.Helper()
	found, err := c.workload.CoreV1().Nodes().Get(c.t.Context(), node, metav1.GetOptions{})
	check.Error(c.t, err, "")

	return found.Status.Addresses[0].Address
}

// expectBothFamilies waits until nodes and pods have an address of each family. It ignores pods in the host network.
func (c *cluster) expectBothFamilies() {
	c.t.Helper()
	c.expectAddresses("addresses of both families", bothFamilies)
}

// expectAddresses waits until are returns true for the addresses of every node and pod.
func (c *cluster) expectAddresses(what string, are func([]string) bool) {
	c.t.Helper()
	c.eventually("nodes and pods have "+what, func(ctx context.Context) error {
		nodes, err := c.workload.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}

		for i := range nodes.Items {
			var own []string

			for _, address := range nodes.Items[i].Status.Addresses {
				if address.Type == corev1.NodeInternalIP {
					own = append(own, address.Address)
				}
			}

			if !are(own) {
				return fmt.Errorf("node %s has %v", nodes.Items[i].Name, own)
			}
		}

		pods, err := c.workload.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: "app=hello"})
		if err != nil {
			return err
		}

		for i := range pods.Items {
			var own []string
			for _, address := range pods.Items[i].Status.PodIPs {
				own = append(own, address.IP)
			}

			if !are(own) {
				return fmt.Errorf("pod %s has %v", pods.Items[i].Name, own)
			}
		}

		return nil
	})
}

// bothFamilies reports whether there are exactly two addresses, one of each family.
func bothFamilies(addresses []string) bool {
	return len(addresses) == 2 && strings.Contains(addresses[0], ":") != strings.Contains(addresses[1], ":")
}

// workers returns the names of the MachineDeployment's Machines.
func (c *cluster) workers() []string {
	c.t.Helper()
	var list clusterv1.MachineList
	check.Error(c.t, c.management.List(c.t.Context(), &list, client.InNamespace(c.namespace),
		client.HasLabels{clusterv1.MachineDeploymentNameLabel}), "")

	var out []string
	for i := range list.Items {
		out = append(out, list.Items[i].Name)
	}

	slices.Sort(out)

	return out
}

// expectDrained scales the workers to one while a PodDisruptionBudget forbids evictions. Then it allows evictions, and
// waits until the machine is drained.
func (c *cluster) expectDrained(controlPlanes int32) {
	c.t.Helper()
	budgets := c.workload.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	budget, err := budgets.Create(c.t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "hello"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(2)),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{"app": "hello"}},
		},
	}, metav1.CreateOptions{})
	check.Error(c.t, err, "")

	c.scale(controlPlanes, 1, "")
	c.eventually("the drain waits for the PodDisruptionBudget", func(ctx context.Context) error {
		var list clusterv1.MachineList
		if err := c.management.List(ctx, &list, client.InNamespace(c.namespace)); err != nil {
			return err
		}

		for i := range list.Items {
			message := conditions.GetMessage(&list.Items[i], clusterv1.MachineDeletingCondition)
			if strings.Contains(message, "disruption budget") {
				return nil
			}
		}

		return errors.New("no Machine waits for it")
	})

	check.Error(c.t, budgets.Delete(c.t.Context(), budget.Name, metav1.DeleteOptions{}), "")
	c.eventually("the worker is drained and gone", func(context.Context) error {
		if left := c.workers(); len(left) != 1 {
			return fmt.Errorf("the workers are %v", left)
		}

		return nil
	})
}

// TestAClusterWithKubeVIP creates a cluster with 3+2 nodes. kube-vip holds the endpoint and the addresses of Services.
// The test cuts the power of the nodes that hold these addresses.
func TestAClusterWithKubeVIP(t *testing.T) {
	c := newCluster(t, "three")
	c.apply("cluster-template-service-load-balancers.yaml", map[string]string{
		"CONTROL_PLANE_MACHINE_COUNT": "3",
		"WORKER_MACHINE_COUNT":        "2",
		"SERVICE_ADDRESSES":           c.network.addresses("200", "201"),
	}, served)
	c.connect()
	c.expectMachines(3, 2, suite.image.Kubernetes)
	c.expectNodes(5)
	c.expectLabels()
	c.expectServingCertificates(5)
	c.logMemory()

	c.deploy(2)
	c.expectAnswers(2)
	c.expectLoadBalancers()

	c.expectOtherHolder()
	c.expectMachines(3, 2, suite.image.Kubernetes)
	c.expectAnswers(2)

	c.expectDrained(3)
	c.delete()
}

// TestAClusterWithKeepalived creates a cluster with 1+1 nodes. keepalived holds the endpoint. The test replaces a
// worker whose kubelet has failed, and scales the workers to zero and back. Then it upgrades all machines to the next
// patch version.
func TestAClusterWithKeepalived(t *testing.T) {
	c := newCluster(t, "alive")
	c.apply("cluster-template-machine-health-check.yaml", map[string]string{
		"CONTROL_PLANE_VIRTUAL_IP_PROVIDER": "Keepalived",
		"KUBERNETES_VERSION":                suite.before.Kubernetes,
		"NODE_LOST_SECONDS":                 "1",
		"NODES_LOST_AT_MOST":                "100%",
	})
	c.connect()
	c.expectMachines(1, 1, suite.before.Kubernetes)
	c.expectNodes(2)
	c.deploy(1)
	c.expectAnswers(1)

	before := c.workers()
	body := map[string]string{"ready": "Unknown"}
	check.Error(t, suite.plane.CallControl(t.Context(), "POST", "/vms/"+before[0]+"/node", body, nil), "")
	c.eventually("the worker whose kubelet is dead is gone", func(context.Context) error {
		if slices.Contains(c.workers(), before[0]) {
			return fmt.Errorf("the workers are %v", c.workers())
		}

		return nil
	})
	c.expectMachines(1, 1, suite.before.Kubernetes)

	c.scale(1, 0, "")
	c.expectMachines(1, 0, suite.before.Kubernetes)
	c.scale(1, 1, suite.image.Kubernetes)
	c.expectMachines(1, 1, suite.image.Kubernetes)
	c.expectAnswers(1)
	c.delete()
}

// TestAClusterWithHAProxy creates a cluster with 3+2 nodes. keepalived holds the endpoint, and haproxy is in front of
// the API servers. The test cuts the power of the node that holds the endpoint.
func TestAClusterWithHAProxy(t *testing.T) {
	c := newCluster(t, "spread")
	c.apply("cluster-template.yaml", map[string]string{
		"CONTROL_PLANE_VIRTUAL_IP_PROVIDER": "Keepalived",
		"CONTROL_PLANE_MACHINE_COUNT":       "3",
		"WORKER_MACHINE_COUNT":              "2",
	}, func(object *unstructured.Unstructured) {
		if object.GetKind() == "OLVMCluster" {
			fields := []string{"spec", "controlPlaneServices", "loadBalancerProvider"}
			_ = unstructured.SetNestedField(object.Object, "HAProxy", fields...)
		}
	})
	c.connect()
	c.expectMachines(3, 2, suite.image.Kubernetes)
	c.expectNodes(5)
	c.deploy(2)
	c.expectAnswers(2)
	c.expectOtherHolder()
	c.expectMachines(3, 2, suite.image.Kubernetes)
	c.expectAnswers(2)
	c.delete()
}

// TestAClusterWithIgnition creates nodes from images with Ignition. It uses the template of cluster files. The real
// Ignition reads the drive, NetworkManager configures the network, and nginx runs in front of the API server.
func TestAClusterWithIgnition(t *testing.T) {
	c := newCluster(t, "ignited")
	if !suite.image.Ignition {
		t.Skip("the image of the nodes has no Ignition: libblkid-dev and a C compiler were not there")
	}

	c.apply("cluster-template-ock.yaml", map[string]string{
		"OLVM_VM_TEMPLATE": "ignition-k8s-${KUBERNETES_VERSION}",
		"OLVM_CRI_SOCKET":  "unix:///run/containerd/containerd.sock",
	}, func(object *unstructured.Unstructured) {
		if object.GetKind() == "OLVMCluster" { // uses nginx from the image, because the image lacks podman
			unstructured.RemoveNestedField(object.Object, "spec", "controlPlaneServices", "nginxImage")
		}
	})
	c.connect()
	c.expectMachines(1, 1, suite.image.Kubernetes)
	c.expectNodes(2)
	c.deploy(1)
	c.expectAnswers(1)
	c.delete()
}

// highlyAvailable makes the engine start the machines of a cluster again after they lose their host.
func highlyAvailable(object *unstructured.Unstructured) {
	if object.GetKind() == "OLVMMachineTemplate" {
		wanted := map[string]any{"priority": int64(50), "leaseStorageDomainName": "olvm-data"}
		fields := []string{"spec", "template", "spec", "virtualMachine", "highAvailability"}
		_ = unstructured.SetNestedMap(object.Object, wanted, fields...)
	}
}

// expectLostHost makes the host of a worker fail. The engine starts the VM on another host, and the machine stays the
// same node.
func (c *cluster) expectLostHost() {
	c.t.Helper()

	name := c.workers()[0]
	nodes := c.workload.CoreV1().Nodes()
	before, err := nodes.Get(c.t.Context(), name, metav1.GetOptions{})
	check.Error(c.t, err, "")

	host := c.hostOf(name)
	lost := time.Now()
	check.Error(c.t, suite.plane.CallControl(c.t.Context(), "POST", "/hosts/"+host+"/fail", nil, nil), "")
	c.t.Cleanup(func() {
		check.Error(c.t, suite.plane.CallControl(context.Background(), "POST", "/hosts/"+host+"/recover", nil, nil), "")
	})

	c.eventually("the VM is on another host", func(context.Context) error {
		if on := c.hostOf(name); on == host || on == "" {
			return fmt.Errorf("it is on %q", on)
		}

		return nil
	})
	c.eventually("the node is ready again", func(ctx context.Context) error {
		node, err := nodes.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}

		check.Equal(c.t, "the node's UID", node.UID, before.UID)

		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue &&
				condition.LastHeartbeatTime.After(lost) {
				return nil
			}
		}

		return fmt.Errorf("its conditions are %v", node.Status.Conditions)
	})
	c.t.Logf("%s was ready again %.0f s after %s, on which it ran, was lost", name, time.Since(lost).Seconds(), host)
}

// hostOf returns the name of a VM's host, or "" if the VM does not run.
func (c *cluster) hostOf(name string) string {
	c.t.Helper()
	vms, err := c.engine.FindVMs(c.t.Context(), nil, name)
	check.Error(c.t, err, "")
	check.Equal(c.t, "VMs "+name, len(vms), 1)

	host, _ := c.engine.FindHostName(c.t.Context(), engine.RefID(vms[0].Host))

	return host
}

// TestADualStackCluster creates nodes, pods and an endpoint with addresses of both families. Then it makes the host of
// a node fail.
func TestADualStackCluster(t *testing.T) {
	c := newCluster(t, "both")
	c.apply("cluster-template-dual-stack.yaml", map[string]string{
		"OLVM_CLUSTER":                      frailCluster,
		"OLVM_VM_TEMPLATE":                  frailTemplate,
		"CONTROL_PLANE_ENDPOINT_IPV6":       c.network.address6("5"),
		"OLVM_SUBNET_IPV6":                  c.network.address6("/64"),
		"OLVM_GATEWAY_IPV6":                 c.network.address6("1"),
		"OLVM_CONTROL_PLANE_ADDRESSES_IPV6": c.network.address6("10") + "-" + c.network.address6("19"),
		"OLVM_WORKER_ADDRESSES_IPV6":        c.network.address6("100") + "-" + c.network.address6("109"),
	}, highlyAvailable)
	c.connect()
	c.expectMachines(1, 1, suite.image.Kubernetes)
	c.deploy(1)
	c.expectAnswers(1)
	c.expectBothFamilies()
	c.expectServes(c.network.address("5"))
	c.expectServes(c.network.address6("5"))
	c.expectLostHost()
	c.expectAnswers(1)
	c.expectMachines(1, 1, suite.image.Kubernetes)
	c.delete()
}

// TestAnIPv6Cluster creates a cluster whose nodes, pods, Services and endpoint have no IPv4 addresses.
func TestAnIPv6Cluster(t *testing.T) {
	c := newCluster(t, "six")
	c.apply("cluster-template-ipv6.yaml", map[string]string{
		"CONTROL_PLANE_ENDPOINT_IPV6":       c.network.address6("5"),
		"OLVM_DNS_SERVER":                   c.network.address6("1"),
		"OLVM_SUBNET_IPV6":                  c.network.address6("/64"),
		"OLVM_GATEWAY_IPV6":                 c.network.address6("1"),
		"OLVM_CONTROL_PLANE_ADDRESSES_IPV6": c.network.address6("10") + "-" + c.network.address6("19"),
		"OLVM_WORKER_ADDRESSES_IPV6":        c.network.address6("100") + "-" + c.network.address6("109"),
	}, served)
	c.connect()
	c.expectMachines(1, 1, suite.image.Kubernetes)
	c.expectNodes(2)
	c.expectServingCertificates(2)
	c.deploy(1)
	c.expectAnswers(1)
	c.expectAddresses("IPv6 alone", func(own []string) bool {
		return len(own) == 1 && strings.Contains(own[0], ":")
	})
	c.expectServes(c.network.address6("5"))

	c.scale(1, 2, suite.image.Kubernetes)
	c.expectMachines(1, 2, suite.image.Kubernetes)
	c.delete()
}

// TestAClusterThatAnswersForItsNames lets the nodes resolve the names of the cluster, instead of the site's DNS.
func TestAClusterThatAnswersForItsNames(t *testing.T) {
	c := newCluster(t, "names")
	c.apply("cluster-template-dns.yaml", map[string]string{
		"CONTROL_PLANE_VIRTUAL_IP_PROVIDER": "Keepalived",
		"CLUSTER_DOMAIN":                    "names.example.com",
	}, func(object *unstructured.Unstructured) {
		if object.GetKind() == "OLVMCluster" { // the image that is available here
			fields := []string{"spec", "controlPlaneServices", "dns", "image"}
			_ = unstructured.SetNestedField(object.Object, suite.image.CoreDNS, fields...)
		}
	})
	c.connect()
	c.expectMachines(1, 1, suite.image.Kubernetes)
	c.expectName("api.names.example.com")
	c.delete()
}
