package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/objectstatus"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/userdataserver"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

// configures is how long a VM may take until it uses a new configuration, of which it asks every 10 s.
const configures = time.Minute

// supportFacts are what a pass knows of the support services of a cluster.
type supportFacts struct {
	// err is why nothing can be done for any of them.
	err error
	// services that are asked for, in their order.
	services []*serviceFacts
	// left are the OLVMMachines of services that are not asked for any more, and soon reports that something is on its
	// way.
	left []string
	soon bool
}

// serviceFacts are what a pass knows of one support service.
type serviceFacts struct {
	support.Service
	vms []vmOfService
	// err is why it cannot be made as it is asked for.
	err error
}

// vmOfService is a VM of a support service.
type vmOfService struct {
	support.VM
	// machine is nil where it is still to be made.
	machine *infrav1.OLVMMachine
	// report is what the VM has made of its configuration.
	report userdataserver.Report
	// outdated is why the VM is to be replaced; empty where it is not.
	outdated string
	// foreign reports that the machine is not of the service.
	foreign bool
}

// ready reports whether the VM is up, and uses a configuration.
func (v vmOfService) ready() bool {
	return v.machine != nil && v.machine.DeletionTimestamp.IsZero() &&
		conditions.IsTrue(v.machine, infrav1.ReadyCondition) && v.report.Ever
}

// supportFactsChanged passes what changes the configuration or the state of support services.
var supportFactsChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*infrav1.OLVMMachine)
		after, too := e.ObjectNew.(*infrav1.OLVMMachine)
		if !ok || !too {
			return false
		}

		was, is := conditions.Get(before, infrav1.ReadyCondition), conditions.Get(after, infrav1.ReadyCondition)
		turned := (was == nil) != (is == nil) || was != nil && (was.Status != is.Status || was.Reason != is.Reason)

		return before.Annotations[infrav1.AddressesAnnotation] != after.Annotations[infrav1.AddressesAnnotation] ||
			!slices.Equal(before.Status.Addresses, after.Status.Addresses) ||
			support.ServiceOf(after) != "" && turned
	},
}

// machineGoes passes Machines that are being deleted: no more connections are sent there.
var machineGoes = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	},
}

// toSupported wakes the cluster of a machine, or of a Secret of a support service, if it has such services.
func (r *Reconciler) toSupported(ctx context.Context, object client.Object) []ctrl.Request {
	name := object.GetLabels()[clusterv1.ClusterNameLabel]
	_, isSecret := object.(*metav1.PartialObjectMetadata)
	if name == "" || isSecret && support.ServiceOf(object) == "" {
		return nil
	}

	var clusters infrav1.OLVMClusterList
	if err := r.Client.List(ctx, &clusters, client.InNamespace(object.GetNamespace()),
		client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
		return nil
	}

	return requestsFor(clusters.Items, func(c *infrav1.OLVMCluster) bool { return c.Spec.SupportServices != nil })
}

// reconcileSupport keeps the VMs of support services, and tells them what they are to do.
func (r *Reconciler) reconcileSupport(ctx context.Context, scope *clusterScope) error {
	machines, err := r.machinesOf(ctx, scope)
	if err != nil {
		return err
	}

	c := scope.olvmCluster
	if c.Spec.SupportServices != nil && r.Delivery == nil {
		scope.support.err = blocker.New(infrav1.InfraServiceFailureReason, "spec.supportServices",
			"their VMs fetch what they are to do from the manager; set its flag --bootstrap-url, which says where VMs "+
				"reach it")

		return nil // what there is stays as it is
	}

	asked, problems := map[string]bool{}, support.Problems(c.Spec)

	for _, service := range support.Services(c.Spec) {
		facts := &serviceFacts{Service: service}
		scope.support.services = append(scope.support.services, facts)

		for _, vm := range service.VMs(c.Name) {
			asked[vm.Name] = true
			facts.vms = append(facts.vms, vmOfService{VM: vm, machine: find(machines, vm.Name)})
		}

		if facts.err = problems[service.Name]; facts.err == nil { // else what there is of it stays as it is
			facts.err = r.reconcileService(ctx, scope, facts, machines)
		}

		var field *blocker.Error
		if facts.err != nil && !errors.As(facts.err, &field) {
			return facts.err
		}
	}

	return r.removeUnasked(ctx, scope, machines, asked)
}

