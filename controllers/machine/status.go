package machine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/steadytext"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

func ensureOLVM(m *infrav1.OLVMMachine) *infrav1.OLVMStatus {
	if m.Status.OLVM == nil {
		m.Status.OLVM = &infrav1.OLVMStatus{}
	}

	return m.Status.OLVM
}

// recordCreation records in the status whether a run created the VM.
func recordCreation(m *infrav1.OLVMMachine, run terraform.Status) {
	vm := &ensureOLVM(m).VirtualMachine

	switch {
	case run.Operation != terraform.Apply:
	case run.Err == nil:
		vm.CreationStatus, vm.CreationError, vm.LastGeneration = "Created", "", strconv.FormatInt(m.Generation, 10)
	case m.Spec.ProviderID == "":
		vm.CreationStatus, vm.CreationError = "Failed", steadytext.Shorten(run.Err.Error(), 1024)
	}
}

// updateMachineStatus turns the facts of a pass into status.
func updateMachineStatus(scope *machineScope) {
	m, addresses := scope.olvmMachine, scope.machineAddresses()
	setMachineFacts(scope, addresses)
	setMachineDeletingCondition(scope)
	if m.DeletionTimestamp.IsZero() && !scope.observed.StateUnread {
		setBootstrapCondition(scope)
		setClaimedCondition(scope)
		setAddressesCondition(scope, len(addresses) > 0)
		setUpToDateConditions(scope)
		setDriftCondition(scope)
		setUserDataCondition(scope)
	}

	setRunningCondition(scope)
	pass.SetReady(m, readyConditions(scope))
	if m.DeletionTimestamp.IsZero() && conditions.IsTrue(m,
		infrav1.VirtualMachineRunningCondition) && m.Spec.ProviderID != "" && len(addresses) > 0 {
		m.Status.Initialization.Provisioned = ptr.To(true)
	}
}

// setUnownedCondition reports that no Machine of an existing Cluster owns the OLVMMachine.
func setUnownedCondition(scope *machineScope) {
	m := scope.olvmMachine
	condition := metav1.Condition{
		Type: infrav1.InfrastructureAppliedCondition, Status: metav1.ConditionFalse, Reason: infrav1.NoMachineReason,
		Message: "No Machine owns this OLVMMachine, so the controller changes nothing. Delete it, unless you are " +
			"restoring its Machine",
	}
	if name := m.Labels[clusterv1.ClusterNameLabel]; scope.machine != nil && name != "" {
		condition.Message = fmt.Sprintf("Cluster %q does not exist, so the controller changes nothing. Create it, or "+
			"delete the Machine", name)
	}

	conditions.Set(m, condition)
	pass.SetReady(m, []string{infrav1.InfrastructureAppliedCondition})
}

// setDriftCondition reports the result of the last drift check. It does not affect Ready, because the VM runs.
func setDriftCondition(scope *machineScope) {
	m := scope.olvmMachine
	if m.Status.Terraform == nil || m.Status.Terraform.Drift == nil {
		conditions.Delete(m, infrav1.DriftDetectedCondition)
		return
	}

	drift := m.Status.Terraform.Drift
	condition := metav1.Condition{
		Type:   infrav1.DriftDetectedCondition,
		Status: metav1.ConditionFalse,
		Reason: infrav1.NoDriftReason,
	}

	switch {
	case drift.Error != "":
		condition.Status, condition.Reason = metav1.ConditionUnknown, infrav1.DriftCheckFailedReason
		condition.Message = drift.Error
	case len(drift.Differences) > 0:
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.DriftDetectedReason
		condition.Message = steadytext.Shorten(workspace.DriftMessage(drift.Differences), pass.MaxMessage)
	}

	if scope.isSettled() {
		conditions.Set(m, condition)
	} else { // the check covered the last applied spec
		pass.SetOfEarlierGeneration(m, condition)
	}
}

// readyConditions returns the conditions summarized by Ready, in the order they usually become true.
func readyConditions(scope *machineScope) []string {
	out := []string{infrav1.BootstrapDataAvailableCondition}
	if scope.isFromInventory() {
		out = append(out, infrav1.VirtualMachineClaimedCondition)
	}

	return append(out, infrav1.AddressesAllocatedCondition, infrav1.InfrastructureAppliedCondition,
		infrav1.VirtualMachineRunningCondition, infrav1.DeletingCondition)
}

