package lifecycle

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/kubeconfigfile"
)

// KubeconfigPath returns the path of the kubeconfig written by Create: ~/.kube/kubeconfig.NAME.
func KubeconfigPath(cluster string) (string, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("--kubeconfig-out: %w", err)
	}

	return filepath.Join(home, ".kube", dedicatedName(cluster)), nil
}

// dedicatedName returns the file name for a kubeconfig of only one cluster. Other files may have the kubeconfigs of
// several clusters.
func dedicatedName(cluster string) string { return "kubeconfig." + cluster }

// contextName returns the name of Cluster API's context for a cluster.
func contextName(cluster string) string { return cluster + "-admin@" + cluster }

// contextIn returns the context of a cluster in a kubeconfig, or "". It is the context named by Cluster API. Otherwise
// it is the current context, if the file is dedicated to the cluster or has only this context.
func contextIn(config *clientcmdapi.Config, path, cluster string) string {
	if _, ok := config.Contexts[contextName(cluster)]; ok {
		return contextName(cluster)
	}

	_, current := config.Contexts[config.CurrentContext]
	if current && (filepath.Base(path) == dedicatedName(cluster) || len(config.Contexts) == 1) {
		return config.CurrentContext
	}

	return ""
}

// contextInFile returns the context of a cluster in a kubeconfig file. It returns "" for a missing or invalid file.
func contextInFile(path, cluster string) string {
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return ""
	}

	return contextIn(config, path, cluster)
}

// mergeKubeconfig adds the kubeconfig of a cluster to a file. It keeps the entries of other clusters, and the changes
// of users in the cluster's own entries: the server, a proxy, or another user. own reports whether a context for the
// cluster in the file is known to work. Such a context stays unchanged.
func mergeKubeconfig(path, name string, content []byte, own bool) error {
	ours, err := clientcmd.Load(content)
	if err == nil {
		err = clientcmdapi.MinifyConfig(ours)
	}

	if err != nil {
		return fmt.Errorf("invalid kubeconfig of %s: %w", name, err)
	}

	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("--kubeconfig-out: %w", err)
	}

	err = kubeconfigfile.Edit(path, func(there *clientcmdapi.Config) error {
		if own && contextIn(there, path, name) != "" {
			return nil
		}

		return mergeContext(there, ours, path, name)
	})
	if err != nil {
		return fmt.Errorf("--kubeconfig-out: %w", err)
	}

	return nil
}

// mergeContext adds the current context of one kubeconfig to another kubeconfig, or renews it there.
func mergeContext(there, ours *clientcmdapi.Config, path, name string) error {
	context := ours.Contexts[ours.CurrentContext]
	cluster, user := ours.Clusters[context.Cluster], ours.AuthInfos[context.AuthInfo]
	if at := contextIn(there, path, name); at != "" {
		found := there.Contexts[at]
		if isSame(there.Clusters[found.Cluster], cluster) {
			renewCertificates(there.Clusters[found.Cluster], there.AuthInfos[found.AuthInfo], cluster, user)
			return nil
		}

		if at == ours.CurrentContext || filepath.Base(path) == dedicatedName(name) {
			return otherServerError(path, there.Clusters[found.Cluster], name, cluster)
		}
	}

	if found, ok := there.Clusters[context.Cluster]; ok && !isSame(found, cluster) {
		return otherServerError(path, found, name, cluster)
	}

	if found, ok := there.AuthInfos[context.AuthInfo]; ok && !equality.Semantic.DeepEqual(found, user) {
		return fmt.Errorf("%s already contains another user %s; specify another file", path, context.AuthInfo)
	}

	there.Clusters[context.Cluster], there.AuthInfos[context.AuthInfo] = cluster, user
	there.Contexts[ours.CurrentContext] = context
	if there.CurrentContext == "" {
		there.CurrentContext = ours.CurrentContext
	}

	return nil
}

// renewCertificates replaces only those certificates that Cluster API has created.
func renewCertificates(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo, from *clientcmdapi.Cluster,
	by *clientcmdapi.AuthInfo,
) {
	if len(cluster.CertificateAuthorityData) > 0 && len(from.CertificateAuthorityData) > 0 {
		cluster.CertificateAuthorityData = from.CertificateAuthorityData
	}

	if user != nil && len(user.ClientCertificateData) > 0 && len(by.ClientCertificateData) > 0 {
		user.ClientCertificateData, user.ClientKeyData = by.ClientCertificateData, by.ClientKeyData
	}
}

// isSame reports whether two entries are for the same cluster. They are if they have the same CA, even with different
// connections. If one of them has no CA, isSame compares the servers.
func isSame(a, b *clientcmdapi.Cluster) bool {
	if a == nil || b == nil {
		return false
	}

	one, other := caOf(a), caOf(b)
	if len(one) > 0 && len(other) > 0 {
		return bytes.Equal(one, other)
	}

	return a.Server == b.Server
}

// caOf returns the CA of a cluster, or nil.
func caOf(cluster *clientcmdapi.Cluster) []byte {
	out := cluster.CertificateAuthorityData
	if len(out) == 0 && cluster.CertificateAuthority != "" {
		out, _ = os.ReadFile(cluster.CertificateAuthority) // without the file, isSame compares the servers
	}

	return bytes.TrimSpace(out)
}

// otherServerError reports a kubeconfig of another cluster.
func otherServerError(path string, found *clientcmdapi.Cluster, name string, wanted *clientcmdapi.Cluster) error {
	differs := "its CA is different"
	if found == nil {
		found = &clientcmdapi.Cluster{}
	}

	if found.Server != wanted.Server {
		differs = fmt.Sprintf("its server is %s, but the server of %s is %s", found.Server, name, wanted.Server)
	}

	return fmt.Errorf("%s is the kubeconfig of another cluster: %s; specify another file with --kubeconfig-out, or "+
		"move this one", path, differs)
}

// errNotOurs ends an edit before it removes entries of others.
var errNotOurs = errors.New("not an entry of the cluster")

// dropKubeconfig removes the entries of a cluster from a file, and removes the file if it becomes empty. It reports
// whether it has removed any entries.
func dropKubeconfig(path, name string, of *clientcmdapi.Cluster) (bool, error) {
	err := kubeconfigfile.Edit(path, func(there *clientcmdapi.Config) error {
		at := contextIn(there, path, name)
		if at == "" || !isSame(there.Clusters[there.Contexts[at].Cluster], of) {
			return errNotOurs
		}

		gone := there.Contexts[at]
		delete(there.Contexts, at)

		for _, left := range there.Contexts {
			if left.Cluster == gone.Cluster || left.AuthInfo == gone.AuthInfo {
				return errNotOurs // a user's context still uses it
			}
		}

		delete(there.Clusters, gone.Cluster)
		delete(there.AuthInfos, gone.AuthInfo)

		if there.CurrentContext == at {
			there.CurrentContext = ""
		}

		return nil
	})
	if errors.Is(err, errNotOurs) {
		return false, nil
	}

	return err == nil, err
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
