package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/enginepool"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ownermark"
	"github.com/capolvm/cluster-api-provider-olvm/internal/pass"
	"github.com/capolvm/cluster-api-provider-olvm/internal/placement"
	"github.com/capolvm/cluster-api-provider-olvm/internal/support"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workspace"
)

const (
	// bootingInterval and steadyInterval are the intervals between checks of a VM, and limit the age of its cached
	// data: bootingInterval until the VM is up, and steadyInterval afterwards. steadyInterval is also the retry
	// interval for problems only a user can solve.
	bootingInterval = time.Second
	steadyInterval  = 30 * time.Second
	// guestSettlePeriod is how long after the start of a VM missing guest addresses are polled often.
	guestSettlePeriod = 5 * time.Minute
	// engineRetry is the retry interval after a failed request to the engine.
	engineRetry = 10 * time.Second
)

type phase func(context.Context, *machineScope) (time.Duration, error)

// reconcileNormal reconciles a machine without a deletion timestamp.
func (r *Reconciler) reconcileNormal(ctx context.Context, scope *machineScope) (ctrl.Result, error) {
	return runPhases(ctx, scope,
		r.reconcileState, r.reconcileBootstrapData, r.reconcileEngine, r.reconcileClaim, r.reconcileAddresses,
		r.reconcileVM, r.reconcileGuest, r.reconcileUserData, r.reconcileConfiguration, r.reconcileRun,
	)
}

// runPhases runs all phases, because later phases may report problems even if an earlier one waits. It stops only if
// the state cannot be read. It requeues after the shortest interval.
func runPhases(ctx context.Context, scope *machineScope, phases ...phase) (ctrl.Result, error) {
	var soonest time.Duration
	var errs []error

	for _, p := range phases {
		after, err := p(ctx, scope)
		if err != nil {
			errs = append(errs, err)
		}

		if scope.observed.StateUnread {
			break // no decision is possible without the state
		}

		if after > 0 && (soonest == 0 || after < soonest) {
			soonest = after
		}
	}

	if len(errs) > 0 {
		return ctrl.Result{}, kerrors.NewAggregate(errs)
	}

	return ctrl.Result{RequeueAfter: soonest}, nil
}

// reconcileBootstrapData reads the user data once the cluster's infrastructure is provisioned.
func (r *Reconciler) reconcileBootstrapData(ctx context.Context, scope *machineScope) (time.Duration, error) {
	name := scope.machine.Spec.Bootstrap.DataSecretName

	switch {
	case scope.excluded != nil:
		// The condition InfrastructureApplied reports the cause. Retry, because the controller does not watch the other
		// Clusters.
		scope.userDataBlocker = newWaitingForInfrastructureError("another Cluster owns the OLVMCluster")
		return steadyInterval, nil
	case !ptr.Deref(scope.cluster.Status.Initialization.InfrastructureProvisioned, false) && !scope.isSupportMachine():
		scope.userDataBlocker = newWaitingForInfrastructureError(
			"Waiting for Cluster status.initialization.infrastructureProvisioned",
		)

		return 0, nil
	case !isOwnInfrastructureProvisioned(scope):
		scope.userDataBlocker = newWaitingForInfrastructureError(
			"Waiting for status.initialization.provisioned of OLVMCluster " +
				scope.olvmCluster.Name,
		)

		return 0, nil
	case name == nil:
		scope.userDataBlocker = &blocker.Error{
			Reason:  infrav1.WaitingForBootstrapDataReason,
			Message: "Waiting for Machine spec.bootstrap.dataSecretName",
		}

		return 0, nil
	case scope.olvmMachine.Spec.ProviderID != "":
		return 0, nil // only the first boot reads the data, so a changed or deleted Secret must have no effect
	case scope.workspace.IsInFlight():
		return 0, nil // the run already has the data
	}

	return r.readBootstrapData(ctx, scope, client.ObjectKey{Namespace: scope.machine.Namespace, Name: *name})
}

// newWaitingForInfrastructureError returns the error of a machine waiting for its Cluster's infrastructure.
func newWaitingForInfrastructureError(message string) *blocker.Error {
	return &blocker.Error{Reason: infrav1.WaitingForClusterInfrastructureReason, Message: message}
}

