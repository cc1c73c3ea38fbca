package workload_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workload"
)

var endpoint = clusterv1.APIEndpoint{Host: "10.0.0.5", Port: 6443}

// config returns a kubeconfig in the form of the kubeadm control plane, after a change.
func config(t *testing.T, change func(*clientcmdapi.Config, *clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) []byte {
	t.Helper()
	cluster := &clientcmdapi.Cluster{Server: "https://10.0.0.5:6443", CertificateAuthorityData: []byte("ca")}
	user := &clientcmdapi.AuthInfo{ClientCertificateData: []byte("cert"), ClientKeyData: []byte("key")}
	all := &clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"demo": cluster},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"demo-admin": user},
		Contexts:       map[string]*clientcmdapi.Context{"demo-admin@demo": {Cluster: "demo", AuthInfo: "demo-admin"}},
		CurrentContext: "demo-admin@demo",
	}
	if change != nil {
		change(all, cluster, user)
	}

	raw, err := clientcmd.Write(*all)
	if err != nil {
		t.Fatal(err)
	}

	return raw
}

func TestKubeconfigsThatAreRefused(t *testing.T) {
	type (
		all     = *clientcmdapi.Config
		cluster = *clientcmdapi.Cluster
		user    = *clientcmdapi.AuthInfo
	)
	const token = "/var/run/secrets/kubernetes.io/serviceaccount/token"

	for field, change := range map[string]func(all, cluster, user){
		"users[].user.tokenFile":          func(_ all, _ cluster, u user) { u.TokenFile = token },
		"users[].user.client-certificate": func(_ all, _ cluster, u user) { u.ClientCertificate = token },
		"users[].user.client-key":         func(_ all, _ cluster, u user) { u.ClientKey = token },
		"users[].user.exec": func(_ all, _ cluster, u user) {
			u.Exec = &clientcmdapi.ExecConfig{Command: "sh", APIVersion: "client.authentication.k8s.io/v1"}
		},
		"users[].user.auth-provider": func(_ all, _ cluster, u user) {
			u.AuthProvider = &clientcmdapi.AuthProviderConfig{
				Name: "oidc",
			}
		},
		"users[].user.as":                          func(_ all, _ cluster, u user) { u.Impersonate = "system:masters" },
		"clusters[].cluster.certificate-authority": func(_ all, c cluster, _ user) { c.CertificateAuthority = token },
		"clusters[].cluster.proxy-url": func(_ all, c cluster, _ user) {
			c.ProxyURL = "http://192.0.2.1:3128"
		},
		"clusters[].cluster.insecure-skip-tls-verify": func(_ all, c cluster, _ user) {
			c.InsecureSkipTLSVerify = true
			c.CertificateAuthorityData = nil
		},
		"clusters[].cluster.server: it is not the Cluster's": func(_ all, c cluster, _ user) {
			c.Server = "https://192.0.2.1:6443"
		},
		"clusters[].cluster.server: it is not the https": func(_ all, c cluster, _ user) {
			c.Server = "http://10.0.0.5:6443"
		},
		"clusters[].cluster.server: it is not the https URL": func(_ all, c cluster, _ user) {
			c.Server = "https://10.0.0.5:6443/proxy"
		},
		"current-context":    func(a all, _ cluster, _ user) { a.CurrentContext = "" },
		"contexts[].context": func(a all, _ cluster, _ user) { a.AuthInfos = nil },
	} {
		t.Run(field, func(t *testing.T) {
			out, err := workload.SanitizeKubeconfig(config(t, change), endpoint)
			var refused *workload.RefusedError
			check.Equal(t, "errors.As(err, &refused)", errors.As(err, &refused), true)
			check.Equal(t, "strings.HasPrefix(err.Error(), field)", strings.HasPrefix(err.Error(), field), true)
			if out != nil {
				t.Errorf("out is there: %v", out)
			}

			if err != nil && strings.Contains(err.Error(), token) {
				t.Errorf("the message repeats what is in the kubeconfig: %v", err)
			}
		})
	}

	if _, err := workload.SanitizeKubeconfig([]byte("\x00{"), endpoint); err == nil {
		t.Error("something that is no kubeconfig was taken")
	}

	if _, err := workload.SanitizeKubeconfig(config(t, nil), clusterv1.APIEndpoint{}); err == nil {
		t.Error("a Cluster without an endpoint has a kubeconfig")
	}
}

// TestAKubeconfigHasNothingElse verifies that the current context stays, and that the unchecked rest is dropped.
func TestAKubeconfigHasNothingElse(t *testing.T) {
	raw := config(t, func(all *clientcmdapi.Config, _ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
		user.Token = "t"
		all.AuthInfos["other"] = &clientcmdapi.AuthInfo{TokenFile: "/token"}
		all.Contexts["other"] = &clientcmdapi.Context{Cluster: "demo", AuthInfo: "other"}
		all.Extensions = map[string]runtime.Object{
			"x": &runtime.Unknown{Raw: []byte(`{"a":"b"}`), ContentType: "application/json"},
		}
	})
	out, err := workload.SanitizeKubeconfig(raw, endpoint)
	if err != nil {
		t.Fatal(err)
	}

	check.Lacks(t, "string(out)", string(out), "other")
	check.Lacks(t, "string(out)", string(out), "/token")
	check.Lacks(t, "string(out)", string(out), "extensions")

	rest, err := clientcmd.RESTConfigFromKubeConfig(out)
	check.Error(t, err, "")
	check.Equal(t, "rest.Host", rest.Host, "https://10.0.0.5:6443")
	check.Equal(t, "string(rest.CAData)", string(rest.CAData), "ca")
	check.Equal(t, "string(rest.CertData)", string(rest.CertData), "cert")
	check.Equal(t, "string(rest.KeyData)", string(rest.KeyData), "key")
	check.Equal(t, "rest.BearerToken", rest.BearerToken, "t")
}

func TestAnAddressMayBeSpelledOtherwise(t *testing.T) {
	raw := config(t, func(_ *clientcmdapi.Config, c *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
		c.Server = "https://[fd00:0::5]:6443/"
	})
	if _, err := workload.SanitizeKubeconfig(raw, clusterv1.APIEndpoint{Host: "fd00::5", Port: 6443}); err != nil {
		t.Error(err)
	}
}

func TestSecretsAreReadAsKubeconfigsAndNothingElse(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}

	key := client.ObjectKey{Namespace: "a", Name: "demo"}
	written := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "demo-kubeconfig"},
		Data:       map[string][]byte{"value": config(t, nil), "more": []byte("x")},
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(written,
		&clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "demo"},
			Spec:       clusterv1.ClusterSpec{ControlPlaneEndpoint: endpoint},
		},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "demo-ca"}}).Build()
	secrets := workload.Secrets{Reader: api, Clusters: api}

	read := &corev1.Secret{}
	err := secrets.Get(t.Context(), workload.KubeconfigSecret(key), read)
	check.Error(t, err, "")
	check.Equal(t, "len(read.Data)", len(read.Data), 1)
	check.Set(t, `len(read.Data["value"])`, len(read.Data["value"]))

	if err := secrets.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "demo-ca"}, read); err == nil {
		t.Error("another Secret was read")
	}

	if err := secrets.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "demo-kubeconfig"}, read); err == nil {
		t.Error("a kubeconfig without a Cluster was read")
	}
}