// setClaimedCondition reports the machine's VM of an inventory, or why there is none.
func setClaimedCondition(scope *machineScope) {
	if !scope.isFromInventory() {
		return
	}

	condition := metav1.Condition{
		Type:   infrav1.VirtualMachineClaimedCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.VirtualMachineClaimedReason,
	}
	if err := scope.claim.err; err != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, err.Reason, err.Error()
	}

	conditions.Set(scope.olvmMachine, condition)
}

// stepEvents maps a condition to the text of its event when it becomes true.
func (s *machineScope) stepEvents() map[string]string {
	vm := ensureOLVM(s.olvmMachine).VirtualMachine
	up := fmt.Sprintf("VM %s (%s) is up", vm.VMName, vm.VMID)
	if address := s.olvmMachine.Status.OLVM.IPAddress; address != "" {
		up += " at " + address
	}

	return map[string]string{
		infrav1.VirtualMachineClaimedCondition: "The machine has claimed VM " + s.claim.vmName(),
		infrav1.VirtualMachineRunningCondition: up,
		infrav1.DeletingCondition:              "The VM is being deleted",
	}
}

// setMachineFacts copies the resolved names, the data of the VM and the addresses to the status.
func setMachineFacts(scope *machineScope, addresses []netip.Addr) {
	m := scope.olvmMachine
	if scope.desired.built != nil {
		before := *ensureOLVM(m)
		m.Status.OLVM = scope.desired.built.Names
		m.Status.OLVM.VirtualMachine, m.Status.OLVM.VNICID = before.VirtualMachine, before.VNICID
		m.Status.OLVM.IPAddress, m.Status.OLVM.EngineID = before.IPAddress, before.EngineID
	}

	if scope.engine.installation != "" && scope.engine.err == nil {
		ensureOLVM(m).EngineID = scope.engine.installation
	}

	if name := m.Annotations[infrav1.CreateRequestedAnnotation]; name != "" {
		vm := &ensureOLVM(m).VirtualMachine
		vm.CreateRequestSubmitted = true
		vm.VMName = cmp.Or(vm.VMName, name)
	}

	if scope.observed.State != nil {
		if id := scope.observed.State.ResourceID("ovirt_nic"); id != "" {
			ensureOLVM(m).VNICID = id
		}
	}

	if scope.vm.current != nil {
		vm := &ensureOLVM(m).VirtualMachine
		current := scope.vm.current
		vm.VMID, vm.VMName, vm.Status = current.ID.String(), current.Name, string(current.Status)
		vm.HostName = scope.vm.host
	}

	if scope.desired.built != nil {
		m.Status.FailureDomain = scope.machine.Spec.FailureDomain
	}

	// Keep the last known addresses if this pass has not seen all of them.
	complete := scope.network.nics != nil && (scope.guest.asked || !scope.hasDynamic())
	if len(addresses) > 0 && scope.machine != nil && (complete || len(m.Status.Addresses) == 0) {
		ensureOLVM(m).IPAddress = addresses[0].String()

		// A guest may report any number of addresses; the API allows 256 with the name.
		listed, _ := workspace.LimitList(addresses, 255)

		m.Status.Addresses = nil
		for _, address := range listed {
			m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{
				Type:    clusterv1.MachineInternalIP,
				Address: address.String(),
			})
		}

		m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{
			Type:    clusterv1.MachineHostName,
			Address: scope.machine.Name,
		})
	}
}