// isOwnInfrastructureProvisioned reports whether the OLVMCluster allows a machine without a VM to get one. The
// Cluster's status is not enough, because it stays provisioned even if the Cluster switches to another OLVMCluster.
func isOwnInfrastructureProvisioned(scope *machineScope) bool {
	return scope.olvmCluster == nil || scope.olvmMachine.Spec.ProviderID != "" || scope.isSupportMachine() ||
		ptr.Deref(scope.olvmCluster.Status.Initialization.Provisioned, false)
}

// readBootstrapData reads the user data from the bootstrap Secret, with the additions of users.
func (r *Reconciler) readBootstrapData(
	ctx context.Context, scope *machineScope, key client.ObjectKey,
) (time.Duration, error) {
	var secret corev1.Secret
	if err := r.APIReader.Get(ctx, key, &secret); apierrors.IsNotFound(err) {
		message := fmt.Sprintf("Bootstrap Secret %s does not exist", key.Name)
		scope.userDataBlocker = newWaitingForDataError(message)

		return scope.userDataBlocker.RetryAfter, nil
	} else if err != nil {
		return 0, fmt.Errorf("failed to get the bootstrap Secret %s: %w", key, err)
	}

	if scope.isSupportMachine() && !metav1.IsControlledBy(&secret, scope.olvmMachine) {
		scope.userDataBlocker = newWaitingForDataError(
			fmt.Sprintf("Secret %s belongs to an earlier machine of this name", key.Name))
		return scope.userDataBlocker.RetryAfter, nil
	}

	extra, waiting, err := r.readExtraUserData(ctx, scope)
	if err != nil {
		return 0, err
	}

	if waiting != nil {
		scope.userDataBlocker = waiting
		return waiting.RetryAfter, nil
	}

	scope.bootstrap = &desired.Bootstrap{
		Source:  "bootstrap Secret " + key.Name,
		Data:    secret.Data["value"],
		Format:  bootstrap.Format(secret.Data["format"]),
		Extra:   extra,
		Network: scope.cluster.Spec.ClusterNetwork,
	}
	if r.Delivery != nil {
		scope.bootstrap.Offer = func(data []byte) (bootstrap.Pointer, error) {
			scope.offered = true
			return r.Delivery.OfferUserData(ctx, scope.olvmMachine, data)
		}
	}

	return 0, nil
}

// readExtraUserData reads the users' additions to the bootstrap data. If one is missing, it returns the reason.
func (r *Reconciler) readExtraUserData(
	ctx context.Context, scope *machineScope,
) ([]bootstrap.Extra, *blocker.Error, error) {
	if scope.olvmCluster == nil {
		return nil, nil, nil // reconcileAddresses reports this
	}

	var out []bootstrap.Extra

	for i, extra := range desired.CollectUserData(scope.olvmMachine.Spec, scope.olvmCluster.Spec).Extra {
		if extra.SecretKeyRef == nil && extra.ConfigMapKeyRef == nil {
			source := fmt.Sprintf("userData.extra[%d].inline", i)
			out = append(out, bootstrap.Extra{Source: source, Data: []byte(extra.Inline)})

			continue
		}

		read, waiting, err := r.readExtra(ctx, scope.olvmMachine.Namespace, extra)
		if err != nil || waiting != nil {
			return nil, waiting, err
		}

		out = append(out, read)
	}

	return out, nil, nil
}

// readExtra reads a configuration from a Secret or ConfigMap.
func (r *Reconciler) readExtra(
	ctx context.Context, namespace string, extra infrav1.ExtraUserData,
) (bootstrap.Extra, *blocker.Error, error) {
	secret, configMap := &corev1.Secret{}, &corev1.ConfigMap{}
	object, kind, from := client.Object(secret), "Secret", extra.SecretKeyRef
	if extra.ConfigMapKeyRef != nil {
		object, kind, from = configMap, "ConfigMap", extra.ConfigMapKeyRef
	}

	source := fmt.Sprintf("%s %s (userData.extra)", kind, from.Name)
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: from.Name}, object)
	if apierrors.IsNotFound(err) {
		message := source + " does not exist; create it, or correct the name"
		return bootstrap.Extra{}, newWaitingForDataError(message), nil
	} else if err != nil {
		return bootstrap.Extra{}, nil, fmt.Errorf("failed to get %s: %w", source, err)
	}

	if data, ok := secret.Data[from.Key]; ok {
		return bootstrap.Extra{Source: source, Data: data}, nil, nil
	}

	if text, ok := configMap.Data[from.Key]; ok {
		return bootstrap.Extra{Source: source, Data: []byte(text)}, nil, nil
	}

	if data, ok := configMap.BinaryData[from.Key]; ok {
		return bootstrap.Extra{Source: source, Data: data}, nil, nil
	}

	message := fmt.Sprintf("%s has no key %q; add it, or correct the key", source, from.Key)

	return bootstrap.Extra{}, newWaitingForDataError(message), nil
}

