package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
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

// jumpKubeconfigOf is the name of the Secret with the kubeconfig of the jump host; empty where there is none.
func jumpKubeconfigOf(c *infrav1.OLVMCluster) string {
	if c.Spec.SupportServices == nil || c.Spec.SupportServices.JumpHost == nil {
		return ""
	}

	own, _ := kubeconfigOf(c)

	return cmp.Or(c.Spec.SupportServices.JumpHost.KubeconfigSecretName, own.Name)
}

// namedBySupport wakes the clusters whose support services name a Secret.
func (r *Reconciler) namedBySupport(ctx context.Context, object client.Object) []ctrl.Request {
	var clusters infrav1.OLVMClusterList
	if err := r.Client.List(ctx, &clusters, client.InNamespace(object.GetNamespace())); err != nil {
		return nil
	}

	return requestsFor(clusters.Items, func(c *infrav1.OLVMCluster) bool {
		return jumpKubeconfigOf(c) == object.GetName() || slices.Contains(support.Secrets(c.Spec), object.GetName())
	})
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
		const field = "nodeKeysSecretName"
		keys, err := r.wantedSecret(ctx, scope, service, field, key.Name)
		if err != nil {
			return nil, err
		}

		if err := support.CheckNodeKeys(keys); err != nil {
			return nil, blocker.New(infrav1.InfraServiceFailureReason, service.Field+"."+field, "Secret %s: %v",
				key.Name, err)
		}

		out.NodeKeys = keys
	}

	kubeconfig, err := r.kubeconfigOfJumpHost(ctx, scope, service)
	out.Kubeconfig = kubeconfig

	return out.Files(), err
}

// kubeconfigOfJumpHost is the kubeconfig that people have there; nil while the cluster has none. Nothing but a
// kubeconfig is handed out: Secrets of other kinds have something under that key, too.
func (r *Reconciler) kubeconfigOfJumpHost(
	ctx context.Context, scope *clusterScope, service *serviceFacts,
) ([]byte, error) {
	const field = "kubeconfigSecretName"
	c := scope.olvmCluster
	name := jumpKubeconfigOf(c)

	var data map[string][]byte
	var err error
	if service.JumpHost.KubeconfigSecretName != "" {
		data, err = r.wantedSecret(ctx, scope, service, field, name)
	} else { // it comes with the cluster's first machine
		data, err = r.secretData(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name})
	}

	if err != nil || data == nil {
		return nil, err
	}

	kubeconfig := data[secret.KubeconfigDataName]
	if parsed, err := clientcmd.Load(kubeconfig); err != nil || len(parsed.Clusters) == 0 {
		return nil, blocker.New(infrav1.InfraServiceFailureReason, service.Field+"."+field,
			"Secret %s has no kubeconfig under %s; name one that has", name, secret.KubeconfigDataName)
	}

	return kubeconfig, nil
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