// machineAddresses returns the allocated and the reported addresses of the machine, in the order of its network
// interfaces. It omits the virtual addresses of the cluster, because these move between machines.
func (s *machineScope) machineAddresses() []netip.Addr {
	recorded, err := addressing.ParseRecorded(s.olvmMachine)
	if err != nil {
		return nil
	}

	var out, endpoint []netip.Addr
	if s.olvmCluster != nil {
		for _, virtual := range slices.Concat(addressing.CollectVirtualAddresses(s.olvmCluster.Spec),
			addressing.CollectSupportAddresses(s.olvmCluster.Spec, s.services)) {
			endpoint = append(endpoint, virtual.Address)
		}
	}

	for i, network := range addressing.CollectNetworks(s.olvmMachine.Spec) {
		of := slices.Concat(recorded[network.VNICName], s.reportedAddresses(network.VNICName))
		if i == 0 && len(of) == 0 {
			return nil // the node's own address must come first, so wait until it is known
		}

		out = append(out, of...)
		delete(recorded, network.VNICName)
	}

	for _, name := range slices.Sorted(maps.Keys(recorded)) { // of interfaces that the spec no longer has
		out = append(out, recorded[name]...)
	}

	var unique []netip.Addr
	for _, address := range out {
		if !slices.Contains(endpoint, address) && !slices.Contains(unique, address) {
			unique = append(unique, address)
		}
	}

	return unique
}

// reportedAddresses returns the dynamic addresses of a network interface, as the guest reports them.
func (s *machineScope) reportedAddresses(vnic string) []netip.Addr {
	at := slices.IndexFunc(s.network.nics, func(n addressing.NIC) bool { return n.VNICName == vnic })
	if at < 0 || s.network.nics[at].Guest == nil {
		return nil
	}

	var out []netip.Addr

	for _, found := range s.guest.interfaces {
		if guest := s.network.nics[at].Guest; !guest.Own && found.Name != guest.Interface {
			continue
		}

		if s.network.nics[at].Guest.IsDynamic(true) {
			out = append(out, found.IPv4...)
		}

		if s.network.nics[at].Guest.IsDynamic(false) {
			out = append(out, found.IPv6...)
		}
	}

	return out
}

// hasDynamic reports whether a network interface has dynamic addresses, known only to the guest.
func (s *machineScope) hasDynamic() bool {
	return slices.ContainsFunc(s.network.nics, addressing.NIC.IsDynamic)
}

func setMachineDeletingCondition(scope *machineScope) {
	condition := metav1.Condition{
		Type:   infrav1.DeletingCondition,
		Status: metav1.ConditionFalse,
		Reason: infrav1.NotDeletingReason,
	}
	if !scope.olvmMachine.DeletionTimestamp.IsZero() {
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.DeletingReason

		switch {
		case scope.blocked != nil:
			condition.Reason, condition.Message = scope.blocked.Reason, scope.blocked.Message
		case scope.observed.StateErr != nil:
			condition.Reason = infrav1.DeletionBlockedReason
			condition.Message = scope.observed.StateErr.Error() +
				"; repair that Secret, or delete it: the controller then finds the VM by its ID or name"
		case scope.engine.err != nil || scope.vm.err != nil:
			_, condition.Message = blocker.ExplainEngineError(errors.Join(scope.engine.err, scope.vm.err))
			condition.Reason = infrav1.WaitingForEngineReason
			if scope.isFromInventory() {
				condition.Reason = infrav1.UnableToDecommissionReason
			}
		case scope.observed.Failure.IsDestroyFailure():
			condition.Reason, condition.Message = infrav1.DeletionFailedReason, scope.observed.Failure.Message()
		case scope.action.Reason == infrav1.WaitingForGuestShutdownReason:
			condition.Reason, condition.Message = scope.action.Reason, scope.action.Message
		case scope.action.Message != "":
			condition.Reason, condition.Message = infrav1.WaitingForTerraformReason, scope.action.Message
		}
	}

	conditions.Set(scope.olvmMachine, condition)
}

func setBootstrapCondition(scope *machineScope) {
	condition := metav1.Condition{
		Type:   infrav1.BootstrapDataAvailableCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.BootstrapDataAvailableReason,
	}
	if scope.userDataBlocker != nil {
		condition.Status = metav1.ConditionFalse
		condition.Reason = scope.userDataBlocker.Reason
		condition.Message = scope.userDataBlocker.Message
	}

	conditions.Set(scope.olvmMachine, condition)
}