// newWaitingForDataError returns the error of a machine with missing user data. It sets a retry, because Secrets and
// ConfigMaps are not watched.
func newWaitingForDataError(message string) *blocker.Error {
	return &blocker.Error{
		Reason:     infrav1.WaitingForBootstrapDataReason,
		Message:    message,
		RetryAfter: engineRetry,
	}
}

// reconcileAddresses allocates the static addresses. It records them before anything is rendered, so a retry renders
// the same configuration.
func (r *Reconciler) reconcileAddresses(ctx context.Context, scope *machineScope) (time.Duration, error) {
	if scope.olvmCluster == nil {
		scope.network.err = &blocker.Error{
			Reason:  infrav1.WaitingForClusterInfrastructureReason,
			Field:   "Cluster spec.infrastructureRef",
			Message: "the OLVMCluster does not exist yet",
		}

		return engineRetry, nil
	}

	if scope.excluded != nil { // the condition InfrastructureApplied reports the cause
		scope.network.err = newWaitingForInfrastructureError("another Cluster owns the OLVMCluster")
		return 0, nil
	}

	var err error
	if scope.network.nics, err = addressing.BuildNICs(scope.olvmMachine.Spec, scope.olvmCluster.Spec); err == nil {
		nics := scope.network.nics
		scope.network.addresses, err = r.Addresses.Allocate(ctx, scope.olvmMachine, scope.engineID(), nics,
			scope.pass.WriteObject, scope.fetchInitialAddresses)
	}

	var field *blocker.Error
	if errors.As(err, &field) {
		scope.network.err = field
		return steadyInterval, nil // a retry succeeds once someone releases an address or corrects the object
	}

	scope.network.err = err

	return 0, err
}

// fetchInitialAddresses fetches the VM's static addresses from its creation. The engine still has them in the VM's
// initialization.
func (s *machineScope) fetchInitialAddresses(ctx context.Context) (addressing.Addresses, error) {
	if s.engine.session == nil {
		return nil, &blocker.Error{
			Reason:  infrav1.WaitingForEngineReason,
			Field:   "metadata.annotations[" + infrav1.AddressesAnnotation + "]",
			Message: "the record of the VM's addresses is lost, and the engine, which could restore it, is unavailable"}
	}

	id := parseProviderID(s.olvmMachine.Spec.ProviderID)
	vm, err := s.engine.session.FetchFullVM(ctx, id)

	switch {
	case engine.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case !isOwned(ownermark.NewOwner(s.olvmMachine), vm):
		return nil, newNotOwnedError(ownermark.NewOwner(s.olvmMachine), id)
	}

	return parseAddresses(vm.Initialization, s.network.nics), nil
}

// parseAddresses returns the addresses in an initialization, by the name of the vNIC in the engine. It returns nil if
// there is no network configuration.
func parseAddresses(told *engine.Initialization, nics []addressing.NIC) addressing.Addresses {
	if told == nil || told.NICs == nil {
		return nil
	}

	out := addressing.Addresses{}

	for _, configured := range told.NICs.Items {
		at := slices.IndexFunc(nics, func(n addressing.NIC) bool {
			return n.Guest != nil && n.Guest.Interface == configured.Name
		})
		if at < 0 {
			continue
		}

		for _, ip := range []*engine.IP{configured.IP, configured.IPv6} {
			if ip == nil {
				continue
			}

			if address, err := netip.ParseAddr(ip.Address); err == nil && address.Zone() == "" {
				out[nics[at].VNICName] = append(out[nics[at].VNICName], address)
			}
		}
	}

	return out
}