// machinesOf are the OLVMMachines of the cluster.
func (r *Reconciler) machinesOf(ctx context.Context, scope *clusterScope) ([]infrav1.OLVMMachine, error) {
	name := clusterNameOf(scope)
	if name == "" {
		return nil, nil
	}

	var list infrav1.OLVMMachineList
	err := r.Client.List(ctx, &list, client.InNamespace(scope.olvmCluster.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: name,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to list the machines of OLVMCluster %s: %w",
			client.ObjectKeyFromObject(scope.olvmCluster), err)
	}

	slices.SortFunc(list.Items, func(a, b infrav1.OLVMMachine) int { return strings.Compare(a.Name, b.Name) })

	return list.Items, nil
}

// find is the machine of a name; nil where there is none.
func find(machines []infrav1.OLVMMachine, name string) *infrav1.OLVMMachine {
	at := slices.IndexFunc(machines, func(m infrav1.OLVMMachine) bool { return m.Name == name })
	if at < 0 {
		return nil
	}

	return &machines[at]
}

// reconcileService makes the VMs that a service lacks, tells each its configuration, and replaces those that are not as
// the service asks for. The error is a *blocker.Error where a person is asked for.
func (r *Reconciler) reconcileService(
	ctx context.Context, scope *clusterScope, service *serviceFacts, machines []infrav1.OLVMMachine,
) error {
	// One that cannot be made keeps no other from following its machines.
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
		err := r.ensureVM(ctx, scope, service, &service.vms[i])
		service.vms[i].foreign = err != nil
		if err := keep(&unmade, err); err != nil {
			return err
		}
	}

	nodes, err := r.nodes(ctx, scope, machines)
	if err != nil {
		return err
	}

	for i := range service.vms {
		if err := keep(&unconfigured, r.configure(ctx, scope, service, &service.vms[i], nodes)); err != nil {
			return err
		}
	}

	if unmade != nil {
		return unmade
	}

	// What is wrong with a VM may be why it is to be replaced.
	return cmp.Or(r.replaceOutdated(ctx, scope, service), unconfigured)
}

// ensureVM makes the OLVMMachine of a VM where there is none.
func (r *Reconciler) ensureVM(
	ctx context.Context, scope *clusterScope, service *serviceFacts, vm *vmOfService,
) error {
	if vm.machine != nil {
		if support.MachineOf(vm.machine) == nil || support.ServiceOf(vm.machine) != service.Name {
			return blocker.New(infrav1.InfraServiceFailureReason, service.Field,
				"OLVMMachine %s exists, and is not of this service; delete it, or give the service another name",
				vm.Name)
		}

		return nil
	}

	made, err := r.newMachine(ctx, scope, service, vm)
	if err != nil {
		return err
	}

	if err := r.Client.Create(ctx, made); apierrors.IsAlreadyExists(err) {
		return r.ours(ctx, scope, service, made)
	} else if err != nil {
		return fmt.Errorf("failed to create OLVMMachine %s: %w", made.Name, err)
	}

	ctrl.LoggerFrom(ctx).Info("Made a VM of a support service", "OLVMMachine", made.Name)
	vm.machine = made

	return nil
}

// newMachine is the OLVMMachine of a VM, as its template has it. The error is a *blocker.Error where there can be none.
func (r *Reconciler) newMachine(
	ctx context.Context, scope *clusterScope, service *serviceFacts, vm *vmOfService,
) (*infrav1.OLVMMachine, error) {
	template := &infrav1.OLVMMachineTemplate{}
	key := client.ObjectKey{Namespace: scope.olvmCluster.Namespace, Name: service.VM.MachineTemplateName}
	if err := r.Client.Get(ctx, key, template); apierrors.IsNotFound(err) {
		return nil, blocker.New(infrav1.InfraServiceFailureReason, service.Field+".machineTemplateName",
			"there is no OLVMMachineTemplate %q in namespace %s; create it, or correct the name", key.Name,
			key.Namespace)
	} else if err != nil {
		return nil, fmt.Errorf("failed to get OLVMMachineTemplate %s: %w", key, err)
	}

	if err := workspace.MoveWith(ctx, r.Client, template); err != nil {
		return nil, err
	}

	return service.NewMachine(scope.olvmCluster, vm.VM, template)
}

