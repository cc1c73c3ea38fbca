package guest

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	cloudv1 "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/cloud/api/v1alpha1"
	inmemoryruntime "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"
	inmemoryapi "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server/api"
	inmemoryetcd "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server/etcd"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// staticPods run on a control plane node.
var staticPods = []string{"etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"}

// workloadCluster is a Kubernetes cluster in memory, served on its control plane endpoint while it has an API server.
type workloadCluster struct {
	guests    *Guests
	address   string // ip:port
	group     string // its resource group; no later cluster at the same address has it
	host      string // as the endpoint names it
	clusterCA *authority
	etcdCA    *authority
	server    *http.Server

	// apiServers are the nodes whose API server runs; guarded by guests.mu.
	apiServers map[string]bool
	// closed says that all of it is gone; guarded by guests.mu.
	closed bool

	certMu   sync.Mutex
	serving  *tls.Certificate
	etcdCert map[string]*tls.Certificate // by the name of the etcd pod
	key      *rsa.PrivateKey
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, cloudv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("failed to build the scheme: %w", err)
		}
	}
	return scheme, nil
}

// listenAddress resolves an endpoint to the ip:port that serves it.
func listenAddress(endpoint string) (string, error) {
	address, err := net.ResolveTCPAddr("tcp", endpoint)
	if err != nil {
		return "", fmt.Errorf("the control plane endpoint %s does not resolve: %w", endpoint, err)
	}
	return address.String(), nil
}

// newCluster makes an empty cluster for the node that initialises it. guests.mu is held.
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
		guests: g, address: address, group: fmt.Sprintf("%s#%d", address, g.founded), host: host, clusterCA: n.clusterCA, etcdCA: n.etcdCA, key: key,
		apiServers: map[string]bool{}, etcdCert: map[string]*tls.Certificate{},
	}
	ip, _, _ := net.SplitHostPort(address)
	names := certs.AltNames{DNSNames: []string{"localhost", "kubernetes", "kubernetes.default"}, IPs: []net.IP{net.ParseIP(ip), net.IPv4(127, 0, 0, 1)}}
	if net.ParseIP(host) == nil {
		names.DNSNames = append(names.DNSNames, host)
	}
	if c.serving, err = c.sign(n.clusterCA, "kube-apiserver", names); err != nil {
		return nil, err
	}
	g.manager.AddResourceGroup(c.group)
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespacePublic, metav1.NamespaceSystem} {
		if err := c.create(g.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *workloadCluster) client() inmemoryruntime.Client {
	return c.guests.manager.GetResourceGroup(c.group).GetClient()
}

// create makes an object, and is content when it exists.
func (c *workloadCluster) create(ctx context.Context, object client.Object) error {
	if err := c.client().Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("failed to create %T %s: %w", object, object.GetName(), err)
	}
	return nil
}

func (c *workloadCluster) sign(ca *authority, name string, names certs.AltNames) (*tls.Certificate, error) {
	config := certs.Config{CommonName: name, AltNames: names, Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
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

// serve opens the endpoint.
func (c *workloadCluster) serve() error {
	listener, err := net.Listen("tcp", c.address) //nolint:noctx // at once
	if err != nil {
		return fmt.Errorf("kube-apiserver: failed to listen on the control plane endpoint: %w", err)
	}
	group := func(string) (string, error) { return c.group, nil }
	logger := c.guests.log.WithValues("cluster", c.address)
	api := inmemoryapi.NewAPIServerHandler(c.guests.manager, logger, group)
	etcd := inmemoryetcd.NewEtcdServerHandler(c.guests.manager, logger, group)
	c.server = &http.Server{
		ReadHeaderTimeout: 30 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // the in-memory API server answers some requests twice
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.certificate},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
				etcd.ServeHTTP(w, r)
				return
			}
			// Port forwarding tunnels back to the host of the request, which must be this listener.
			r.Host = c.address
			// The in-memory server keeps the status with the object.
			r.URL.Path = strings.TrimSuffix(r.URL.Path, "/status")
			api.ServeHTTP(w, r)
		}),
	}
	server := c.server
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return nil
}

