package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmmachinetemplates,verbs=get;list;watch;patch

// provisionFacts hold the facts of a pass about provisioned VMs: VMs created by the inventory.
type provisionFacts struct {
	// err explains why VMs cannot be created. It is nil if they can.
	err error
	// tooNew reports that the inventory is too young to create VMs.
	tooNew bool
	// wanted and made count the desired and the existing VMs.
	wanted, made int
	// remainingObjects counts the objects of provisioned VMs, including those in deletion.
	remainingObjects int
}

// hasProvisions reports whether the inventory creates VMs, or has created any.
func (s *scope) hasProvisions() bool {
	return len(s.inventory.Spec.Provision) > 0 || slices.ContainsFunc(s.listed.objects, isProvisioned)
}

func isProvisioned(vm infrav1alpha1.OLVMInventoryVM) bool { return vm.Spec.FromProvision != nil }

// reconcileProvision creates an OLVMInventoryVM for each missing VM, and deletes those of surplus VMs. Another
// controller creates and deletes the VMs themselves. An error here does not prevent claims.
func (r *Reconciler) reconcileProvision(ctx context.Context, s *scope) {
	if !s.hasProvisions() {
		return
	}

	if s.engine.session != nil {
		s.provision.err = r.provisionVMs(ctx, s)
	}

	s.countProvisioned()

	switch {
	case apierrors.IsConflict(s.provision.err): // someone else was faster; the next pass sees the change
		s.provision.err, s.requeueSoon = nil, true
	case s.provision.err != nil:
		s.failed = true
	}
}

// provisionVMs plans the provisioned VMs, and creates and deletes their objects.
func (r *Reconciler) provisionVMs(ctx context.Context, s *scope) error {
	if s.clusters.moving != "" {
		return &blocker.Error{Reason: infrav1.WaitingForMoveReason, Message: fmt.Sprintf("Cluster %s is paused, or "+
			"was paused when it was deleted, for example by clusterctl move. VMs are created and deleted once its "+
			"spec.paused is false",
			s.clusters.moving)}
	}

	if s.canBeMoving() {
		s.provision.tooNew, s.requeueSoon = true, true
		return nil
	}

	pool := s.inventory.DeepCopy()
	if !pool.DeletionTimestamp.IsZero() {
		pool.Spec.Provision = nil
	}

	inputs, err := inventory.ReadProvision(pool,
		func(name string) (infrav1.OLVMMachineSpec, error) {
			return r.readAndLabelTemplate(ctx, pool.Namespace, name)
		},
		func(template infrav1.OLVMMachineSpec) ([]string, error) {
			return s.engine.contents.ListHostNames(ctx, s.engine.session, pool, template)
		})
	if err != nil {
		return err
	}

	plan, err := s.planProvision(ctx, pool, inputs)
	if err != nil {
		return err
	}

	s.provision.wanted = plan.Wanted
	if err := r.removeProvisioned(ctx, s, plan.Remove); err != nil || len(plan.Make) == 0 {
		return err
	}

	tag := pool.Spec.VirtualMachines.Tag
	if _, err := inventory.EnsureTag(ctx, s.engine.session, tag, "VMs of a pool"); err != nil {
		return err
	}

	// Allocate no other addresses until the addresses of the new VMs are recorded.
	where, self := connection.InventoryEngine(pool).ID(), client.ObjectKey{Namespace: pool.Namespace}

	return r.Addresses.WithHeld(ctx, self, where, func(held addressing.Held) error {
		return r.createProvisioned(ctx, s, pool, plan.Make, inputs, held)
	})
}

// madeAtOnce limits the new VMs of a pass, because machines cannot get addresses while the pass allocates those of its
// VMs.
const madeAtOnce = 50

// minAge is the minimum age of an inventory before it creates VMs. clusterctl move creates the inventory at the same
// time as the Clusters, and only their spec.paused reveals the move.
const minAge = 3 * time.Second

// canBeMoving reports whether a move to or from another management cluster may be under way in the namespace.
func (s *scope) canBeMoving() bool {
	return s.clusters.moving != "" || time.Since(s.inventory.CreationTimestamp.Time) < minAge
}

// planProvision plans new VMs, with names not yet used in the engine.
func (s *scope) planProvision(
	ctx context.Context, pool *infrav1alpha1.OLVMInventory, inputs inventory.ProvisionInputs,
) (inventory.ProvisionPlan, error) {
	inUse, taken := map[string]bool{}, maps.Clone(s.listed.taken)

	for _, e := range s.entries {
		if e.vm != nil && inventory.IsInUse(*e.vm) {
			inUse[e.object.Name] = true
		}
	}

	for {
		plan := inventory.PlanProvision(pool, inputs.Hosts, s.listed.objects, taken, inUse)
		if len(plan.Make) > madeAtOnce {
			plan.Make, s.requeueSoon = plan.Make[:madeAtOnce], true
		}

		foreign := 0

		for _, vm := range plan.Make {
			existing, err := s.engine.session.FindVM(ctx, s.engine.contents.DataCenter, vm.Name)
			if err != nil {
				return plan, err
			}

			if existing != nil {
				taken[vm.Name] = true
				foreign++
			}
		}

		if foreign == 0 {
			return plan, nil
		}
	}
}

