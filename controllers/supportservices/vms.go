package supportservices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/userdataserver"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// serviceFacts are the facts of a pass about one support service.
type serviceFacts struct {
	support.Service
	vms []vmOfService
	// err explains why the service cannot be provided as requested. It is nil if it can.
	err error
}

// vmOfService is a VM of a support service.
type vmOfService struct {
	support.VM
	// machine is nil until it is created.
	machine *infrav1.OLVMMachine
	// report is the VM's own report on its configuration.
	report userdataserver.Report
	// outdated is the reason to replace the VM, or "".
	outdated string
	// foreign reports that the machine does not belong to the service.
	foreign bool
}

// isReady reports whether the VM is up and uses a configuration.
func (v vmOfService) isReady() bool {
	return v.machine != nil && v.machine.DeletionTimestamp.IsZero() &&
		conditions.IsTrue(v.machine, infrav1.ReadyCondition) && v.report.Ever
}

// reconcileServices creates, configures, replaces and deletes the VMs of support services.
func (r *Reconciler) reconcileServices(ctx context.Context, s *scope) error {
	if r.Delivery == nil {
		s.err = blocker.New(infrav1.InfraServiceFailureReason, "spec",
			"the VMs of support services fetch their configuration from the manager; set the manager's flag "+
				"--bootstrap-url to its URL for VMs")

		return nil // nothing changes
	}

	machines, err := support.ListMachines(ctx, r.Client, s.clusterKey())
	if err != nil {
		return err
	}

	nodes, err := r.listNodes(ctx, s, machines)
	if err != nil {
		return err
	}

	problems, err := r.findProblems(ctx, s)
	if err != nil {
		return err
	}

	asked := map[string]bool{}

	for _, service := range support.CollectServices(s.object) {
		facts := &serviceFacts{Service: service}
		s.services = append(s.services, facts)

		for _, vm := range service.VMs(s.cluster.Name) {
			asked[vm.Name] = true
			facts.vms = append(facts.vms, vmOfService{VM: vm, machine: findMachine(machines, vm.Name)})
		}

		if facts.err = problems[service.Name]; facts.err == nil { // otherwise, keep its VMs unchanged
			facts.err = r.reconcileService(ctx, s, facts, nodes)
		}

		var field *blocker.Error
		if facts.err != nil && !errors.As(facts.err, &field) {
			return facts.err
		}
	}

	return r.deleteUnrequested(ctx, s, machines, asked)
}

// findProblems returns the errors of services by name, apart from errors of their machines. These are invalid fields,
// and addresses used by other objects.
func (r *Reconciler) findProblems(ctx context.Context, s *scope) (map[string]error, error) {
	out := support.FindProblems(s.olvmCluster.Spec, s.object)
	if s.areServicesReady() {
		return out, nil
	}

	taken, err := r.Addresses.CheckSupportAddresses(ctx, s.olvmCluster, s.object, connection.GetEngineID(s.olvmCluster))
	if err != nil {
		return nil, err
	}

	for _, service := range support.CollectServices(s.object) {
		for i := range taken {
			if taken[i].Field == service.VirtualIPField() && out[service.Name] == nil {
				out[service.Name] = taken[i].ToError()
			}
		}
	}

	return out, nil
}

// areServicesReady reports whether all services are as requested. Then no check for other users of their addresses is
// necessary.
func (s *scope) areServicesReady() bool {
	return s.object.Status.ObservedGeneration == s.object.Generation &&
		conditions.IsTrue(s.object, infrav1.ReadyCondition)
}

// findMachine returns the machine with this name, or nil. machines is a result of support.ListMachines.
func findMachine(machines []infrav1.OLVMMachine, name string) *infrav1.OLVMMachine {
	at, found := slices.BinarySearchFunc(machines, name, func(m infrav1.OLVMMachine, name string) int {
		return strings.Compare(m.Name, name)
	})
	if !found {
		return nil
	}

	return &machines[at]
}

// reconcileService creates missing VMs of a service, configures each VM, and replaces outdated ones. The error is a
// *blocker.Error if a user must act.
func (r *Reconciler) reconcileService(
	ctx context.Context, s *scope, service *serviceFacts, nodes []support.Node,
) error {
	// If one VM cannot be created, the others must still get their configuration.
	var unmade, unconfigured error
	keep := func(first *error, err error) error {
		var field *blocker.Error
		if err != nil && !errors.As(err, &field) {
			return err
		}

		*first = cmp.Or(*first, err)

		return nil
	}

	for i := range service.vms {
		err := r.ensureVM(ctx, s, service, &service.vms[i])
		service.vms[i].foreign = err != nil
		if err := keep(&unmade, err); err != nil {
			return err
		}
	}

	for i := range service.vms {
		if err := keep(&unconfigured, r.publishConfiguration(ctx, s, service, &service.vms[i], nodes)); err != nil {
			return err
		}
	}

	if unmade != nil {
		return unmade
	}

	// Replace VMs first, because a replacement may solve the problem of a VM's configuration.
	return cmp.Or(r.replaceOutdated(ctx, s, service), unconfigured)
}