// certificate picks the certificate of an etcd member by its name, else that of the API server.
func (c *workloadCluster) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.certMu.Lock()
	defer c.certMu.Unlock()
	if cert, ok := c.etcdCert[hello.ServerName]; ok {
		return cert, nil
	}
	return c.serving, nil
}

// close stops serving and drops all objects. guests.mu is held.
func (c *workloadCluster) close() {
	c.closed = true
	c.stop()
	c.guests.manager.DeleteResourceGroup(c.group)
}

func (c *workloadCluster) stop() {
	if c.server != nil {
		_ = c.server.Close()
		c.server = nil
	}
}

// admit checks what a joining node and the cluster know of each other. guests.mu is held.
func (c *workloadCluster) admit(ctx context.Context, n *node) error {
	for _, hash := range n.caHashes {
		if hash != c.clusterCA.hash() {
			return errors.New("the cluster CA does not match discovery.bootstrapToken.caCertHashes")
		}
	}
	if n.controlPlane && !bytes.Equal(n.clusterCA.cert.Raw, c.clusterCA.cert.Raw) {
		return errors.New("/etc/kubernetes/pki/ca.crt is not the CA of this cluster")
	}
	id, secret, ok := strings.Cut(n.token, ".")
	if !ok {
		return errors.New("discovery.bootstrapToken.token is not ID.SECRET")
	}
	var token corev1.Secret
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id}
	if err := c.client().Get(ctx, key, &token); err != nil {
		return fmt.Errorf("%w: the cluster does not know the bootstrap token: %w", errNotYet, err)
	}
	if string(token.Data["token-secret"]) != secret {
		return errors.New("the bootstrap token is wrong")
	}
	if expiration, err := time.Parse(time.RFC3339, string(token.Data["expiration"])); err == nil && expiration.Before(time.Now()) {
		return fmt.Errorf("the bootstrap token expired at %s", expiration.Format(time.RFC3339))
	}
	if err := c.admitVersion(n.version); err != nil {
		return err
	}
	return c.admitName(ctx, n.name)
}

// admitVersion refuses a kubeadm that is more than one minor version ahead of the control plane.
func (c *workloadCluster) admitVersion(joining string) error {
	kubeadm, err := version.ParseGeneric(joining)
	if err != nil {
		return fmt.Errorf("the version of kubeadm in the image is none: %w", err)
	}
	var newest *version.Version
	for _, m := range c.guests.members {
		if m.cluster != c || !m.node.controlPlane {
			continue
		}
		if v, err := version.ParseGeneric(m.node.version); err == nil && (newest == nil || newest.LessThan(v)) {
			newest = v
		}
	}
	if newest != nil && kubeadm.Minor() > newest.Minor()+1 {
		return fmt.Errorf("this version of kubeadm (%s) only supports control plane versions from %d.%d on; the cluster has %s", joining, kubeadm.Major(), kubeadm.Minor()-1, newest)
	}
	return nil
}

// admitName refuses a node whose name another one goes by.
func (c *workloadCluster) admitName(ctx context.Context, name string) error {
	var taken corev1.Node
	if err := c.client().Get(ctx, client.ObjectKey{Name: name}, &taken); err != nil {
		return client.IgnoreNotFound(err)
	}
	for _, condition := range taken.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return fmt.Errorf("a Node with name %q and status \"Ready\" already exists in the cluster", name)
		}
	}
	return nil
}

// start starts what runs on the node, as its kubelet does. guests.mu is held.
func (c *workloadCluster) start(ctx context.Context, n *node) error {
	if n.controlPlane {
		return c.addControlPlane(ctx, n)
	}
	return c.addNode(ctx, n)
}

