package command

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// namespaceReader reads without the cache, for a manager of one namespace. If permitted, it lists objects in all
// namespaces, so addresses differ from those of other managers' machines. If the manager has only a Role instead of a
// ClusterRole, it lists only its own namespace.
type namespaceReader struct {
	client.Reader
	// Namespace is the namespace of the manager's clusters.
	Namespace string

	said sync.Once
}

// List lists objects in all namespaces or, if this is forbidden, in Namespace.
func (r *namespaceReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := r.Reader.List(ctx, list, options...)
	if !apierrors.IsForbidden(err) {
		return err
	}

	r.said.Do(func() {
		ctrl.LoggerFrom(ctx).
			Info("This manager may look at its own namespace only; give other clusters of the engine other address "+
				"ranges and virtual router IDs",
				"namespace", r.Namespace)
	})

	return r.Reader.List(ctx, list, append(options, client.InNamespace(r.Namespace))...)
}
