// Package workload protects the manager's access to workload clusters. It determines which kubeconfigs the manager
// uses, and passes on only the necessary parts of them.
//
// Cluster API's cluster cache makes the connections.
package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RefusedError is the error for a kubeconfig that the manager does not use. It contains no credentials of the
// kubeconfig.
type RefusedError struct {
	// Field is the refused field of the kubeconfig, such as "users[].user.tokenFile".
	Field string
	// Problem describes the problem and its remedy.
	Problem string
}

func (e *RefusedError) Error() string { return e.Field + ": " + e.Problem }

// SanitizeKubeconfig returns a kubeconfig that contains only the current context, with its cluster and its user.
//
// Every user who may write Secrets in a namespace may write this Secret. The client library does everything that a
// kubeconfig says: it opens files of the manager, runs programs, and sends their content to any server. Therefore,
// SanitizeKubeconfig returns a RefusedError for a kubeconfig with files, programs or proxies. It also does so if the
// server is not the endpoint of the Cluster.
func SanitizeKubeconfig(raw []byte, endpoint clusterv1.APIEndpoint) ([]byte, error) {
	config, err := clientcmd.Load(raw)
	if err != nil {
		return nil, &RefusedError{
			"kubeconfig",
			"it cannot be read; let the control plane provider make it anew by deleting the Secret",
		}
	}

	current := config.Contexts[config.CurrentContext]
	if current == nil {
		return nil, &RefusedError{
			"current-context",
			"it names no context; let the control plane provider make the kubeconfig anew by deleting the Secret",
		}
	}

	cluster, user := config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
	if cluster == nil || user == nil {
		return nil, &RefusedError{
			"contexts[].context",
			"its cluster or its user is not there; let the control plane provider make the kubeconfig " +
				"anew by deleting the Secret",
		}
	}

	if err := errors.Join(checkCluster(cluster, endpoint), checkUser(user)); err != nil {
		return nil, err
	}

	const name = "workload"

	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server:                   cluster.Server,
			TLSServerName:            cluster.TLSServerName,
			CertificateAuthorityData: cluster.CertificateAuthorityData,
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{name: {
			ClientCertificateData: user.ClientCertificateData,
			ClientKeyData:         user.ClientKeyData,
			Token:                 user.Token,
			Username:              user.Username,
			Password:              user.Password,
		}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}

// checkCluster returns an error for a server that is not the endpoint, and for settings that lead to another server.
func checkCluster(cluster *clientcmdapi.Cluster, endpoint clusterv1.APIEndpoint) error {
	switch {
	case cluster.CertificateAuthority != "":
		return newRefusedFileError("clusters[].cluster.certificate-authority", "certificate-authority-data")
	case cluster.ProxyURL != "":
		return &RefusedError{
			"clusters[].cluster.proxy-url",
			"the manager takes its proxy from its own environment only; remove the field",
		}
	case cluster.InsecureSkipTLSVerify:
		return &RefusedError{
			"clusters[].cluster.insecure-skip-tls-verify",
			"the API server must prove who it is; set certificate-authority-data instead",
		}
	}

	server, err := url.Parse(cluster.Server)
	if err != nil || server.Scheme != "https" || server.User != nil || server.RawQuery != "" ||
		server.Path != "" && server.Path != "/" {
		return &RefusedError{
			"clusters[].cluster.server",
			"it is not the https URL of a host and a port; write " + endpointURL(endpoint),
		}
	}

	port := server.Port()
	if port == "" {
		port = "443"
	}

	if endpoint.Host == "" || !isSameHost(server.Hostname(), endpoint.Host) ||
		port != strconv.Itoa(int(endpoint.Port)) {
		return &RefusedError{
			"clusters[].cluster.server",
			"it is not the Cluster's spec.controlPlaneEndpoint; write " + endpointURL(endpoint),
		}
	}

	return nil
}

// isSameHost compares two host names, or two addresses in any spelling.
func isSameHost(a, b string) bool {
	first, err := netip.ParseAddr(a)
	second, err2 := netip.ParseAddr(b)
	if err == nil && err2 == nil {
		return first == second
	}

	return strings.EqualFold(a, b)
}

// checkUser returns an error for credentials that are not in the kubeconfig itself.
func checkUser(user *clientcmdapi.AuthInfo) error {
	switch {
	case user.TokenFile != "":
		return newRefusedFileError("users[].user.tokenFile", "token")
	case user.ClientCertificate != "":
		return newRefusedFileError("users[].user.client-certificate", "client-certificate-data")
	case user.ClientKey != "":
		return newRefusedFileError("users[].user.client-key", "client-key-data")
	case user.Exec != nil:
		return &RefusedError{
			"users[].user.exec",
			"the manager runs no programs for credentials; write client-certificate-data and " +
				"client-key-data, or a token",
		}
	case user.AuthProvider != nil:
		return &RefusedError{
			"users[].user.auth-provider",
			"the manager has no such plugins; write client-certificate-data and client-key-data, or a token",
		}
	case user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups) > 0 ||
		len(user.ImpersonateUserExtra) > 0:
		return &RefusedError{
			"users[].user.as",
			"the manager acts only as the user of the kubeconfig; remove the fields",
		}
	}

	return nil
}

func newRefusedFileError(field, instead string) error {
	return &RefusedError{field, "it names a file, and would be one of the manager's; write " + instead}
}

func endpointURL(endpoint clusterv1.APIEndpoint) string {
	return "https://" + net.JoinHostPort(endpoint.Host, strconv.Itoa(int(endpoint.Port)))
}

// KubeconfigSecret returns the key of the Secret with the kubeconfig of a Cluster.
func KubeconfigSecret(cluster client.ObjectKey) client.ObjectKey {
	return client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
}

// Secrets reads the kubeconfig Secrets of Clusters for the cluster cache, and sanitizes each kubeconfig with
// SanitizeKubeconfig. It reads no other objects.
type Secrets struct {
	// Reader reads Secrets.
	Reader client.Reader
	// Clusters reads the endpoints of Clusters.
	Clusters client.Reader
}

var _ client.Reader = Secrets{}

// Get reads the kubeconfig Secret of a Cluster.
func (s Secrets) Get(
	ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption,
) error {
	into, ok := object.(*corev1.Secret)
	name, purpose, err := secret.ParseSecretName(key.Name)
	if !ok || err != nil || purpose != secret.Kubeconfig {
		return fmt.Errorf("%T %s is not the kubeconfig of a cluster", object, key)
	}

	cluster := &clusterv1.Cluster{}
	if err := s.Clusters.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: name}, cluster); err != nil {
		return fmt.Errorf("failed to get the Cluster of a kubeconfig: %w", err)
	}

	found := &corev1.Secret{}
	if err := s.Reader.Get(ctx, key, found, options...); err != nil {
		return err
	}

	config, err := SanitizeKubeconfig(found.Data[secret.KubeconfigDataName], cluster.Spec.ControlPlaneEndpoint)
	if err != nil {
		return fmt.Errorf("the kubeconfig in Secret %s is not used: %w", key, err)
	}

	*into = corev1.Secret{
		ObjectMeta: found.ObjectMeta,
		Type:       found.Type,
		Data:       map[string][]byte{secret.KubeconfigDataName: config},
	}

	return nil
}

// List returns nothing, because the cluster cache does not need it.
func (s Secrets) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("kubeconfigs of clusters are not listed")
}
