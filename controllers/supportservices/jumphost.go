package supportservices

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workload"
)

// readJumpHostFiles returns the configuration of a jump host's VM.
func (r *Reconciler) readJumpHostFiles(
	ctx context.Context, s *scope, service *serviceFacts, nodes []support.Node,
) ([]bootstrap.File, error) {
	out := service.NewJumpHost(s.olvmCluster.Spec, nodes)

	if name := service.JumpHost.NodeKeysSecretName; name != "" {
		const field = "nodeKeysSecretName"
		keys, err := r.readRequiredSecret(ctx, s, service, field, name)
		if err != nil {
			return nil, err
		}

		if err := support.CheckNodeKeys(keys); err != nil {
			return nil, service.NewInvalidError(field, "Secret %s: %v", name, err)
		}

		out.NodeKeys = keys
	}

	kubeconfig, err := r.readJumpHostKubeconfig(ctx, s, service)
	out.Kubeconfig = kubeconfig

	return out.BuildFiles(), err
}

// readJumpHostKubeconfig returns the kubeconfig for users of the jump host, or nil while the cluster has none. It
// returns only a valid kubeconfig, because other kinds of Secrets use the same key.
func (r *Reconciler) readJumpHostKubeconfig(
	ctx context.Context, s *scope, service *serviceFacts,
) ([]byte, error) {
	const field = "kubeconfigSecretName"
	name := service.JumpHost.KubeconfigSecretName

	var data map[string][]byte
	var err error
	if name != "" {
		data, err = r.readRequiredSecret(ctx, s, service, field, name)
	} else { // Cluster API creates it together with the cluster's first machine
		own := workload.KubeconfigSecret(s.clusterKey())
		name = own.Name
		data, err = r.readSecret(ctx, own)
	}

	if err != nil || data == nil {
		return nil, err
	}

	kubeconfig := data[secret.KubeconfigDataName]
	if parsed, err := clientcmd.Load(kubeconfig); err != nil || len(parsed.Clusters) == 0 {
		return nil, service.NewInvalidError(field, "Secret %s has no kubeconfig under %s; name one that has", name,
			secret.KubeconfigDataName)
	}

	return kubeconfig, nil
}

// readSecret reads a Secret, and returns nil if there is none.
func (r *Reconciler) readSecret(ctx context.Context, key client.ObjectKey) (map[string][]byte, error) {
	var found corev1.Secret
	if err := r.APIReader.Get(ctx, key, &found); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("failed to get Secret %s: %w", key, err)
	}

	return found.Data, nil
}