// addNode registers the node, or brings it back. guests.mu is held.
func (c *workloadCluster) addNode(ctx context.Context, n *node) error {
	labels := map[string]string{"kubernetes.io/hostname": n.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
	for key, value := range n.labels {
		labels[key] = value
	}
	if n.controlPlane {
		labels["node-role.kubernetes.io/control-plane"] = ""
	}
	object := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: n.providerID},
		Status: corev1.NodeStatus{
			NodeInfo:  corev1.NodeSystemInfo{KubeletVersion: n.version, OperatingSystem: "linux", Architecture: "amd64"},
			Addresses: nodeAddresses(n),
			Conditions: []corev1.NodeCondition{
				nodeCondition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
				nodeCondition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
				nodeCondition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
				nodeCondition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
			},
		},
	}
	for _, t := range n.taints {
		object.Spec.Taints = append(object.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	if err := c.create(ctx, object); err != nil {
		return err
	}
	return c.report(ctx, n.name, func(status *corev1.NodeStatus) {
		status.Addresses = nodeAddresses(n)
		setCondition(status, corev1.ConditionTrue, "KubeletReady")
	})
}

func nodeAddresses(n *node) []corev1.NodeAddress {
	var out []corev1.NodeAddress
	for _, address := range n.addresses {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	return append(out, corev1.NodeAddress{Type: corev1.NodeHostName, Address: n.name})
}

func nodeCondition(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now()}
}

func (c *workloadCluster) setReady(ctx context.Context, name string, status corev1.ConditionStatus, reason string) error {
	return c.report(ctx, name, func(current *corev1.NodeStatus) { setCondition(current, status, reason) })
}

// setCondition sets the Ready condition; its transition time changes with its status only, from which a
// MachineHealthCheck counts.
func setCondition(current *corev1.NodeStatus, status corev1.ConditionStatus, reason string) {
	ready := nodeCondition(corev1.NodeReady, status, reason)
	for i, condition := range current.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		if condition.Status == status {
			ready.LastTransitionTime = condition.LastTransitionTime
		}
		current.Conditions[i] = ready
		return
	}
	current.Conditions = append(current.Conditions, ready)
}

// report changes the status of a Node.
func (c *workloadCluster) report(ctx context.Context, name string, change func(*corev1.NodeStatus)) error {
	var current corev1.Node
	if err := c.client().Get(ctx, client.ObjectKey{Name: name}, &current); err != nil {
		return fmt.Errorf("failed to get node %s: %w", name, err)
	}
	updated := current.DeepCopy()
	change(&updated.Status)
	if err := c.client().Patch(ctx, updated, client.MergeFrom(&current)); err != nil {
		return fmt.Errorf("failed to update node %s: %w", name, err)
	}
	return nil
}

// addControlPlane makes the node a control plane node: etcd member, API server, the other static pods, and what kubeadm
// puts into a new cluster. guests.mu is held.
func (c *workloadCluster) addControlPlane(ctx context.Context, n *node) error {
	if err := c.addNode(ctx, n); err != nil {
		return err
	}
	if err := c.addEtcdMember(ctx, n); err != nil {
		return err
	}
	for _, component := range staticPods[1:] {
		if err := c.create(ctx, staticPod(component, n, nil)); err != nil {
			return err
		}
	}
	for _, object := range kubeadmObjects(n.version) {
		if err := c.create(ctx, object); err != nil {
			return err
		}
	}
	if c.server == nil {
		if err := c.serve(); err != nil {
			return err
		}
	}
	c.apiServers[n.name] = true
	return nil
}

func (c *workloadCluster) removeAPIServer(n *node) {
	delete(c.apiServers, n.name)
	if len(c.apiServers) == 0 {
		c.stop()
	}
}

func staticPod(component string, n *node, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: component + "-" + n.name, Annotations: annotations,
			Labels: map[string]string{"component": component, "tier": "control-plane"},
		},
		Spec:   corev1.PodSpec{NodeName: n.name},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// addEtcdMember adds the pod from whose annotations the in-memory etcd derives its membership.