func setAddressesCondition(scope *machineScope, known bool) {
	condition := metav1.Condition{
		Type:   infrav1.AddressesAllocatedCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.AddressesAllocatedReason,
	}
	var field *blocker.Error
	known = known || ptr.Deref(scope.olvmMachine.Status.Initialization.Provisioned, false)
	errors.As(scope.network.err, &field)

	switch {
	case field != nil && field.Reason != infrav1.IPAddressConflictReason && known &&
		scope.olvmMachine.Spec.ProviderID != "":
		// A running machine keeps its addresses even if its IP profile no longer exists. UpToDate reports the cause.
		pass.SetOfEarlierGeneration(scope.olvmMachine, condition)
		return
	case field != nil:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, field.Reason, field.Error()
	case scope.network.err != nil:
		condition.Status, condition.Reason = metav1.ConditionUnknown, clusterv1.InternalErrorReason
		condition.Message = "Please check the controller's logs for errors"
	case !known:
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.WaitingForGuestAddressesReason
		condition.Message = scope.explainNoGuestAddress()
	}

	conditions.Set(scope.olvmMachine, condition)
}

// explainNoGuestAddress explains why dynamic addresses are missing.
func (s *machineScope) explainNoGuestAddress() string {
	var names []string
	for _, found := range s.guest.interfaces {
		names = append(names, found.Name)
	}

	switch {
	case s.vm.current == nil || s.vm.current.Status != engine.VMUp:
		return "The guest configurationTimeout its addresses itself once it is up"
	case len(names) == 0:
		return "The guest agent reports no address; the image needs qemu-guest-agent, and the network needs a DHCP " +
			"server or router"
	}

	return fmt.Sprintf(
		"The guest agent reports no address for the interface in the machine's spec; it reports addresses of %s",
		strings.Join(names, ", "),
	)
}

// describeReplacement returns the advice to replace a machine. For a control plane machine, it adds a warning: the
// deletion of the only etcd member destroys the cluster.
func describeReplacement(machine *clusterv1.Machine, advice string) string {
	if machine == nil || !util.IsControlPlaneMachine(machine) {
		return advice
	}

	return "if the other control plane machines have etcd quorum, " + advice +
		". Keep the last control plane machine: it has the only copy of etcd. If its VM is lost, restore etcd from a " +
		"backup"
}

func setRunningCondition(scope *machineScope) {
	condition := metav1.Condition{Type: infrav1.VirtualMachineRunningCondition, Status: metav1.ConditionFalse}

	vm := scope.vm.current
	switch {
	case scope.vm.foreign != nil:
		condition.Status, condition.Reason = metav1.ConditionUnknown, scope.vm.foreign.Reason
		condition.Message = "The controller does not change the VM; see InfrastructureApplied for the reason"
	case scope.vm.missing && scope.olvmMachine.Spec.ProviderID != "":
		condition.Reason = infrav1.VirtualMachineNotFoundReason
		condition.Message = fmt.Sprintf(
			"VM %s no longer exists in the engine, and the controller does not recreate it: %s", scope.vmID(),
			describeReplacement(scope.machine, "delete the Machine, or let a MachineHealthCheck replace it"),
		)
	case vm == nil && scope.olvmMachine.Spec.ProviderID == "":
		condition.Reason = infrav1.WaitingForVirtualMachineReason
	case vm == nil:
		// The engine did not answer: keep the last condition.
		if known := conditions.Get(scope.olvmMachine, condition.Type); known != nil {
			return
		}

		condition.Status, condition.Reason = metav1.ConditionUnknown, infrav1.WaitingForEngineReason
	case vm.Status == engine.VMUp:
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.VirtualMachineRunningReason
		if len(scope.vm.pendingSettings) > 0 {
			condition.Message = "waits for a restart: " + strings.Join(scope.vm.pendingSettings, ", ")
		}
	case vm.Status.IsStarting() || vm.Status == engine.VMImageLocked ||
		vm.Status == engine.VMDown && !ptr.Deref(scope.olvmMachine.Status.Initialization.Provisioned, false):
		condition.Reason, condition.Message = infrav1.VirtualMachineStartingReason, "VM is "+string(vm.Status)
	case vm.Status == engine.VMMigrating: // a migrating VM keeps running
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.VirtualMachineRunningReason
		condition.Message = "VM is migrating to another host"
	case vm.Status.IsOutOfSight():
		condition.Status, condition.Reason = metav1.ConditionUnknown, infrav1.VirtualMachineOutOfSightReason
		condition.Message = fmt.Sprintf(
			"VM is %s: the engine cannot reach the VM or its host. Check the host in the engine; the status changes "+
				"when the host is back or fenced",
			vm.Status,
		)
	case vm.Status.IsAsleep():
		condition.Reason = infrav1.VirtualMachineNotRunningReason
		condition.Message = fmt.Sprintf("VM is %s; resume it in the engine, or %s", vm.Status,
			describeReplacement(scope.machine, "delete the Machine"))
	case scope.vm.failed:
		condition.Reason = infrav1.VirtualMachineFailedReason
		condition.Message = "VM is down after a failure of the VM or its host. You can start it safely once its Node " +
			"no longer has the taint " + corev1.TaintNodeOutOfService + "; or " +
			describeReplacement(scope.machine, "delete the Machine")
	default:
		condition.Reason = infrav1.VirtualMachineNotRunningReason
		condition.Message = fmt.Sprintf("VM is %s; start it in the engine, or %s", vm.Status,
			describeReplacement(scope.machine, "delete the Machine"))
	}

	conditions.Set(scope.olvmMachine, condition)
}