// ensureVM creates the OLVMMachine of a VM if it is missing.
func (r *Reconciler) ensureVM(
	ctx context.Context, s *scope, service *serviceFacts, vm *vmOfService,
) error {
	if vm.machine != nil {
		if support.NewStandInMachine(vm.machine) == nil || support.GetServiceName(vm.machine) != service.Name {
			return blocker.New(infrav1.InfraServiceFailureReason, service.Field,
				"OLVMMachine %s exists, but does not belong to this service; delete it, or rename the service",
				vm.Name)
		}

		return nil
	}

	made, err := r.prepareMachine(ctx, s, service, vm)
	if err != nil {
		return err
	}

	if err := r.Client.Create(ctx, made); apierrors.IsAlreadyExists(err) {
		return r.checkOwner(ctx, s, service, made)
	} else if err != nil {
		return fmt.Errorf("failed to create OLVMMachine %s: %w", made.Name, err)
	}

	ctrl.LoggerFrom(ctx).Info("Created a VM of a support service", "OLVMMachine", made.Name)
	vm.machine = made

	return nil
}

// prepareMachine returns a new OLVMMachine for a VM, from its template. It also makes clusterctl move the template. The
// error is a *blocker.Error if the template does not exist, or does not suit the service.
func (r *Reconciler) prepareMachine(
	ctx context.Context, s *scope, service *serviceFacts, vm *vmOfService,
) (*infrav1.OLVMMachine, error) {
	template := &infrav1.OLVMMachineTemplate{}
	key := client.ObjectKey{Namespace: s.object.Namespace, Name: service.VM.MachineTemplateName}
	if err := r.Client.Get(ctx, key, template); apierrors.IsNotFound(err) {
		return nil, service.NewInvalidError("machineTemplateName",
			"there is no OLVMMachineTemplate %q in namespace %s; create it, or correct the name", key.Name,
			key.Namespace)
	} else if err != nil {
		return nil, fmt.Errorf("failed to get OLVMMachineTemplate %s: %w", key, err)
	}

	if err := workspace.EnableMove(ctx, r.Client, template); err != nil {
		return nil, err
	}

	return service.NewMachine(s.object, vm.VM, template)
}

// checkOwner checks the owner of an existing OLVMMachine missing from the cached list of the cluster.
func (r *Reconciler) checkOwner(
	ctx context.Context, s *scope, service *serviceFacts, made *infrav1.OLVMMachine,
) error {
	found := &infrav1.OLVMMachine{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(made), found); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to get OLVMMachine %s: %w", made.Name, err)
	}

	if found.Name != "" && !metav1.IsControlledBy(found, s.object) {
		return blocker.New(infrav1.InfraServiceFailureReason, service.Field,
			"OLVMMachine %s exists, but belongs to another object; delete it, or rename the service", made.Name)
	}

	s.requeueSoon = true // the cache has not seen it yet

	return nil
}

// replaceOutdated deletes an outdated VM of a service, or one lost by the engine, so the next pass creates it again. It
// deletes one VM at a time, and a ready one only if all others are ready.
func (r *Reconciler) replaceOutdated(ctx context.Context, s *scope, service *serviceFacts) error {
	for i := range service.vms {
		vm := &service.vms[i]
		if vm.machine == nil || !vm.machine.DeletionTimestamp.IsZero() {
			continue
		}

		if why := service.ExplainOutdated(vm.machine, vm.VM); why != "" {
			vm.outdated = why
		}

		running := conditions.Get(vm.machine, infrav1.VirtualMachineRunningCondition)
		if running != nil && running.Reason == infrav1.VirtualMachineNotFoundReason {
			vm.outdated = "its VM no longer exists in the engine"
		}
	}

	for i := range service.vms {
		vm := &service.vms[i]
		othersServe := !slices.ContainsFunc(service.vms, func(other vmOfService) bool {
			return other.Name != vm.Name && !other.isReady()
		})
		if vm.outdated == "" || vm.isReady() && !othersServe {
			continue
		}

		// Do not delete a VM that cannot be created again.
		if _, err := r.prepareMachine(ctx, s, service, vm); err != nil {
			return err
		}

		ctrl.LoggerFrom(ctx).Info("Replacing a VM of a support service", "OLVMMachine", vm.Name, "because", vm.outdated)

		return r.deleteMachine(ctx, vm.machine)
	}

	return nil
}

// deleteUnrequested deletes the VMs of services no longer requested.
func (r *Reconciler) deleteUnrequested(
	ctx context.Context, s *scope, machines []infrav1.OLVMMachine, requested map[string]bool,
) error {
	for i := range machines {
		m := &machines[i]
		if requested[m.Name] || support.NewStandInMachine(m) == nil {
			continue
		}

		s.left = append(s.left, m.Name)
		if !m.DeletionTimestamp.IsZero() {
			continue
		}

		if err := r.deleteMachine(ctx, m); err != nil {
			return err
		}
	}

	return nil
}

// deleteMachine deletes a machine, unless another one has its name now.
func (r *Reconciler) deleteMachine(ctx context.Context, m *infrav1.OLVMMachine) error {
	if err := r.Client.Delete(ctx, m, client.Preconditions{UID: &m.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to delete OLVMMachine %s: %w", m.Name, err)
	}

	return nil
}
