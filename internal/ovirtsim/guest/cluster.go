package guest

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	cloudv1 "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/cloud/api/v1alpha1"
	inmemoryruntime "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"
	inmemoryapi "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server/api"
	inmemoryetcd "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server/etcd"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// staticPods are the static pods of each control plane node.
var staticPods = []string{"etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"}

// workloadCluster is a Kubernetes cluster in memory. It serves its control plane endpoint as long as it has an API
// server.
type workloadCluster struct {
	guests    *Guests
	address   string // ip:port
	group     string // name of the resource group; a later cluster at the same address gets another one
	host      string // host name as in the endpoint
	clusterCA *authority
	etcdCA    *authority
	server    *http.Server

	// apiServers are the nodes with a running API server. guests.mu guards it.
	apiServers map[string]bool
	// closed reports that the cluster no longer exists. guests.mu guards it.
	closed bool

	certMu   sync.Mutex
	serving  *tls.Certificate
	etcdCert map[string]*tls.Certificate // by the name of the etcd pod
	key      *rsa.PrivateKey
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		cloudv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("failed to build the scheme: %w", err)
		}
	}

	return scheme, nil
}

// listenAddress resolves an endpoint to an address of the form ip:port.
func listenAddress(endpoint string) (string, error) {
	address, err := net.ResolveTCPAddr("tcp", endpoint)
	if err != nil {
		return "", fmt.Errorf("the control plane endpoint %s does not resolve: %w", endpoint, err)
	}

	return address.String(), nil
}

// newCluster creates an empty cluster for its first node. The caller must hold guests.mu.
func (g *Guests) newCluster(n *node, address string) (*workloadCluster, error) {
	if g.ctx.Err() != nil {
		return nil, errClosed
	}

	if g.clusters[address] != nil {
		return nil, fmt.Errorf("another cluster already serves %s", n.endpoint)
	}

	host, _, _ := net.SplitHostPort(n.endpoint)
	key, err := certs.NewPrivateKey()
	if err != nil {
		return nil, fmt.Errorf("failed to make a key: %w", err)
	}

	g.founded++
	c := &workloadCluster{
		guests:     g,
		address:    address,
		group:      fmt.Sprintf("%s#%d", address, g.founded),
		host:       host,
		clusterCA:  n.clusterCA,
		etcdCA:     n.etcdCA,
		key:        key,
		apiServers: map[string]bool{}, etcdCert: map[string]*tls.Certificate{},
	}
	ip, _, _ := net.SplitHostPort(address)
	names := certs.AltNames{
		DNSNames: []string{"localhost", "kubernetes", "kubernetes.default"},
		IPs:      []net.IP{net.ParseIP(ip), net.IPv4(127, 0, 0, 1)},
	}
	if net.ParseIP(host) == nil {
		names.DNSNames = append(names.DNSNames, host)
	}

	if c.serving, err = c.signCertificate(n.clusterCA, "kube-apiserver", names); err != nil {
		return nil, err
	}

	g.manager.AddResourceGroup(c.group)

	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespacePublic, metav1.NamespaceSystem} {
		meta := metav1.ObjectMeta{Name: name, UID: uuid.NewUUID()} // the UID of kube-system identifies the cluster
		if err := c.ensureObject(g.ctx, &corev1.Namespace{ObjectMeta: meta}); err != nil {
			return nil, err
		}
	}

	return c, nil
}

func (c *workloadCluster) client() inmemoryruntime.Client {
	return c.guests.manager.GetResourceGroup(c.group).GetClient()
}

// ensureObject creates an object, unless it exists.
func (c *workloadCluster) ensureObject(ctx context.Context, object client.Object) error {
	if err := c.client().Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("failed to create %T %s: %w", object, object.GetName(), err)
	}

	return nil
}