// setUserDataCondition reports whether the user data of a node was removed from the engine and the state.
func setUserDataCondition(scope *machineScope) {
	m := scope.olvmMachine

	switch {
	case scope.shouldLeaveUserData():
		conditions.Delete(m, infrav1.UserDataRemovedCondition)
	case conditions.IsTrue(m, infrav1.UserDataRemovedCondition):
	case scope.userData.removed:
		conditions.Set(m, metav1.Condition{
			Type:   infrav1.UserDataRemovedCondition,
			Status: metav1.ConditionTrue,
			Reason: infrav1.UserDataRemovedReason,
		})
	case scope.userData.err != nil:
		conditions.Set(m, metav1.Condition{
			Type:    infrav1.UserDataRemovedCondition,
			Status:  metav1.ConditionFalse,
			Reason:  infrav1.UserDataNotRemovedReason,
			Message: steadytext.Shorten(scope.userData.err.Error(), pass.MaxMessage),
		})
	case !scope.hasJoined():
		conditions.Set(m, metav1.Condition{
			Type:   infrav1.UserDataRemovedCondition,
			Status: metav1.ConditionFalse,
			Reason: infrav1.WaitingForNodeReason,
		})
	}
}

// setUpToDateConditions sets UpToDate and InfrastructureApplied. UpToDate compares the VM with the current spec. It
// does not affect Ready, so an invalid edit does not make a healthy node unready. InfrastructureApplied describes the
// last fully applied spec, and has its generation.
func setUpToDateConditions(scope *machineScope) {
	found := scope.judgeSpec()
	setUpToDateCondition(scope, found)
	setAppliedCondition(scope, found)
}

func setUpToDateCondition(scope *machineScope, found verdict) {
	m := scope.olvmMachine
	condition := metav1.Condition{
		Type:    infrav1.UpToDateCondition,
		Status:  found.status,
		Reason:  found.reason,
		Message: found.message,
	}

	known := conditions.Get(m, condition.Type)
	judged := known != nil && known.ObservedGeneration == m.Generation

	switch {
	case judged && found.status == metav1.ConditionUnknown:
		return // nothing new is known: keep the condition of this spec
	case judged && known.Status == metav1.ConditionTrue && scope.findSpecProblem() != nil:
		// The spec has been applied. If the engine has lost a name since then, the VM stays as it is.
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.UpToDateReason
	}

	conditions.Set(m, condition)
}

func setAppliedCondition(scope *machineScope, found verdict) {
	m := scope.olvmMachine
	condition := metav1.Condition{
		Type:   infrav1.InfrastructureAppliedCondition,
		Status: metav1.ConditionTrue,
		Reason: infrav1.AppliedReason,
	}

	switch {
	case scope.isSettled():
	case scope.observed.State.WasApplied() && scope.vm.foreign == nil && scope.observed.StateErr == nil:
		// The applied spec stays applied, regardless of later edits. UpToDate reports those.
		pass.SetOfEarlierGeneration(m, condition)
		return
	default:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, found.reason, found.message
	}

	conditions.Set(m, condition)
}
