package cluster

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
)

// nodeKeysOf is the Secret with the keys of the jump host for nodes; false where there is none.
func nodeKeysOf(c *infrav1.OLVMCluster) (client.ObjectKey, bool) {
	if c.Spec.SupportServices == nil || c.Spec.SupportServices.JumpHost == nil {
		return client.ObjectKey{}, false
	}

	name := c.Spec.SupportServices.JumpHost.NodeKeysSecretName

	return client.ObjectKey{Namespace: c.Namespace, Name: name}, name != ""
}

// jumpKubeconfigOf is the Secret with the kubeconfig of the jump host; false where there is none.
func jumpKubeconfigOf(c *infrav1.OLVMCluster) (client.ObjectKey, bool) {
	if c.Spec.SupportServices == nil || c.Spec.SupportServices.JumpHost == nil {
		return client.ObjectKey{}, false
	}

	own, _ := kubeconfigOf(c)
	name := cmp.Or(c.Spec.SupportServices.JumpHost.KubeconfigSecretName, own.Name)

	return client.ObjectKey{Namespace: c.Namespace, Name: name}, name != ""
}

// jumpHost is what the VM of a jump host is told.
func (r *Reconciler) jumpHost(
	ctx context.Context, scope *clusterScope, service *serviceFacts, nodes []node,
) ([]bootstrap.File, error) {
	c := scope.olvmCluster

	var reached []support.Node
	for _, n := range nodes {
		reached = append(reached, support.Node{Name: n.name, Address: n.address})
	}

	out := service.NewJumpHost(c.Spec, reached)

	if key, wanted := nodeKeysOf(c); wanted {
		keys, err := r.secretData(ctx, key)
		if err != nil {
			return nil, err
		}

		const field = ".nodeKeysSecretName"
		if keys == nil {
			return nil, blocker.New(infrav1.InfraServiceFailureReason, service.Field+field,
				"there is no Secret %q in namespace %s; create it, or correct the name", key.Name, key.Namespace)
		}

		if err := support.CheckNodeKeys(keys); err != nil {
			return nil, blocker.New(infrav1.InfraServiceFailureReason, service.Field+field, "Secret %s: %v", key.Name,
				err)
		}

		out.NodeKeys = keys
	}

	// The cluster's own one comes with its first machine.
	key, _ := jumpKubeconfigOf(c)
	data, err := r.secretData(ctx, key)
	if err != nil {
		return nil, err
	}

	out.Kubeconfig = data[secret.KubeconfigDataName]

	return out.Files(), nil
}

// secretData reads a Secret; nil where there is none.
func (r *Reconciler) secretData(ctx context.Context, key client.ObjectKey) (map[string][]byte, error) {
	var found corev1.Secret
	if err := r.APIReader.Get(ctx, key, &found); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("failed to get Secret %s: %w", key, err)
	}

	return found.Data, nil
}