// readAndLabelTemplate reads the machine spec of a template. It also labels the template, so clusterctl moves it with
// the inventory.
func (r *Reconciler) readAndLabelTemplate(
	ctx context.Context, namespace, name string,
) (infrav1.OLVMMachineSpec, error) {
	template := &infrav1.OLVMMachineTemplate{}
	key := client.ObjectKey{Namespace: namespace, Name: name}
	if err := r.Client.Get(ctx, key, template); apierrors.IsNotFound(err) {
		return infrav1.OLVMMachineSpec{}, inventory.NewNoTemplateError(
			"there is no OLVMMachineTemplate %q in namespace %s; "+
				"create it, or correct the name",
			name,
			namespace,
		)
	} else if err != nil {
		return infrav1.OLVMMachineSpec{}, fmt.Errorf("failed to get OLVMMachineTemplate %s: %w", key, err)
	}

	return template.Spec.Template.Spec, workspace.EnableMove(ctx, r.Client, template)
}

// createProvisioned creates OLVMInventoryVMs, each with its addresses.
func (r *Reconciler) createProvisioned(
	ctx context.Context,
	s *scope,
	pool *infrav1alpha1.OLVMInventory,
	make []inventory.NewVM,
	inputs inventory.ProvisionInputs,
	held addressing.Held,
) error {
	macs, err := r.listMACAddresses(ctx, pool.Namespace)
	if err != nil {
		return err
	}

	for _, vm := range make {
		decided, err := inputs.AssignAddresses(pool, vm, macs, held)
		if err != nil {
			return err
		}

		object := s.newObject(vm.Name)
		object.Spec.FromProvision = decided
		if err := r.Client.Create(ctx, object); apierrors.IsAlreadyExists(err) {
			s.requeueSoon = true // the cache is stale
			return nil
		} else if err != nil {
			return fmt.Errorf("failed to create OLVMInventoryVM %s: %w", vm.Name, err)
		}

		ctrl.LoggerFrom(ctx).Info("Creating a VM for the pool", "OLVMInventoryVM", vm.Name)
		s.listed.objects = append(s.listed.objects, *object)
		s.entries = append(s.entries, &entry{object: object})
	}

	return nil
}

// listMACAddresses returns the MAC addresses of all provisioned VMs in a namespace.
func (r *Reconciler) listMACAddresses(ctx context.Context, namespace string) (map[string]bool, error) {
	var all infrav1alpha1.OLVMInventoryVMList
	if err := r.APIReader.List(ctx, &all, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list OLVMInventoryVMs: %w", err)
	}

	out := map[string]bool{}

	for i := range all.Items {
		if of := all.Items[i].Spec.FromProvision; of != nil {
			for _, nic := range of.NICs {
				out[nic.MACAddress] = true
			}
		}
	}

	return out, nil
}

// removeProvisioned deletes unclaimed OLVMInventoryVMs. The precondition rejects the deletion if someone has claimed
// one meanwhile.
func (r *Reconciler) removeProvisioned(ctx context.Context, s *scope, names []string) error {
	for _, name := range names {
		e := s.findEntry(name)
		if e == nil {
			continue
		}

		lock := client.Preconditions{UID: &e.object.UID, ResourceVersion: &e.object.ResourceVersion}
		if err := r.Client.Delete(ctx, e.object, lock); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete OLVMInventoryVM %s: %w", name, err)
		}

		s.entries = slices.DeleteFunc(s.entries, func(other *entry) bool { return other == e })
	}

	return nil
}

// countProvisioned counts the provisioned VMs.
func (s *scope) countProvisioned() {
	for i := range s.listed.objects {
		if vm := &s.listed.objects[i]; isProvisioned(*vm) {
			s.provision.remainingObjects++

			if inventory.IsComplete(vm) && vm.DeletionTimestamp.IsZero() {
				s.provision.made++
			}
		}
	}
}

// describeProvisioning returns the reason and message of the condition: the number of created VMs, and the problems of
// the others.
func (s *scope) describeProvisioning() (reason, message string) {
	reason = infrav1.ProvisioningReason
	out := []string{fmt.Sprintf("%d of %d VMs exist", s.provision.made, s.provision.wanted)}

	for i := range s.listed.objects {
		vm := &s.listed.objects[i]
		condition := infrav1.InfrastructureAppliedCondition
		if !vm.DeletionTimestamp.IsZero() {
			condition = infrav1.DeletingCondition
		}

		found := conditions.Get(vm, condition)
		if found == nil || found.Message == "" {
			continue
		}

		out = append(out, vm.Name+": "+found.Message)
		if pass.IsFailure(*found) {
			reason = infrav1.ProvisionFailedReason
		}
	}

	return reason, strings.Join(out, ". ")
}

// getMessage returns the message of a VM's condition, or "".
func getMessage(vm *infrav1alpha1.OLVMInventoryVM, condition string) string {
	if found := conditions.Get(vm, condition); found != nil {
		return found.Message
	}

	return ""
}