// ours says whose the OLVMMachine is that exists, and that the cache does not have as one of the cluster.
func (r *Reconciler) ours(
	ctx context.Context, scope *clusterScope, service *serviceFacts, made *infrav1.OLVMMachine,
) error {
	found := &infrav1.OLVMMachine{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(made), found); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to get OLVMMachine %s: %w", made.Name, err)
	}

	if found.Name != "" && !metav1.IsControlledBy(found, scope.olvmCluster) {
		return blocker.New(infrav1.InfraServiceFailureReason, service.Field,
			"OLVMMachine %s exists, and is another's; delete it, or give the service another name", made.Name)
	}

	scope.support.soon = true // the cache has not seen it yet

	return nil
}

// node is a machine of the cluster with its address.
type node struct {
	name         string
	address      netip.Addr
	controlPlane bool
}

// nodes are the machines of the cluster that are not being deleted, and whose address is known.
func (r *Reconciler) nodes(
	ctx context.Context, scope *clusterScope, machines []infrav1.OLVMMachine,
) ([]node, error) {
	var owners clusterv1.MachineList
	err := r.Client.List(ctx, &owners, client.InNamespace(scope.olvmCluster.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: clusterNameOf(scope),
	})
	if err != nil {
		return nil, fmt.Errorf("failed to list the Machines of Cluster %s: %w", clusterNameOf(scope), err)
	}

	var out []node

	for i := range owners.Items {
		owner := &owners.Items[i]
		m := find(machines, owner.Spec.InfrastructureRef.Name)
		if m == nil || !m.DeletionTimestamp.IsZero() || !owner.DeletionTimestamp.IsZero() {
			continue
		}

		if address := addressOf(m); address.IsValid() {
			out = append(out, node{owner.Name, address, util.IsControlPlaneMachine(owner)})
		}
	}

	return out, nil
}

// addressOf is the first address of a machine; invalid where none is known yet.
func addressOf(m *infrav1.OLVMMachine) netip.Addr {
	for _, address := range m.Status.Addresses {
		parsed, err := netip.ParseAddr(address.Address)
		if err == nil && parsed.Zone() == "" && address.Type == clusterv1.MachineInternalIP { // a zone may be any text
			return parsed
		}
	}

	return recordedAddress(m, func(netip.Addr) bool { return true })
}

// recordedAddress is the first static address of a machine's first interface that is wanted; invalid for none.
func recordedAddress(m *infrav1.OLVMMachine, wanted func(netip.Addr) bool) netip.Addr {
	recorded, err := addressing.Recorded(m)
	if err != nil {
		return netip.Addr{} // that machine's own condition says so
	}

	for _, address := range recorded[addressing.Networks(m.Spec)[0].VNICName] {
		if wanted(address) {
			return address
		}
	}

	return netip.Addr{}
}

// configure tells a VM what it is to do.
func (r *Reconciler) configure(
	ctx context.Context, scope *clusterScope, service *serviceFacts, vm *vmOfService, nodes []node,
) error {
	if vm.machine == nil || vm.foreign || !vm.machine.DeletionTimestamp.IsZero() {
		return nil
	}

	files, err := r.configurationOf(ctx, scope, service, vm, nodes)
	if err != nil || files == nil {
		return err
	}

	archive, err := support.Archive(files)
	if err != nil {
		return err
	}

	if vm.report, err = r.Delivery.Publish(ctx, vm.machine, archive, support.UserData); err != nil {
		return err
	}

	if !addressing.MayHaveVM(vm.machine) {
		r.Runs.Wake(workspace.Key{Kind: workspace.MachineKind, Namespace: vm.machine.Namespace, Name: vm.Name})
	}

	if vm.report.Stranded {
		vm.outdated = "it asks a manager at another address for its configuration"
	}

	return nil
}

// configurationOf is what a VM is told; nil while it is not known yet.
func (r *Reconciler) configurationOf(
	ctx context.Context, scope *clusterScope, service *serviceFacts, vm *vmOfService, nodes []node,
) ([]bootstrap.File, error) {
	switch {
	case service.JumpHost != nil:
		return r.jumpHost(ctx, scope, service, nodes)
	case service.OIDC != nil:
		return r.oidc(ctx, scope, service, vm)
	}

	var backends []support.Backend

	for _, n := range nodes {
		if n.controlPlane == (service.Balancer.Role == infrav1.ControlPlaneRole) {
			backends = append(backends, support.Backend{Name: n.name, Address: n.address})
		}
	}

	balancer, err := service.NewBalancer(scope.olvmCluster.Spec, backends)
	if err != nil {
		return nil, err
	}

	balancer.Name = vm.Name
	if balancer.VirtualIP.IsValid() {
		waiting, err := virtualIPOf(scope, service, vm.machine, &balancer)
		if err != nil || waiting {
			return nil, err
		}
	}

	return balancer.Files(), nil
}