// reconcileEngine opens the session. If the OLVMCluster reports the engine as unavailable, reconcileEngine sends no
// request: only the OLVMCluster controller polls the engine.
func (r *Reconciler) reconcileEngine(ctx context.Context, scope *machineScope) (time.Duration, error) {
	if scope.olvmCluster == nil {
		return 0, nil
	}

	available := conditions.Get(scope.olvmCluster, infrav1.EngineAvailableCondition)
	if available != nil && available.Status == "False" {
		scope.engine.err = &blocker.Error{
			Reason:  infrav1.WaitingForEngineReason,
			Field:   "OLVMCluster " + scope.olvmCluster.Name,
			Message: available.Message,
		}

		return steadyInterval, nil
	}

	facts := &scope.engine
	facts.session, facts.config, facts.installation, facts.err = r.Engines.OpenMachineSession(ctx,
		connection.ClusterEngine(scope.olvmCluster), scope.olvmMachine)
	if facts.err != nil {
		return engineRetry, nil
	}

	return 0, nil
}

// engineID returns the engine of the machine's cluster.
func (s *machineScope) engineID() connection.EngineID {
	return connection.GetEngineID(s.olvmCluster).WithInstallation(s.engine.installation)
}

// reconcileState reads the state and the result of the last run. It records the VM on the object as soon as the state
// contains the VM.
func (r *Reconciler) reconcileState(ctx context.Context, scope *machineScope) (time.Duration, error) {
	observed, err := scope.workspace.Observe(ctx)
	if scope.observed = observed; scope.observed.Ended != nil {
		recordCreation(scope.olvmMachine, *scope.observed.Ended)
	}

	if scope.observed.StateErr != nil {
		return steadyInterval, err
	}

	id := cmp.Or(scope.observed.State.VMID(), getKnownVMID(scope.olvmMachine))
	if id != "" && scope.olvmMachine.Spec.ProviderID == "" {
		scope.olvmMachine.Spec.ProviderID = bootstrap.ProviderIDPrefix + id
	}

	return 0, err
}

// getKnownVMID returns the VM ID from the status of a provisioned machine, or "". The status is the fallback, because a
// user may apply a manifest with an empty providerID at any time.
func getKnownVMID(m *infrav1.OLVMMachine) string {
	if !ptr.Deref(m.Status.Initialization.Provisioned, false) || m.Status.OLVM == nil {
		return ""
	}

	return m.Status.OLVM.VirtualMachine.VMID
}

// reconcileVM finds the VM with the REST API, without Terraform.
func (r *Reconciler) reconcileVM(ctx context.Context, scope *machineScope) (time.Duration, error) {
	id := scope.vmID()
	if scope.engine.session == nil { // the cluster may have lost access to the engine
		r.watcher.Unwatch(scope.workspace.Key())
		return 0, nil
	}

	if id == "" {
		return 0, nil
	}

	maxAge := steadyInterval
	if !ptr.Deref(scope.olvmMachine.Status.Initialization.Provisioned, false) {
		maxAge = bootingInterval / 2
	}

	vm, err := r.getVM(ctx, scope.engine.session, id, maxAge)
	if err != nil {
		scope.vm.err = err
		return engineRetry, nil
	}

	scope.vm.current, scope.vm.missing = vm, vm == nil
	if err := r.checkOwnershipForUpdate(ctx, scope); err != nil {
		scope.vm.current, scope.vm.err = nil, err
		return engineRetry, nil
	}

	if scope.vm.foreign != nil {
		scope.vm.current = nil
		r.watcher.Unwatch(scope.workspace.Key())

		return steadyInterval, nil
	}

	var after time.Duration
	if scope.vm.failed, after, err = r.checkFailure(ctx, scope); err != nil {
		ctrl.LoggerFrom(ctx).Info("Failed to determine why a VM is down", "vm", id, "error", err.Error())
	}

	if vm != nil {
		scope.fetchDetails(ctx, vm)
	}

	booting := vm != nil && maxAge != steadyInterval && vm.Status != engine.VMUp
	r.watcher.Watch(scope.workspace.Key(), enginepool.WatchedVM{
		Session: scope.engine.session,
		ID:      id,
		Booting: booting,
		Seen:    vm,
	})

	return after, nil
}

