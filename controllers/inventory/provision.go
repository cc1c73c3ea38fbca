package inventory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/inventory"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=olvmmachinetemplates,verbs=get;list;watch;patch

// provisionFacts are what a pass knows of the VMs that the inventory makes.
type provisionFacts struct {
	// err is why VMs cannot be made; nil where they can.
	err error
	// wanted and made count the VMs that there should be, and those that are there.
	wanted, made int
	// left counts the objects of VMs that are made here, those that are being deleted too.
	left int
}

// provisions reports whether the inventory makes VMs, or has any that it made.
func (s *scope) provisions() bool {
	return len(s.inventory.Spec.Provision) > 0 || slices.ContainsFunc(s.objects, isProvisioned)
}

func isProvisioned(vm infrav1.OLVMInventoryVM) bool { return vm.Spec.Provisioned != nil }

// reconcileProvision makes an OLVMInventoryVM for each VM that the inventory lacks, and deletes those of VMs that are
// too many. Their own controller makes and deletes the VMs.
func (r *Reconciler) reconcileProvision(ctx context.Context, s *scope) error {
	if !s.provisions() {
		return nil
	}

	if s.session == nil {
		s.countProvisioned()
		return nil
	}

	err := r.provision(ctx, s)
	s.countProvisioned()

	var field *blocker.Error
	if errors.As(err, &field) || engine.IsTransient(err) {
		s.provision.err, s.failed = err, true
		return nil
	}

	return err
}

// provision decides and does.
func (r *Reconciler) provision(ctx context.Context, s *scope) error {
	// clusterctl move pauses Clusters before it takes the objects away one by one. Those that are gone here are not to
	// be made again.
	if s.moving != "" {
		return &blocker.Error{Reason: infrav1.WaitingForMoveReason, Message: fmt.Sprintf("Cluster %s is paused, as "+
			"clusterctl move has it; VMs are made and deleted when its spec.paused is false", s.moving)}
	}

	pool := s.inventory.DeepCopy()
	if !pool.DeletionTimestamp.IsZero() {
		pool.Spec.Provision = nil
	}

	templates, hosts, err := r.provisionInputs(ctx, s, pool)
	if err != nil {
		return err
	}

	plan := inventory.PlanProvision(pool, hosts, s.objects, s.taken)
	s.provision.wanted = plan.Wanted
	if err := r.removeProvisioned(ctx, s, plan.Remove); err != nil {
		return err
	}

	if len(plan.Make) == 0 {
		return nil
	}

	if err := ensureTag(ctx, s.session, pool.Spec.VirtualMachines.Tag); err != nil {
		return err
	}

	return r.makeProvisioned(ctx, s, pool, plan, templates)
}

// provisionInputs reads the templates of the provisions, and the hosts of those with a count for each host.
func (r *Reconciler) provisionInputs(
	ctx context.Context, s *scope, pool *infrav1.OLVMInventory,
) (map[string]infrav1.OLVMMachineSpec, map[string][]string, error) {
	templates, hosts := map[string]infrav1.OLVMMachineSpec{}, map[string][]string{}

	for i, provision := range pool.Spec.Provision {
		template := &infrav1.OLVMMachineTemplate{}
		key := client.ObjectKey{Namespace: pool.Namespace, Name: provision.MachineTemplateName}
		if err := r.Client.Get(ctx, key, template); apierrors.IsNotFound(err) {
			return nil, nil, blocker.New(infrav1.MachineTemplateNotFoundReason,
				fmt.Sprintf("spec.provision[%d].machineTemplateName", i),
				"there is no OLVMMachineTemplate %q in namespace %s; create it, or correct the name", key.Name,
				key.Namespace)
		} else if err != nil {
			return nil, nil, fmt.Errorf("failed to get OLVMMachineTemplate %s: %w", key, err)
		}

		if err := r.moveWith(ctx, template); err != nil {
			return nil, nil, err
		}

		templates[key.Name] = template.Spec.Template.Spec
		if provision.CountPerHost == nil {
			continue
		}

		var err error
		hosts[provision.Name], err = s.pool.HostNames(ctx, s.session, pool, templates[key.Name])
		if err != nil {
			return nil, nil, inventory.InTemplate(key.Name, err)
		}
	}

	return templates, hosts, nil
}

// moveWith has clusterctl move a template with the inventory, which does not own it.
func (r *Reconciler) moveWith(ctx context.Context, template *infrav1.OLVMMachineTemplate) error {
	if _, labelled := template.Labels[clusterctlv1.ClusterctlMoveLabel]; labelled {
		return nil
	}

	before := template.DeepCopy()
	metav1.SetMetaDataLabel(&template.ObjectMeta, clusterctlv1.ClusterctlMoveLabel, "")
	if err := r.Client.Patch(ctx, template, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("failed to label OLVMMachineTemplate %s: %w", template.Name, err)
	}

	return nil
}

