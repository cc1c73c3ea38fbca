package controllers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testcsr"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// workloadServer is a second kube-apiserver, in the role of the workload cluster. The first test that needs it starts
// it, and all tests share it. The machines of these tests need unique names.
type workloadServer struct {
	env        *envtest.Environment
	config     *rest.Config
	client     client.Client
	kubeconfig []byte
}

func startWorkloadServer() (*workloadServer, error) {
	w := &workloadServer{
		env: &envtest.Environment{
			BinaryAssetsDirectory:    suite.assets,
			ControlPlaneStartTimeout: wait.Limit,
			ControlPlaneStopTimeout:  wait.Limit,
		},
	}
	localplane.KeepToLoopback(w.env.ControlPlane.GetAPIServer())
	suite.stopWorkload = func() { _ = w.env.Stop() }
	var err error
	if w.config, err = w.env.Start(); err != nil {
		return nil, err
	}

	admin, err := w.env.AddUser(envtest.User{Name: "kubernetes-admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return nil, err
	}

	if w.kubeconfig, err = admin.KubeConfig(); err != nil {
		return nil, err
	}

	if w.client, err = client.New(w.config, client.Options{}); err != nil {
		return nil, err
	}

	return w, w.client.Create(context.Background(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "nodes"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}},
	})
}

var workloadOnce = sync.OnceValues(startWorkloadServer)

// workload creates the kubeconfig Secret of the site's Cluster, and returns its workload cluster.
func (s *site) workload() *workloadServer {
	s.T.Helper()
	w, err := workloadOnce()
	if err != nil {
		s.T.Fatal(err)
	}

	s.UseEndpoint(w.config.Host)
	s.Create(&corev1.Secret{
		ObjectMeta: s.NewMeta("demo-kubeconfig"),
		Type:       clusterv1.ClusterSecretType,
		Data:       map[string][]byte{"value": w.kubeconfig},
	})

	return w
}

// as returns a client with the identity of a node's kubelet.
func (w *workloadServer) as(t *testing.T, node string) client.Client {
	t.Helper()
	config := rest.CopyConfig(w.config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:node:" + node,
		Groups:   []string{"system:nodes", "system:authenticated"},
	}
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}

	return c
}

func (s *site) expectEvent(about, reason, text string) {
	s.T.Helper()
	s.Eventually(reason+" is an event of "+about, func() error {
		var list eventsv1.EventList
		if err := suite.client.List(context.Background(), &list, client.InNamespace(s.Namespace)); err != nil {
			return err
		}

		var others []string

		for _, event := range list.Items {
			if event.Regarding.Name == about && event.Reason == reason && strings.Contains(event.Note, text) {
				return nil
			}

			others = append(others, fmt.Sprintf("%s of %s: %s", event.Reason, event.Regarding.Name, event.Note))
		}

		return fmt.Errorf("there are %q", others)
	})
}

func TestNodesGetTheirProviderIDWhereTheKubeletSetNone(t *testing.T) {
	s := newSite(t, nil)
	w := s.workload()
	ctx := t.Context()

	one, two, three := s.CreateMachine("id-one", nil), s.CreateMachine("id-two", nil), s.CreateMachine("id-three", nil)
	for _, m := range []*infrav1.OLVMMachine{one, two, three} {
		s.ExpectProvisioned(m)
	}

	register := func(name, providerID, address string) *corev1.Node {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
		if err := w.client.Create(ctx, node); err != nil {
			t.Fatal(err)
		}

		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		if err := w.client.Status().Update(ctx, node); err != nil {
			t.Fatal(err)
		}

		return node
	}
	impostor := register("id-two", "", "192.168.7.7")
	other := register("id-three", "other://three", three.Status.OLVM.IPAddress)
	stranger := register("id-stranger", "", one.Status.OLVM.IPAddress)
	node := register("id-one", "", one.Status.OLVM.IPAddress)
	s.Eventually("the node has the provider ID of its machine", func() error {
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}

		if node.Spec.ProviderID != one.Spec.ProviderID {
			return fmt.Errorf("it has %q", node.Spec.ProviderID)
		}

		return nil
	})
	s.expectEvent(two.Name, infrav1.NodeNotRecognizedReason, "192.168.7.7")

	for node, want := range map[*corev1.Node]string{impostor: "", other: "other://three", stranger: ""} {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(node), node)
		if err != nil || node.Spec.ProviderID != want {
			t.Errorf("node %s has %q, %v", node.Name, node.Spec.ProviderID, err)
		}
	}
}