// virtualIPOf fills in what keepalived has to know. It reports whether addresses are still to be allocated.
func virtualIPOf(
	scope *clusterScope, service *serviceFacts, machine *infrav1.OLVMMachine, balancer *support.Balancer,
) (waiting bool, err error) {
	c := scope.olvmCluster
	ids, err := desired.RecordedRouterIDs(c)
	if err != nil {
		return false, err
	}

	nics, err := addressing.NICs(machine.Spec, c.Spec)
	if err != nil {
		return false, err
	}

	template := fmt.Sprintf("the first network interface of OLVMMachineTemplate %s", service.VM.MachineTemplateName)
	if nics[0].Guest == nil || nics[0].Guest.Dynamic(balancer.VirtualIP.Is4()) {
		return false, blocker.New(infrav1.InfraServiceFailureReason, service.Field+".virtualIP",
			"%s has no static address of the family of %s, which keepalived needs to hold it; give it a range",
			template, balancer.VirtualIP)
	}

	balancer.RouterID, balancer.Interface = ids[desired.BalancerRouter(service.Balancer.Name)], nics[0].Guest.Interface
	sameFamily := func(a netip.Addr) bool { return a.Is4() == balancer.VirtualIP.Is4() }

	for _, vm := range service.vms {
		if vm.machine == nil {
			return true, nil
		}

		address := recordedAddress(vm.machine, sameFamily)

		switch {
		case vm.machine.Name == machine.Name:
			balancer.Self = address
		case address.IsValid():
			balancer.Peers = append(balancer.Peers, address)
		}
	}

	return !balancer.Self.IsValid() || balancer.RouterID == 0, nil
}

// replaceOutdated deletes a VM of a service that is not as the service asks for, or that the engine has lost, so that
// it is made again: one at a time, and only where the others serve.
func (r *Reconciler) replaceOutdated(ctx context.Context, scope *clusterScope, service *serviceFacts) error {
	for i := range service.vms {
		vm := &service.vms[i]
		if vm.machine == nil || !vm.machine.DeletionTimestamp.IsZero() {
			continue
		}

		if why := service.Outdated(vm.machine, vm.VM); why != "" {
			vm.outdated = why
		}

		running := conditions.Get(vm.machine, infrav1.VirtualMachineRunningCondition)
		if running != nil && running.Reason == infrav1.VirtualMachineNotFoundReason {
			vm.outdated = "the engine does not have its VM any more"
		}
	}

	for i := range service.vms {
		vm := &service.vms[i]
		othersServe := !slices.ContainsFunc(service.vms, func(other vmOfService) bool {
			return other.Name != vm.Name && !other.ready()
		})
		if vm.outdated == "" || vm.ready() && !othersServe {
			continue
		}

		// What cannot be made anew is not deleted.
		if _, err := r.newMachine(ctx, scope, service, vm); err != nil {
			return err
		}

		ctrl.LoggerFrom(ctx).Info("Replacing a VM of a support service", "OLVMMachine", vm.Name, "because", vm.outdated)
		if err := r.Client.Delete(ctx, vm.machine); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete OLVMMachine %s: %w", vm.Name, err)
		}

		return nil // one at a time
	}

	return nil
}

// removeUnasked deletes the VMs of services that are not asked for any more.
func (r *Reconciler) removeUnasked(
	ctx context.Context, scope *clusterScope, machines []infrav1.OLVMMachine, asked map[string]bool,
) error {
	for i := range machines {
		m := &machines[i]
		if asked[m.Name] || support.MachineOf(m) == nil {
			continue
		}

		scope.support.left = append(scope.support.left, m.Name)
		if !m.DeletionTimestamp.IsZero() {
			continue
		}

		if err := r.Client.Delete(ctx, m); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete OLVMMachine %s: %w", m.Name, err)
		}
	}

	return nil
}

// endpointServed reports whether the control plane endpoint can be reached, as far as it is made by a service.
func (s *clusterScope) endpointServed() bool {
	for _, service := range s.support.services {
		if service.ServesEndpoint(s.olvmCluster.Spec) &&
			!slices.ContainsFunc(service.vms, func(vm vmOfService) bool { return vm.report.Ever }) {
			return false
		}
	}

	return s.support.err == nil
}