// ensureTag makes the tag of the pool where the engine does not have it: there is no VM with it yet.
func ensureTag(ctx context.Context, session *engine.Client, name string) error {
	there, err := session.TagsNamed(ctx, name)
	if err != nil || len(there) > 0 {
		return err
	}

	_, err = session.CreateTag(ctx, &engine.Tag{Name: name, Description: "VMs of a pool"})

	return err
}

// makeProvisioned creates OLVMInventoryVMs, each with its addresses. Addresses of others are read past the cache, so
// that none is given twice.
func (r *Reconciler) makeProvisioned(
	ctx context.Context,
	s *scope,
	pool *infrav1.OLVMInventory,
	plan inventory.ProvisionPlan,
	templates map[string]infrav1.OLVMMachineSpec,
) error {
	macs, err := r.macAddresses(ctx, pool.Namespace)
	if err != nil {
		return err
	}

	addresses := &addressing.Allocator{Client: r.Client, Reader: r.APIReader}
	where := connection.EngineKey(connection.OfInventory(pool))
	held, err := addresses.HeldBeside(ctx, client.ObjectKey{Namespace: pool.Namespace}, where)
	if err != nil {
		return err
	}

	for _, vm := range plan.Make {
		template := templates[pool.Spec.Provision[vm.Index].MachineTemplateName]
		decided, err := inventory.Decide(pool, vm, template, macs, held)
		if err != nil {
			return err
		}

		object := s.newObject(vm.Name)
		object.Spec.Provisioned = decided
		if err := r.Client.Create(ctx, object); apierrors.IsAlreadyExists(err) {
			s.soon = true // the cache has not seen it yet
			return nil
		} else if err != nil {
			return fmt.Errorf("failed to create OLVMInventoryVM %s: %w", vm.Name, err)
		}

		ctrl.LoggerFrom(ctx).Info("A VM is to be made for the pool", "OLVMInventoryVM", vm.Name)
		s.objects = append(s.objects, *object)
		s.entries = append(s.entries, &entry{object: object})
	}

	return nil
}

// macAddresses are those that were given to VMs of pools in a namespace.
func (r *Reconciler) macAddresses(ctx context.Context, namespace string) (map[string]bool, error) {
	var all infrav1.OLVMInventoryVMList
	if err := r.APIReader.List(ctx, &all, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list OLVMInventoryVMs: %w", err)
	}

	out := map[string]bool{}

	for i := range all.Items {
		if of := all.Items[i].Spec.Provisioned; of != nil {
			for _, nic := range of.NICs {
				out[nic.MACAddress] = true
			}
		}
	}

	return out, nil
}

// removeProvisioned deletes OLVMInventoryVMs that nobody has. One that is claimed meanwhile is refused by the lock.
func (r *Reconciler) removeProvisioned(ctx context.Context, s *scope, names []string) error {
	for _, name := range names {
		e := s.entryOf(name)
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

// countProvisioned counts what there is.
func (s *scope) countProvisioned() {
	for i := range s.objects {
		if vm := &s.objects[i]; isProvisioned(*vm) {
			s.provision.left++

			if inventory.Made(vm) && vm.DeletionTimestamp.IsZero() {
				s.provision.made++
			}
		}
	}
}

// setProvisionedCondition tells how far the VMs are that the inventory makes.
func setProvisionedCondition(s *scope) {
	condition := metav1.Condition{
		Type:   infrav1.ProvisionedCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.ProvisionedReason,
	}
	facts := s.provision

	switch {
	case !s.provisions():
		conditions.Delete(s.inventory, condition.Type)
		return
	case s.session == nil && conditions.Get(s.inventory, condition.Type) != nil:
		return // the last known one stays
	case s.session == nil:
		condition.Status, condition.Reason = metav1.ConditionUnknown, infrav1.WaitingForEngineReason
	case facts.err != nil:
		condition.Status = metav1.ConditionFalse
		condition.Reason, condition.Message = blocker.EngineReason(facts.err)
	case facts.made < facts.wanted || facts.left != facts.made:
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.ProvisioningReason
		condition.Message = workspace.Shorten(s.provisioning(), maxMessage)
	}

	conditions.Set(s.inventory, condition)
}

// provisioning says how many VMs are made, and what is wrong with the others.
func (s *scope) provisioning() string {
	out := []string{fmt.Sprintf("%d of %d VMs are made", s.provision.made, s.provision.wanted)}

	for i := range s.objects {
		vm := &s.objects[i]
		if !vm.DeletionTimestamp.IsZero() {
			out = append(out, strings.TrimSpace(vm.Name+" is being deleted: "+messageOf(vm, infrav1.DeletingCondition)))
		} else if message := messageOf(vm, infrav1.InfrastructureAppliedCondition); message != "" {
			out = append(out, vm.Name+": "+message)
		}
	}

	return strings.Join(out, ". ")
}

// messageOf is the message of a condition of a VM; empty where it has none.
func messageOf(vm *infrav1.OLVMInventoryVM, condition string) string {
	if found := conditions.Get(vm, condition); found != nil {
		return found.Message
	}

	return ""
}
