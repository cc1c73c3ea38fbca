package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workload"
)

// checkedKubeconfig is the result of checking a cluster's kubeconfig Secret.
type checkedKubeconfig struct {
	exists bool
	err    error
	// version and endpoint are the checked resource version of the Secret and the checked endpoint.
	version  string
	endpoint clusterv1.APIEndpoint
}

// getKubeconfigKey returns the key of an OLVMCluster's kubeconfig Secret, and false if no Cluster owns it yet.
func getKubeconfigKey(c *infrav1.OLVMCluster) (client.ObjectKey, bool) {
	name := c.Labels[clusterv1.ClusterNameLabel]
	return workload.KubeconfigSecret(client.ObjectKey{Namespace: c.Namespace, Name: name}), name != ""
}

// dropKubeconfig drops the record of a deleted cluster.
func (r *Reconciler) dropKubeconfig(c *infrav1.OLVMCluster) {
	if key, ok := getKubeconfigKey(c); ok {
		r.kubeconfigs.Delete(key)
	}
}

// reconcileKubeconfig checks whether the manager accepts the cluster's kubeconfig. The cluster cache also rejects it,
// but only logs the error. reconcileKubeconfig reads the Secret only after the Secret or the endpoint has changed. It
// returns nil if nothing is known.
func (r *Reconciler) reconcileKubeconfig(ctx context.Context, scope *clusterScope) (*checkedKubeconfig, error) {
	key := workload.KubeconfigSecret(client.ObjectKeyFromObject(scope.cluster))
	endpoint := scope.cluster.Spec.ControlPlaneEndpoint
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := r.Engines.Metadata.Get(ctx, key, metadata); apierrors.IsNotFound(err) {
		r.kubeconfigs.Delete(key)
		return &checkedKubeconfig{}, nil
	} else if err != nil {
		return nil, fmt.Errorf("failed to look for Secret %s: %w", key, err)
	}

	if before, ok := r.kubeconfigs.Load(key); ok {
		known := before.(*checkedKubeconfig)
		if known.version == metadata.ResourceVersion && known.endpoint == endpoint {
			return known, nil
		}
	}

	found := &corev1.Secret{}
	if err := r.APIReader.Get(ctx, key, found); apierrors.IsNotFound(err) {
		return nil, nil // its deletion wakes this object
	} else if err != nil {
		return nil, fmt.Errorf("failed to get Secret %s: %w", key, err)
	}

	_, err := workload.SanitizeKubeconfig(found.Data[secret.KubeconfigDataName], endpoint)
	checked := &checkedKubeconfig{exists: true, err: err, version: metadata.ResourceVersion, endpoint: endpoint}
	r.kubeconfigs.Store(key, checked)

	return checked, nil
}