// fetchDetails fetches the settings of a VM pending until its next start, and the name of its host.
func (scope *machineScope) fetchDetails(ctx context.Context, vm *engine.VM) {
	if vm.ChangesWait {
		if settings, err := scope.engine.session.FetchVMSettings(ctx, vm.ID); err == nil { // the next pass retries
			_, scope.vm.pendingSettings = settings.PendingChanges()
		}
	}

	if vm.Host != nil {
		name, known := scope.engine.session.FindHostName(ctx, vm.Host.ID)
		if !known { // keep the last known name
			name = ensureOLVM(scope.olvmMachine).VirtualMachine.HostName
		}

		scope.vm.host = name
	}
}

// getVM returns the VM, from data at most maxAge old, or nil if the VM does not exist.
func (r *Reconciler) getVM(
	ctx context.Context, session *engine.Client, id engine.ID, maxAge time.Duration,
) (*engine.VM, error) {
	if vm, err := r.Engines.GetVM(ctx, session, id, maxAge); vm != nil || err != nil {
		return vm, err
	}

	// A cached list may be older than the VM, so request this VM before reporting it as lost.
	vm, err := session.FetchVM(ctx, id)
	if engine.IsNotFound(err) {
		return nil, nil
	}

	return vm, err
}

// reconcileGuest asks the engine for the dynamic addresses reported by the guest agent.
func (r *Reconciler) reconcileGuest(ctx context.Context, scope *machineScope) (time.Duration, error) {
	if scope.vm.current == nil || scope.vm.current.Status != engine.VMUp || !scope.hasDynamic() {
		return 0, nil
	}

	started, known := scope.vm.current.StartedAt()
	booting := known && time.Since(started) < guestSettlePeriod

	var err error
	if booting { // ask for this VM alone, because the list includes the user data of all VMs that still boot
		scope.guest.interfaces, err = scope.engine.session.ListGuestInterfaces(ctx, scope.vm.current.ID)
	} else {
		scope.guest.interfaces, err = r.Engines.GetGuestInterfaces(
			ctx, scope.engine.session, scope.vm.current.ID, steadyInterval)
	}

	if err != nil {
		scope.vm.err = err
		return engineRetry, nil
	}

	scope.guest.asked = true
	silent := func(n addressing.NIC) bool { return n.IsDynamic() && len(scope.reportedAddresses(n.VNICName)) == 0 }
	if booting && slices.ContainsFunc(scope.network.nics, silent) {
		return bootingInterval, nil
	}

	return pass.Jitter(steadyInterval), nil // a new DHCP lease may have another address
}

// reconcileConfiguration resolves names and renders the configuration.
func (r *Reconciler) reconcileConfiguration(
	ctx context.Context, scope *machineScope,
) (time.Duration, error) {
	if scope.engine.session == nil || scope.network.err != nil || scope.userDataBlocker != nil ||
		scope.observed.StateErr != nil || scope.claim.err != nil || scope.vm.foreign != nil {
		return 0, nil
	}

	in, after, err := r.buildInput(ctx, scope)
	if in == nil {
		return after, err
	}

	built, err := desired.Build(ctx, scope.engine.session, *in)
	if err == nil {
		scope.desired.digest, err = r.digests.GetDigest(client.ObjectKeyFromObject(scope.olvmMachine), built.Machine)
	}

	if scope.desired.err = err; err == nil {
		scope.desired.built = built

		// Keep an engine error of an earlier phase.
		if scope.desired.leftGroup, err = r.checkLeftGroup(ctx, scope); err != nil {
			scope.vm.err = err
		}
	}

	var field *blocker.Error
	if errors.As(err, &field) && field.Reason == infrav1.BootstrapDataInvalidReason {
		scope.userDataBlocker = &blocker.Error{Reason: field.Reason, Message: field.Error()}
	}

	if err != nil {
		// The engine may answer later, or the name may exist later. A change of the OLVMCluster wakes the machine once
		// its affinity group exists.
		return engineRetry, nil
	}

	return 0, nil
}

