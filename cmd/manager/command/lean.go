package command

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
)

// LeanCache returns the kinds of objects stored only in part by the manager's cache.
func LeanCache() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{
		&clusterv1.Machine{}:   {Transform: leanMachine},
		&infrav1.OLVMCluster{}: {Transform: pass.StripManagedFields},
		&infrav1.OLVMMachine{}: {Transform: pass.StripManagedFields},
	}
}

// leanMachine removes the unused parts of a Machine before it is cached. They are managed fields, the configuration
// applied by kubectl, and the status except the reference to the Node. These parts are most of a Machine, and a
// management cluster may have ten thousand Machines. To read or write the conditions of a Machine, read it from the API
// server.
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