func (c *workloadCluster) addEtcdMember(ctx context.Context, n *node) error {
	name := "etcd-" + n.name
	names := certs.AltNames{DNSNames: []string{"localhost", name}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
	for _, address := range n.addresses {
		names.IPs = append(names.IPs, net.ParseIP(address))
	}
	cert, err := c.sign(n.etcdCA, name, names)
	if err != nil {
		return err
	}
	c.certMu.Lock()
	c.etcdCert[name] = cert
	c.certMu.Unlock()

	var pods corev1.PodList
	if err := c.client().List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"component": "etcd", "tier": "control-plane"}); err != nil {
		return fmt.Errorf("failed to list etcd members: %w", err)
	}
	clusterID, taken := "", map[string]bool{"0": true}
	for _, pod := range pods.Items {
		if _, removed := pod.Annotations[cloudv1.EtcdMemberRemoved]; removed {
			continue
		}
		if pod.Name == name {
			return nil // a restarted member comes back with its data
		}
		clusterID = pod.Annotations[cloudv1.EtcdClusterIDAnnotationName]
		taken[pod.Annotations[cloudv1.EtcdMemberIDAnnotationName]] = true
	}
	fresh := func() string {
		for {
			if id := fmt.Sprint(rand.Uint32()); !taken[id] { //nolint:gosec // an identity, not a secret
				return id
			}
		}
	}
	annotations := map[string]string{cloudv1.EtcdMemberIDAnnotationName: fresh()}
	if clusterID == "" {
		clusterID = fresh()
		annotations[cloudv1.EtcdLeaderFromAnnotationName] = time.Now().Format(time.RFC3339)
	}
	annotations[cloudv1.EtcdClusterIDAnnotationName] = clusterID
	return c.create(ctx, staticPod("etcd", n, annotations))
}

// electLeader hands the leadership to a member that runs when the one that is lost has it, as etcd does by itself.
// guests.mu is held.
func (c *workloadCluster) electLeader(ctx context.Context, lost string) error {
	var pods corev1.PodList
	if err := c.client().List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"component": "etcd", "tier": "control-plane"}); err != nil {
		return fmt.Errorf("failed to list etcd members: %w", err)
	}
	leader, since := "", time.Time{}
	var heir *corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		if from, err := time.Parse(time.RFC3339, pod.Annotations[cloudv1.EtcdLeaderFromAnnotationName]); err == nil && !from.Before(since) {
			leader, since = pod.Name, from
		}
		_, removed := pod.Annotations[cloudv1.EtcdMemberRemoved]
		if !removed && c.apiServers[pod.Spec.NodeName] {
			heir = pod
		}
	}
	if leader != lost || heir == nil {
		return nil
	}
	now := time.Now()
	if !now.Truncate(time.Second).After(since) {
		now = since.Add(time.Second) // the newest leads, and times are in seconds
	}
	crowned := heir.DeepCopy()
	crowned.Annotations[cloudv1.EtcdLeaderFromAnnotationName] = now.Format(time.RFC3339)
	if err := c.client().Patch(ctx, crowned, client.MergeFrom(heir)); err != nil {
		return fmt.Errorf("failed to make %s the leader: %w", heir.Name, err)
	}
	return nil
}

// kubeadmObjects are what kubeadm init leaves in a cluster, as far as Cluster API looks at it.
func kubeadmObjects(version string) []client.Object {
	system := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}
	}
	pod := func(name, image string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: image}}}}
	}
	getNodes := metav1.ObjectMeta{Name: "kubeadm:get-nodes"}
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: getNodes, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: getNodes,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: getNodes.Name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "system:bootstrappers:kubeadm:default-node-token"}},
		},
		&corev1.ConfigMap{ObjectMeta: system("kubeadm-config"), Data: map[string]string{"ClusterConfiguration": ""}},
		&corev1.ConfigMap{ObjectMeta: system("coredns"), Data: map[string]string{"Corefile": ".:53 {\n    errors\n}\n"}},
		&appsv1.Deployment{ObjectMeta: system("coredns"), Spec: appsv1.DeploymentSpec{Template: pod("coredns", "registry.k8s.io/coredns/coredns:v1.12.1")}},
		&appsv1.DaemonSet{ObjectMeta: system("kube-proxy"), Spec: appsv1.DaemonSetSpec{Template: pod("kube-proxy", "registry.k8s.io/kube-proxy:"+version)}},
	}
}
