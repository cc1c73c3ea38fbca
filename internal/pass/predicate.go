package pass

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// SpecOrOwnersChanged accepts creations and deletions of an object, and updates of its generation, its deletion
// timestamp or its number of owners.
var SpecOrOwnersChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld, e.ObjectNew

		return before.GetGeneration() != after.GetGeneration() ||
			before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero() ||
			len(before.GetOwnerReferences()) != len(after.GetOwnerReferences())
	},
}

// ToRequests returns a request for each object.
func ToRequests[T any, P interface {
	*T
	client.Object
}](objects []T) []ctrl.Request {
	var out []ctrl.Request
	for i := range objects {
		out = append(out, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(P(&objects[i]))})
	}

	return out
}