// buildInput collects the inputs of the VM's configuration. It returns nil if it cannot read one of them.
func (r *Reconciler) buildInput(ctx context.Context, scope *machineScope) (*desired.Input, time.Duration, error) {
	nodes, err := r.listControlPlaneNodes(ctx, scope)
	if err != nil {
		return nil, 0, err
	}

	ids, err := desired.ParseRouterIDs(scope.olvmCluster)
	if err != nil {
		scope.desired.err = err
		return nil, steadyInterval, nil
	}

	return &desired.Input{
		Role:              placement.GetRole(scope.machine),
		Service:           support.GetServiceName(scope.machine),
		SupportServices:   scope.services,
		ControlPlaneNodes: nodes,
		RouterIDs:         ids,
		KubernetesVersion: scope.machine.Spec.Version,
		Spec:              scope.olvmMachine.Spec,
		Cluster:           scope.olvmCluster.Spec,
		VMName:            scope.machine.Name,
		Owner:             ownermark.NewOwner(scope.olvmMachine),
		ClaimedVM:         scope.getClaimedVM(),
		NICs:              scope.network.nics,
		Addresses:         scope.network.addresses,
		Bootstrap:         scope.bootstrap,
		Config:            scope.engine.config,
		FailureDomain:     scope.machine.Spec.FailureDomain,
		FindGroups: func(ctx context.Context, self placement.Member) (map[string]string, error) {
			return r.resolveAffinityGroups(ctx, scope, self)
		},
	}, 0, nil
}

// listControlPlaneNodes returns the recorded addresses of the control plane machines. It returns nil if the machine
// does not need them for its first boot.
func (r *Reconciler) listControlPlaneNodes(ctx context.Context, scope *machineScope) ([]netip.Addr, error) {
	services := scope.olvmCluster.Spec.ControlPlaneServices
	if scope.bootstrap == nil || services == nil || !util.IsControlPlaneMachine(scope.machine) && services.DNS == nil {
		return nil, nil
	}

	var owners clusterv1.MachineList
	err := r.Client.List(ctx, &owners, client.InNamespace(scope.machine.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: scope.cluster.Name,
	}, client.UnsafeDisableDeepCopy) // read-only
	if err != nil {
		return nil, fmt.Errorf("failed to list the Machines of Cluster %s: %w", scope.cluster.Name, err)
	}

	var out []netip.Addr

	for i := range owners.Items {
		if !util.IsControlPlaneMachine(&owners.Items[i]) {
			continue
		}

		var m infrav1.OLVMMachine
		err := r.Client.Get(ctx, client.ObjectKey{
			Namespace: scope.machine.Namespace,
			Name:      owners.Items[i].Spec.InfrastructureRef.Name,
		}, &m)
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("failed to get OLVMMachine %s: %w", owners.Items[i].Spec.InfrastructureRef.Name, err)
		}

		if recorded, err := addressing.ParseRecorded(
			&m,
		); err == nil { // the condition of that machine reports a bad record
			out = append(out, recorded[addressing.CollectNetworks(m.Spec)[0].VNICName]...)
		}
	}

	slices.SortFunc(out, netip.Addr.Compare)

	return out, nil
}

// reconcileRun submits a run if needed.
func (r *Reconciler) reconcileRun(ctx context.Context, scope *machineScope) (time.Duration, error) {
	state := scope.observed.State
	action, err := scope.workspace.Apply(ctx, &scope.observed, workspace.Request{
		Facts: workspace.Facts{
			Ready:    scope.desired.built != nil && scope.vm.err == nil && scope.vm.foreign == nil,
			Digest:   scope.desired.digest,
			Drifted:  scope.desired.leftGroup,
			MayExist: scope.olvmMachine.Spec.ProviderID != "",
			Lost:     scope.vm.missing,
		},
		Engine: connection.GetEngineID(scope.olvmCluster).Key(),
		// Record that a VM may exist before anything can create one.
		Annotations: map[string]string{infrav1.CreateRequestedAnnotation: scope.machine.Name},
		Subject:     func() workspace.Subject { return r.newSubject(scope) },
	})
	if scope.action = action; err != nil || action.Kind != workspace.Apply {
		return action.After, err
	}

	if scope.desired.leftGroup && state != nil && state.AppliedDigest == scope.desired.digest {
		workspace.CountDrift(workspace.DriftedMember)
	}

	return 0, nil
}

// parseProviderID returns the UUID in a provider ID, or "" if there is none.
func parseProviderID(providerID string) engine.ID {
	return engine.ID(bootstrap.ParseProviderID(providerID))
}