// setSupport reports how the support services are.
func setSupport(scope *clusterScope) {
	c := scope.olvmCluster
	if c.Spec.SupportServices == nil && len(scope.support.left) == 0 {
		c.Status.SupportServices = nil
		conditions.Delete(c, infrav1.SupportServicesReadyCondition)

		return
	}

	summary := metav1.Condition{
		Type:   infrav1.SupportServicesReadyCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.SupportServicesReadyReason,
	}
	if err := scope.support.err; err != nil {
		summary.Status, summary.Reason, summary.Message = metav1.ConditionFalse, infrav1.InfraServiceFailureReason,
			err.Error()
		conditions.Set(c, summary)

		return
	}

	var messages []string
	if len(scope.support.left) > 0 {
		summary.Status, summary.Reason = metav1.ConditionFalse, infrav1.SupportServicesProgressingReason
		messages = append(messages, "VMs that are not asked for any more are being deleted: "+
			strings.Join(scope.support.left, ", "))
	}

	before := c.Status.SupportServices
	c.Status.SupportServices = nil

	for _, service := range scope.support.services {
		status := service.status(before)
		c.Status.SupportServices = append(c.Status.SupportServices, status)
		ready := conditions.Get(&status, infrav1.ReadyCondition)
		if ready.Status == metav1.ConditionTrue {
			continue
		}

		summary.Status = metav1.ConditionFalse
		if summary.Reason != infrav1.InfraServiceFailureReason {
			summary.Reason = ready.Reason
		}

		messages = append(messages, service.Name+": "+ready.Message)
	}

	summary.Message = workspace.Shorten(strings.Join(messages, "; "), maxSupportMessage)
	conditions.Set(c, summary)
}

// maxSupportMessage bounds the message of a condition, of which the API server takes 32 KiB.
const maxSupportMessage = 4096

// status of a service, with the times of the conditions that it had.
func (s *serviceFacts) status(before []infrav1.SupportServiceStatus) infrav1.SupportServiceStatus {
	out := infrav1.SupportServiceStatus{Name: s.Name}
	if s.Balancer != nil {
		out.Address = s.Balancer.VirtualIP
	}

	if at := slices.IndexFunc(before, func(b infrav1.SupportServiceStatus) bool { return b.Name == s.Name }); at >= 0 {
		out.Conditions = slices.Clone(before[at].Conditions)
	}

	for _, vm := range s.vms {
		if vm.machine == nil {
			continue
		}

		out.Machines = append(out.Machines, vm.Name)
		if address := addressOf(vm.machine); out.Address == "" && address.IsValid() {
			out.Address = address.String()
		}
	}

	condition := metav1.Condition{
		Type:   infrav1.ReadyCondition,
		Status: metav1.ConditionTrue,
		Reason: clusterv1.ReadyReason,
	}
	if reason, message := s.trouble(); reason != "" {
		condition.Status, condition.Reason = metav1.ConditionFalse, reason
		condition.Message = workspace.Shorten(message, maxSupportMessage)
	}

	conditions.Set(&out, condition)

	return out
}

// trouble says why a service is not ready; the reason is empty where it is.
func (s *serviceFacts) trouble() (reason, message string) {
	if s.err != nil {
		return infrav1.InfraServiceFailureReason, s.err.Error()
	}

	for _, vm := range s.vms {
		why, failed := vm.trouble()

		switch {
		case why == "":
			continue
		case failed:
			reason = infrav1.InfraServiceFailureReason
		case reason == "":
			reason = infrav1.SupportServicesProgressingReason
		}

		if message != "" {
			message += "; "
		}

		message += "VM " + vm.Name + " " + why
	}

	return reason, message
}

// trouble says why a VM does not serve as it should, and whether that is a failure.
func (v vmOfService) trouble() (why string, failed bool) {
	if v.machine == nil {
		return "is to be made", false
	}

	ready := conditions.Get(v.machine, infrav1.ReadyCondition)

	switch {
	case !v.machine.DeletionTimestamp.IsZero() || v.outdated != "":
		return "is being replaced", false
	case ready == nil || ready.Status != metav1.ConditionTrue:
		if ready == nil {
			return "is being made", false
		}

		return "is not ready: " + ready.Message, objectstatus.IsFailure(*ready)
	case v.report.Problem != "":
		return "has refused its configuration: " + v.report.Problem, true
	case !v.report.Ever:
		return "has not used a configuration yet", false
	case !v.report.Current && v.report.Age > configures:
		return fmt.Sprintf("does not use the configuration of %s ago; look at %s/problem and the unit %s there",
			v.report.Age.Round(time.Second), support.Folder, support.FetchService), true
	}

	return "", false
}