func (c *workloadCluster) signCertificate(ca *authority, name string, names certs.AltNames) (*tls.Certificate, error) {
	config := certs.Config{
		CommonName: name,
		AltNames:   names,
		Usages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := config.NewSignedCert(c.key, ca.cert, ca.key)
	if err != nil {
		return nil, fmt.Errorf("failed to sign the certificate of %s: %w", name, err)
	}

	pair, err := tls.X509KeyPair(certs.EncodeCertPEM(cert), certs.EncodePrivateKeyPEM(c.key))
	if err != nil {
		return nil, fmt.Errorf("failed to load the certificate of %s: %w", name, err)
	}

	return &pair, nil
}

// serveEndpoint starts to serve the control plane endpoint.
func (c *workloadCluster) serveEndpoint() error {
	listener, err := net.Listen("tcp", c.address) //nolint:noctx // at once
	if err != nil {
		return fmt.Errorf("kube-apiserver: failed to listen on the control plane endpoint: %w", err)
	}

	group := func(string) (string, error) { return c.group, nil }
	logger := c.guests.log.WithValues("cluster", c.address)
	api := inmemoryapi.NewAPIServerHandler(c.guests.manager, logger, group)
	etcd := inmemoryetcd.NewEtcdServerHandler(c.guests.manager, logger, group)
	backend := c.guests.backendOf(c.address)
	c.server = &http.Server{
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // the in-memory API server answers some requests twice
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.selectCertificate},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
				etcd.ServeHTTP(w, r)
				return
			}

			if backend != nil && !inMemory.MatchString(r.URL.Path) {
				backend.ServeHTTP(w, r)
				return
			}

			if c.serveTable(w, r) {
				return
			}

			// For the discovery of an unknown group, the in-memory server returns a nonstandard error.
			if strings.HasPrefix(r.URL.Path, "/apis/"+certificatesv1.GroupName) {
				http.NotFound(w, r)
				return
			}

			// Port forwarding connects to the host of the request, so the host must be this listener.
			r.Host = c.address

			// The in-memory server stores the status with the object.
			r.URL.Path = strings.TrimSuffix(r.URL.Path, "/status")
			api.ServeHTTP(w, r)
		}),
	}
	server := c.server
	go func() { _ = server.ServeTLS(listener, "", "") }()

	return nil
}

// selectCertificate returns the certificate of the named etcd member. For other names, it returns the API server's
// certificate.
func (c *workloadCluster) selectCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.certMu.Lock()
	defer c.certMu.Unlock()
	if cert, ok := c.etcdCert[hello.ServerName]; ok {
		return cert, nil
	}

	return c.serving, nil
}

// close stops the endpoint and drops all objects. The caller must hold guests.mu.
func (c *workloadCluster) close() {
	c.closed = true
	c.stopServer()
	c.guests.manager.DeleteResourceGroup(c.group)
}

func (c *workloadCluster) stopServer() {
	if c.server != nil {
		_ = c.server.Close()
		c.server = nil
	}
}

// startNode starts the components of a node, such as its kubelet. The caller must hold guests.mu.
func (c *workloadCluster) startNode(ctx context.Context, n *node) error {
	if n.controlPlane {
		return c.addControlPlane(ctx, n)
	}

	return c.addNode(ctx, n)
}

// addControlPlane turns the node into a control plane node. It adds an etcd member, an API server, the other static
// pods, and kubeadm's objects for a new cluster. The caller must hold guests.mu.
func (c *workloadCluster) addControlPlane(ctx context.Context, n *node) error {
	if err := c.addNode(ctx, n); err != nil {
		return err
	}

	if err := c.addEtcdMember(ctx, n); err != nil {
		return err
	}

	for _, component := range staticPods[1:] {
		if err := c.ensureObject(ctx, staticPod(component, n, nil)); err != nil {
			return err
		}
	}

	for _, object := range kubeadmObjects(n) {
		if err := c.ensureObject(ctx, object); err != nil {
			return err
		}
	}

	if c.server == nil {
		if err := c.serveEndpoint(); err != nil {
			return err
		}
	}

	c.apiServers[n.name] = true

	return nil
}

func (c *workloadCluster) removeAPIServer(n *node) {
	delete(c.apiServers, n.name)
	if len(c.apiServers) == 0 {
		c.stopServer()
	}
}

func staticPod(component string, n *node, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: component + "-" + n.name, Annotations: annotations,
			Labels: map[string]string{"component": component, "tier": "control-plane"},
		},
		Spec: corev1.PodSpec{NodeName: n.name},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

// kubeadmObjects returns those objects of kubeadm init that Cluster API reads.
func kubeadmObjects(n *node) []client.Object {
	system := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}
	}
	pod := func(name, image string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: image}}}}
	}
	getNodes := metav1.ObjectMeta{Name: "kubeadm:get-nodes"}

	return []client.Object{
		&rbacv1.ClusterRole{
			ObjectMeta: getNodes,
			Rules: []rbacv1.PolicyRule{
				{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}},
			},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: getNodes,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: getNodes.Name},
			Subjects: []rbacv1.Subject{
				{Kind: rbacv1.GroupKind, Name: "system:bootstrappers:kubeadm:default-node-token"},
			},
		},
		&corev1.ConfigMap{ObjectMeta: system("kubeadm-config"), Data: map[string]string{"ClusterConfiguration": ""}},
		&corev1.ConfigMap{
			ObjectMeta: system("coredns"),
			Data:       map[string]string{"Corefile": ".:53 {\n    errors\n}\n"},
		},
		&appsv1.Deployment{
			ObjectMeta: system("coredns"),
			Spec:       appsv1.DeploymentSpec{Template: pod("coredns", n.coreDNS)},
		},
		&appsv1.DaemonSet{
			ObjectMeta: system("kube-proxy"),
			Spec:       appsv1.DaemonSetSpec{Template: pod("kube-proxy", "registry.k8s.io/kube-proxy:"+n.version)},
		},
	}
}