// TestNodesSayWhereTheirMachinesAre covers a Node's labels for the data center and the host. The controller restores
// removed labels, and keeps a zone set by the kubelet.
func TestNodesSayWhereTheirMachinesAre(t *testing.T) {
	s := newSite(t, nil)
	w := s.workload()
	ctx := t.Context()

	m := s.CreateMachine("where", nil)
	s.ExpectProvisioned(m)

	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.Name, Labels: map[string]string{corev1.LabelTopologyZone: "rack-7"}},
		Spec:       corev1.NodeSpec{ProviderID: m.Spec.ProviderID},
	}
	if err := w.client.Create(ctx, node); err != nil {
		t.Fatal(err)
	}

	expect := func(what string) {
		t.Helper()
		s.Eventually(what, func() error {
			if err := s.Client.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
				return err
			}

			if err := w.client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
				return err
			}

			host := m.Status.OLVM.VirtualMachine.HostName
			if host == "" || node.Labels[infrav1.HostLabel] != host || node.Labels[corev1.LabelTopologyRegion] != "Default" {
				return fmt.Errorf("the VM runs on %q, and the node has %v", host, node.Labels)
			}

			return nil
		})
	}
	expect("the node has the labels of its machine")

	before := node.DeepCopy()
	delete(node.Labels, corev1.LabelTopologyRegion)
	if err := w.client.Patch(ctx, node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}

	expect("a label that was removed is back")
	check.Equal(t, "the zone that the kubelet has set", node.Labels[corev1.LabelTopologyZone], "rack-7")

	left := m.Status.OLVM.VirtualMachine.HostName
	check.Error(t, s.Sim.MaintainHost(left), "") // moves the VMs to other hosts
	s.Eventually("the machine says that its VM has moved", func() error {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}

		if m.Status.OLVM.VirtualMachine.HostName == left {
			return errors.New("it runs on " + left)
		}

		return nil
	})
	expect("the label follows the VM")
}

func TestServingCertificatesOfMachinesAreApprovedAndOthersAreLeftAlone(t *testing.T) {
	s := newSite(t, nil)
	w := s.workload()
	ctx := t.Context()
	m := s.CreateMachine("csr-one", nil)
	kubelet := w.as(t, m.Name)

	// A request waits until the machine has an address. It is not denied.
	early := testcsr.CSR(t, m.Name, testcsr.NewRequest(m.Name, "10.0.0.10"))
	if err := kubelet.Create(ctx, early); err != nil {
		t.Fatal(err)
	}

	s.ExpectProvisioned(m)
	if m.Status.OLVM.IPAddress != "10.0.0.10" {
		t.Fatalf("the machine has %s", m.Status.OLVM.IPAddress)
	}

	greedy := testcsr.NewRequest(m.Name, "10.0.0.10")
	greedy.DNSNames = append(greedy.DNSNames, "payroll")
	wrong := testcsr.CSR(t, m.Name, greedy)

	stranger := testcsr.CSR(t, "csr-stranger", testcsr.NewRequest("csr-stranger", "10.0.0.10"))
	for c, csr := range map[client.Client]*certificatesv1.CertificateSigningRequest{
		kubelet:                 wrong,
		w.as(t, "csr-stranger"): stranger,
	} {
		if err := c.Create(ctx, csr); err != nil {
			t.Fatal(err)
		}
	}

	later := testcsr.CSR(t, m.Name, testcsr.NewRequest(m.Name, "10.0.0.10"))
	if err := kubelet.Create(ctx, later); err != nil {
		t.Fatal(err)
	}

	for _, csr := range []*certificatesv1.CertificateSigningRequest{early, later} {
		s.Eventually("the request is approved", func() error {
			if err := w.client.Get(ctx, client.ObjectKeyFromObject(csr), csr); err != nil {
				return err
			}

			if len(csr.Status.Conditions) != 1 || csr.Status.Conditions[0].Type != certificatesv1.CertificateApproved ||
				csr.Status.Conditions[0].Reason != infrav1.ServingCertificateApprovedReason {
				return errors.New("it is not")
			}

			return nil
		})
	}

	s.expectEvent(m.Name, infrav1.ServingCertificateApprovedReason, "") // later events are counted in its series
	s.expectEvent(m.Name, infrav1.ServingCertificateNotApprovedReason, `"payroll"`)

	for _, csr := range []*certificatesv1.CertificateSigningRequest{wrong, stranger} {
		err := w.client.Get(ctx, client.ObjectKeyFromObject(csr), csr)
		if err != nil || len(csr.Status.Conditions) != 0 {
			t.Errorf("request of %s: %+v, %v", csr.Spec.Username, csr.Status.Conditions, err)
		}
	}
}
