package pass

import (
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// IgnoreStatus accepts events about everything except an object's status: creation, deletion, and changes of the spec
// or the owners.
var IgnoreStatus = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld, e.ObjectNew

		return before.GetGeneration() != after.GetGeneration() ||
			before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero() ||
			len(before.GetOwnerReferences()) != len(after.GetOwnerReferences())
	},
}
