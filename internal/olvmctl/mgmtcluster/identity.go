package mgmtcluster

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/workload"
)

// This file tells clusters apart. URLs, names and contexts are not enough. A tunnel or an alias gives a cluster another
// URL, and two sites may use the same private addresses.

// IdentityAnnotation records the identity of the workload cluster on its Cluster.
const IdentityAnnotation = "olvmctl.cluster.x-k8s.io/identity"

const (
	// identityLimit bounds the request for the identity of a cluster.
	identityLimit = 10 * time.Second
	// rootCAName is the name of a ConfigMap with the CA of the cluster. Every namespace has one.
	rootCAName = "kube-root-ca.crt"
)

// FetchIdentity returns the identity of a cluster: the UID of its namespace kube-system.
func (c *Cluster) FetchIdentity(ctx context.Context) (types.UID, error) {
	ctx, cancel := context.WithTimeout(ctx, identityLimit)
	defer cancel()

	var system corev1.Namespace
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return "", fmt.Errorf("failed to get the identity of the cluster at %s, the UID of its namespace %s: %w",
			c.Server(), metav1.NamespaceSystem, err)
	}

	if system.UID == "" {
		return "", fmt.Errorf("namespace %s of the cluster at %s has no UID", metav1.NamespaceSystem, c.Server())
	}

	return system.UID, nil
}

// RecordIdentity records the identity of a workload cluster in its Cluster. It returns an error if a different identity
// is already recorded.
func (c *Cluster) RecordIdentity(ctx context.Context, name string, of types.UID) error {
	cluster, err := c.GetCluster(ctx, name)
	if err != nil {
		return err
	}

	switch cluster.Annotations[IdentityAnnotation] {
	case string(of):
		return nil
	case "":
	default:
		return &otherClusterError{Name: name, Recorded: cluster.Annotations[IdentityAnnotation], Found: string(of)}
	}

	before := cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, IdentityAnnotation, string(of))
	if err := c.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("failed to record the identity of %s: %w", name, err)
	}

	return nil
}

// otherClusterError reports a kubeconfig that leads to another cluster than the created one.
type otherClusterError struct{ Name, Recorded, Found string }

func (e *otherClusterError) Error() string {
	return fmt.Sprintf("the kubeconfig of %s is for another cluster: the UID of its namespace kube-system is %s, "+
		"but that of %s is %s; correct the kubeconfig. If %s was restored as a new cluster, remove the annotation "+
		"%s from its Cluster", e.Name, e.Found, e.Name, e.Recorded, e.Name, IdentityAnnotation)
}

// IsWorkloadOf reports whether this management cluster is the workload cluster of a Cluster. Such a cluster manages
// itself. It returns an error if this can be neither proved nor disproved.
func (c *Cluster) IsWorkloadOf(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
	if cluster.Annotations[IdentityAnnotation] == "" && !cluster.Spec.ControlPlaneEndpoint.IsValid() {
		return false, nil // the Cluster has no API server yet
	}

	own, unknown := c.FetchIdentity(ctx)
	if unknown == nil {
		of, err := c.fetchIdentityOf(ctx, cluster)
		if err == nil {
			return of == own, nil
		}

		unknown = err
	}

	var none *noKubeconfigError
	isYoung := !ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false)
	if errors.As(unknown, &none) && isYoung {
		return false, nil // the Cluster has no API server yet
	}

	differs, err := c.hasOtherCA(ctx, cluster)
	if differs {
		return false, nil
	}

	// The kubeconfig may exist before the API server does. A kubeadm cluster that manages itself has the ConfigMap with
	// its CA.
	isUnnamed := own != "" && cluster.Annotations[IdentityAnnotation] == ""
	if err == nil && isYoung && isUnnamed && !c.hasRootCA(ctx, cluster) {
		return false, nil
	}

	return false, errors.Join(fmt.Errorf("cannot determine whether %s manages itself: %w", cluster.Name, unknown), err)
}

// noKubeconfigError reports that Cluster API has not created the kubeconfig of a cluster.
type noKubeconfigError struct{ error }

func (e *noKubeconfigError) Unwrap() error { return e.error }

// fetchIdentityOf returns the identity of a Cluster's workload cluster. It is the recorded identity, or else the
// identity from the cluster's API server.
func (c *Cluster) fetchIdentityOf(ctx context.Context, cluster *clusterv1.Cluster) (types.UID, error) {
	if recorded := cluster.Annotations[IdentityAnnotation]; recorded != "" {
		return types.UID(recorded), nil
	}

	// Tenants may write the Secret, and a kubeconfig can run programs on this machine.
	guarded := workload.Secrets{Reader: c.Client, Clusters: c.Client}
	content, err := kubeconfig.FromSecret(ctx, guarded, client.ObjectKeyFromObject(cluster))
	if apierrors.IsNotFound(err) {
		return "", &noKubeconfigError{err}
	} else if err != nil {
		return "", fmt.Errorf("failed to get the kubeconfig of %s: %w", cluster.Name, err)
	}

	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return "", fmt.Errorf("invalid kubeconfig of %s: %w", cluster.Name, err)
	}

	config.Timeout = identityLimit
	asked, err := client.New(config, client.Options{Scheme: c.Scheme()})
	if err != nil {
		return "", fmt.Errorf("failed to connect to %s: %w", cluster.Name, err)
	}

	return (&Cluster{Client: asked, config: config}).FetchIdentity(ctx)
}

// hasOtherCA reports whether the management cluster and the workload cluster of a Cluster provably have different CAs.
// Equal CAs prove nothing, because users may use the same CA for several clusters.
func (c *Cluster) hasOtherCA(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
	var own corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: rootCAName}, &own); err != nil {
		return false, client.IgnoreNotFound(err)
	}

	var of corev1.Secret
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.ClusterCA)}
	if err := c.Get(ctx, key, &of); err != nil {
		return false, client.IgnoreNotFound(err)
	}

	cas, err := certutil.ParseCertsPEM([]byte(own.Data["ca.crt"]))
	if err != nil {
		return false, fmt.Errorf("ConfigMap %s/%s: %w", own.Namespace, own.Name, err)
	}

	others, err := certutil.ParseCertsPEM(of.Data[secret.TLSCrtDataName])
	if err != nil {
		return false, fmt.Errorf("in Secret %s: %w", key, err)
	}

	return !shareOne(cas, others), nil
}

// hasRootCA reports whether the management cluster publishes its CA in the namespace of a Cluster, as the controller
// manager of Kubernetes does. Local management clusters do not publish it.
func (c *Cluster) hasRootCA(ctx context.Context, cluster *clusterv1.Cluster) bool {
	err := c.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: rootCAName}, &corev1.ConfigMap{})

	return !apierrors.IsNotFound(err)
}

// shareOne reports whether two bundles have a certificate in common.
func shareOne(a, b []*x509.Certificate) bool {
	for _, one := range a {
		for _, other := range b {
			if bytes.Equal(one.RawSubjectPublicKeyInfo, other.RawSubjectPublicKeyInfo) {
				return true
			}
		}
	}

	return false
}
