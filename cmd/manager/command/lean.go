package command

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// LeanCache says of which objects the cache of the manager holds a part only.
func LeanCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&clusterv1.Machine{}: {Transform: leanMachine}}
}

// leanMachine takes from a Machine, before it is cached, what controllers do not read there: managed fields, what
// kubectl has applied, and the status but for the reference of the Node. That is most of a Machine, and there may be
// ten thousand. Whoever needs its conditions, or writes them, reads it from the API server.
func leanMachine(in any) (any, error) {
	machine, ok := in.(*clusterv1.Machine)
	if !ok {
		return nil, errors.New("what was read as a Machine is none")
	}

	machine.ManagedFields = nil
	delete(machine.Annotations, corev1.LastAppliedConfigAnnotation)
	machine.Status = clusterv1.MachineStatus{NodeRef: machine.Status.NodeRef}

	return machine, nil
}
