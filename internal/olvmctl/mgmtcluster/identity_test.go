package mgmtcluster

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

const ownUID = "11111111-2222-3333-4444-555555555555"

// clusterAt returns a management cluster with objects.
func clusterAt(t *testing.T, objects ...client.Object) *Cluster {
	t.Helper()
	scheme, err := newScheme()
	check.Error(t, err, "")

	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: ownUID}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, system)...).Build()

	return &Cluster{Client: c, Namespace: "prod", config: &rest.Config{Host: "https://127.0.0.1:1"}}
}

// prod returns a Cluster with a running control plane.
func prod(identity string) *clusterv1.Cluster {
	out := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "prod"}}
	out.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 1}
	out.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	if identity != "" {
		out.Annotations = map[string]string{IdentityAnnotation: identity}
	}

	return out
}

// authorityPEM returns a new CA.
func authorityPEM(t *testing.T) []byte {
	t.Helper()
	key, err := certs.NewSigner(bootstrapv1.EncryptionAlgorithmECDSAP256)
	check.Error(t, err, "")
	ca, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "kubernetes"}, key)
	check.Error(t, err, "")

	return certs.EncodeCertPEM(ca)
}

func secretOf(name, key string, value []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "prod-" + name}, Data: map[string][]byte{key: value},
	}
}

func TestWhetherAClusterManagesItself(t *testing.T) {
	own, other := authorityPEM(t), authorityPEM(t)
	rootCA := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: rootCAName},
		Data:       map[string]string{"ca.crt": string(own)},
	}
	first := prod("") // an interrupted command has applied the Cluster, but not its infrastructure
	first.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{}
	young := prod("")
	young.Status.Initialization.ControlPlaneInitialized = nil

	with := func(objects ...client.Object) []client.Object { return objects }
	ofProd := func(ca []byte) client.Object { return secretOf("ca", "tls.crt", ca) }
	const unknown = "cannot determine whether prod manages itself"

	for name, test := range map[string]struct {
		cluster *clusterv1.Cluster
		objects []client.Object
		want    bool
		problem string
	}{
		"its identity is that of the management cluster":  {prod(ownUID), nil, true, ""},
		"its identity is another one, at the same server": {prod("other"), nil, false, ""},
		"it has no API server yet":                        {young, nil, false, ""},
		"it has no endpoint yet":                          {first, nil, false, ""},
		"its kubeconfig comes before its API server":      {young, with(young.DeepCopy(), unanswered(t)), false, ""},
		"a moved cluster may be this one": {
			young, with(young.DeepCopy(), unanswered(t), rootCA, ofProd(own)), false, unknown,
		},
		"its API server is down":           {prod(""), with(prod(""), unanswered(t)), false, unknown},
		"nothing says it":                  {prod(""), nil, false, unknown},
		"its CA is different":              {prod(""), with(rootCA, ofProd(other)), false, ""},
		"an equal CA proves nothing":       {prod(""), with(rootCA, ofProd(own)), false, unknown},
		"the management cluster has no CA": {prod(""), with(ofProd(own)), false, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := clusterAt(t, test.objects...).IsWorkloadOf(t.Context(), test.cluster)
			check.Error(t, err, test.problem)
			check.Equal(t, "whether it is", got, test.want)
		})
	}
}

// unanswered returns the kubeconfig of prod, with an unreachable server.
func unanswered(t *testing.T) client.Object {
	t.Helper()

	config := clientcmdapi.NewConfig()
	config.CurrentContext = "a"
	config.Clusters["a"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	config.AuthInfos["a"] = &clientcmdapi.AuthInfo{Token: "a"}
	config.Contexts["a"] = &clientcmdapi.Context{Cluster: "a", AuthInfo: "a"}
	content, err := clientcmd.Write(*config)
	check.Error(t, err, "")

	return secretOf("kubeconfig", "value", content)
}

// TestTheKubeconfigOfATenantRunsNoPrograms has a tenant who writes the Secret with the kubeconfig. The command uses
// this Secret to find the cluster's identity.
func TestTheKubeconfigOfATenantRunsNoPrograms(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	config := clientcmdapi.NewConfig()
	config.CurrentContext = "a"
	config.Clusters["a"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	config.AuthInfos["a"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: "touch", Args: []string{ran},
		InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}
	config.Contexts["a"] = &clientcmdapi.Context{Cluster: "a", AuthInfo: "a"}
	content, err := clientcmd.Write(*config)
	check.Error(t, err, "")

	cluster := prod("")
	c := clusterAt(t, cluster, secretOf("kubeconfig", "value", content))
	_, err = c.IsWorkloadOf(t.Context(), cluster)
	check.Error(t, err, "users[].user.exec")

	if _, err := os.Stat(ran); err == nil {
		t.Error("the program was run")
	}
}

func TestAnotherIdentityThanTheRecordedOneIsRefused(t *testing.T) {
	c := clusterAt(t, prod(""))
	check.Error(t, c.RecordIdentity(t.Context(), "prod", types.UID("a")), "")
	check.Error(t, c.RecordIdentity(t.Context(), "prod", types.UID("a")), "")
	check.Error(t, c.RecordIdentity(t.Context(), "prod", types.UID("b")), "is for another cluster")
}

// TestTheContextIsResolvedOnce switches the context of a kubeconfig during a command.
func TestTheContextIsResolvedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	testenv.WriteKubeconfig(t, path, "https://first:6443")
	read, err := Options{Kubeconfig: path}.Read()
	check.Error(t, err, "")

	before, err := Connect(read)
	check.Error(t, err, "")
	testenv.WriteKubeconfig(t, path, "https://second:6443")

	after, err := Connect(read)
	check.Error(t, err, "")
	check.Equal(t, "the server", after.Server(), before.Server())
	check.Equal(
		t,
		"the server of clusterctl",
		after.ClusterctlAccess().Config.Clusters["test"].Server,
		"https://first:6443",
	)
	check.Equal(t, "where it is", after.DescribeLocation(), "https://first:6443 (context test of "+path+")")
}

func TestAContextThatIsNamedIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	config := clientcmdapi.NewConfig()

	for _, name := range []string{"a", "b"} {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + name + ":6443"}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: name}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}

	config.CurrentContext = "a"
	check.Error(t, clientcmd.WriteToFile(*config, path), "")

	c, err := Connect(Options{Kubeconfig: path, Context: "b"})
	check.Error(t, err, "")
	check.Equal(t, "the server", c.Server(), "https://b:6443")
	check.Equal(t, "contexts that clusterctl sees", len(c.ClusterctlAccess().Config.Contexts), 1)
}
