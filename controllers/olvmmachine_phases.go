package controllers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrap"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/resolve"
	"github.com/capolvm/cluster-api-provider-olvm/internal/terraform"
	"github.com/capolvm/cluster-api-provider-olvm/internal/tfstate"
	"github.com/capolvm/cluster-api-provider-olvm/render"
)

const (
	// vmBooting is how often a VM is looked at until it is up; vmSteady, afterwards.
	vmBooting = time.Second
	// guestSettles is how long after its start a guest is looked at that often for addresses that it has not reported.
	guestSettles = 5 * time.Minute
	vmSteady     = 30 * time.Second
)

type phase func(context.Context, *machineScope) (time.Duration, error)

// reconcileNormal runs every phase: one that cannot go on does not hide what a later one finds out. The soonest time to
// look again wins.
func (r *OLVMMachineReconciler) reconcileNormal(ctx context.Context, scope *machineScope) (ctrl.Result, error) {
	var soonest time.Duration
	var errs []error

	for _, p := range []phase{
		r.reconcileBootstrapData, r.reconcileEngine, r.reconcileAddresses, r.reconcileState, r.reconcileVM,
		r.reconcileGuest, r.reconcileConfiguration, r.reconcileRun,
	} {
		after, err := p(ctx, scope)
		if err != nil {
			errs = append(errs, err)
		}

		if scope.stateUnknown {
			break // nothing may be decided without the state
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

// reconcileBootstrapData reads the user data, once the cluster's infrastructure is there.
func (r *OLVMMachineReconciler) reconcileBootstrapData(
	ctx context.Context, scope *machineScope,
) (time.Duration, error) {
	if !ptr.Deref(scope.cluster.Status.Initialization.InfrastructureProvisioned, false) {
		scope.waiting = &fact{
			infrav1.WaitingForClusterInfrastructureReason,
			"Waiting for Cluster status.initialization.infrastructureProvisioned",
		}

		return 0, nil
	}

	name := scope.machine.Spec.Bootstrap.DataSecretName
	if name == nil {
		scope.waiting = &fact{
			infrav1.WaitingForBootstrapDataReason,
			"Waiting for Machine spec.bootstrap.dataSecretName",
		}

		return 0, nil
	}

	if scope.olvmMachine.Spec.ProviderID != "" {
		return 0, nil // read once, at the first boot; a rotated or deleted Secret must not matter later
	}

	if status, ok := r.runner.Observe(scope.key); ok && status.Phase != terraform.Done {
		return 0, nil // the run has it
	}

	var secret corev1.Secret
	key := client.ObjectKey{Namespace: scope.machine.Namespace, Name: *name}
	if err := r.APIReader.Get(ctx, key, &secret); apierrors.IsNotFound(err) {
		scope.waiting = &fact{
			infrav1.WaitingForBootstrapDataReason,
			fmt.Sprintf("Bootstrap Secret %s does not exist", key.Name),
		}

		return engineRetry, nil
	} else if err != nil {
		return 0, fmt.Errorf("failed to get the bootstrap Secret %s: %w", key, err)
	}

	extra, waiting, err := r.extraUserData(ctx, scope)
	if err != nil {
		return 0, err
	}

	if waiting != nil {
		scope.waiting = waiting
		return engineRetry, nil
	}

	scope.bootstrap = &resolve.Bootstrap{
		Source:  "bootstrap Secret " + key.Name,
		Data:    secret.Data["value"],
		Format:  bootstrap.Format(secret.Data["format"]),
		Extra:   extra,
		Network: scope.cluster.Spec.ClusterNetwork,
	}
	if r.Delivery != nil {
		scope.bootstrap.Offer = func(data []byte) (bootstrap.Pointer, error) {
			return r.Delivery.Offer(ctx,
				scope.olvmMachine, data)
		}
	}

	return 0, nil
}

// extraUserData reads the configurations that users add to the bootstrap data, or says why there is none yet.
func (r *OLVMMachineReconciler) extraUserData(
	ctx context.Context, scope *machineScope,
) ([]bootstrap.Extra, *fact, error) {
	if scope.olvmCluster == nil {
		return nil, nil, nil // told by reconcileAddresses
	}

	var out []bootstrap.Extra

	for i, extra := range resolve.UserDataOf(scope.olvmMachine.Spec, scope.olvmCluster.Spec).Extra {
		var object client.Object
		var kind string
		var from *infrav1.KeyReference
		var read func(key string) ([]byte, bool)

		switch {
		case extra.Secret != nil:
			secret := &corev1.Secret{}
			object = secret
			kind = "Secret"
			from = extra.Secret
			read = func(key string) ([]byte, bool) { data, ok := secret.Data[key]; return data, ok }
		case extra.ConfigMap != nil:
			configMap := &corev1.ConfigMap{}
			object, kind, from, read = configMap, "ConfigMap", extra.ConfigMap, func(key string) ([]byte, bool) {
				if data, ok := configMap.Data[key]; ok {
					return []byte(data), true
				}

				data, ok := configMap.BinaryData[key]

				return data, ok
			}
		default:
			out = append(out, bootstrap.Extra{
				Source: fmt.Sprintf("userData.extra[%d].inline", i),
				Data:   []byte(extra.Inline),
			})
			continue
		}

		source := fmt.Sprintf("%s %s (userData.extra)", kind, from.Name)
		err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: scope.olvmMachine.Namespace, Name: from.Name}, object)
		if apierrors.IsNotFound(err) {
			return nil, &fact{
				infrav1.WaitingForBootstrapDataReason,
				source + " does not exist; create it, or correct the name",
			}, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("failed to get %s: %w", source, err)
		}

		data, ok := read(from.Key)
		if !ok {
			return nil, &fact{
				infrav1.WaitingForBootstrapDataReason,
				fmt.Sprintf("%s has no key %q; add it, or correct the key", source, from.Key),
			}, nil
		}

		out = append(out, bootstrap.Extra{Source: source, Data: data})
	}

	return out, nil, nil
}

// reconcileAddresses allocates the static addresses before anything is rendered, so that a retry renders the same
// bytes.
func (r *OLVMMachineReconciler) reconcileAddresses(ctx context.Context, scope *machineScope) (time.Duration, error) {
	if scope.olvmCluster == nil {
		scope.addressErr = &resolve.Error{
			Reason:  infrav1.WaitingForClusterInfrastructureReason,
			Field:   "Cluster spec.infrastructureRef",
			Message: "the OLVMCluster does not exist yet",
		}

		return engineRetry, nil
	}

	var err error
	if scope.nics, err = resolve.NICs(scope.olvmMachine.Spec, scope.olvmCluster.Spec); err == nil {
		scope.addresses, err = r.addresses.allocate(ctx, scope.olvmMachine, scope.olvmCluster, scope.nics,
			scope.givenToVM)
	}

	var field *resolve.Error
	if errors.As(err, &field) {
		scope.addressErr = field
		return vmSteady, nil // heals when an address is released or the object is corrected
	}

	scope.addressErr = err

	return 0, err
}

// givenToVM are the static addresses that the VM was told at its creation, as the engine remembers them.
func (s *machineScope) givenToVM(ctx context.Context) (resolve.Addresses, error) {
	if s.session == nil {
		return nil, &resolve.Error{
			Reason:  infrav1.WaitingForEngineReason,
			Field:   "metadata.annotations[" + infrav1.AddressesAnnotation + "]",
			Message: "the record of the VM's addresses is lost, and the engine, which knows them, cannot be asked"}
	}

	vm, err := s.session.VMInFull(ctx, providerIDToVM(s.olvmMachine.Spec.ProviderID))
	if engine.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}

	if vm.Initialization == nil || vm.Initialization.NICs == nil {
		return nil, nil
	}

	out := resolve.Addresses{}

	for _, told := range vm.Initialization.NICs.Items {
		at := slices.IndexFunc(s.nics, func(n resolve.NIC) bool {
			return n.Guest != nil &&
				n.Guest.Interface == told.Name
		})
		if at < 0 {
			continue
		}

		for _, ip := range []*engine.IP{told.IP, told.IPv6} {
			if ip == nil {
				continue
			}

			if address, err := netip.ParseAddr(ip.Address); err == nil {
				out[s.nics[at].VNICName] = append(out[s.nics[at].VNICName], address)
			}
		}
	}

	return out, nil
}

// reconcileEngine takes the session, unless the OLVMCluster already knows that the engine cannot be used: one object
// asks a broken engine, not every machine.
func (r *OLVMMachineReconciler) reconcileEngine(ctx context.Context, scope *machineScope) (time.Duration, error) {
	if scope.olvmCluster == nil {
		return 0, nil
	}

	available := conditions.Get(scope.olvmCluster, infrav1.EngineAvailableCondition)
	if available != nil && available.Status == "False" {
		scope.engineErr = &resolve.Error{
			Reason:  infrav1.WaitingForEngineReason,
			Field:   "OLVMCluster " + scope.olvmCluster.Name,
			Message: available.Message,
		}

		return vmSteady, nil
	}

	scope.session, scope.config, scope.engineErr = r.Engines.For(ctx, scope.olvmCluster)
	if scope.engineErr != nil {
		return engineRetry, nil
	}

	return 0, nil
}

// reconcileState reads the state and keeps it the object's own, and records the VM on the object as soon as the state
// has it.
func (r *OLVMMachineReconciler) reconcileState(ctx context.Context, scope *machineScope) (time.Duration, error) {
	state, err := r.states.Hold(ctx, scope.olvmMachine, scope.olvmMachine.Labels[clusterv1.ClusterNameLabel])
	var invalid *tfstate.InvalidError
	if errors.As(err, &invalid) {
		scope.stateErr = invalid
		return vmSteady, nil
	}

	if err != nil {
		scope.stateUnknown = true
		return 0, err
	}

	scope.stateErr = noteState(&scope.olvmMachine.Status.Terraform, r.states.SecretName(scope.olvmMachine), state)
	if scope.stateErr != nil {
		return vmSteady, nil
	}

	scope.state = state
	if id := state.ResourceID("ovirt_vm"); id != "" && scope.olvmMachine.Spec.ProviderID == "" {
		scope.olvmMachine.Spec.ProviderID = bootstrap.ProviderIDPrefix + id
	}

	return 0, nil
}

// reconcileVM looks at the VM natively.
func (r *OLVMMachineReconciler) reconcileVM(ctx context.Context, scope *machineScope) (time.Duration, error) {
	id := scope.vmID()
	if id == "" || scope.session == nil {
		return 0, nil
	}

	maxAge := vmSteady
	if !ptr.Deref(scope.olvmMachine.Status.Initialization.Provisioned, false) {
		maxAge = vmBooting / 2
	}

	vm, err := r.Engines.VM(ctx, scope.session, id, maxAge)
	if err != nil {
		scope.vmErr = err
		return engineRetry, nil
	}

	if vm == nil {
		// A list from before the VM was made does not have it: ask for this one before calling it lost.
		if vm, err = scope.session.VM(ctx, id); err != nil && !engine.IsNotFound(err) {
			scope.vmErr = err
			return engineRetry, nil
		}
	}

	scope.vm, scope.vmMissing = vm, vm == nil
	if vm != nil && vm.ChangesWait {
		if settings, err := scope.session.VMSettings(ctx, id); err == nil { // it is told the next time
			_, scope.waits = settings.Waiting()
		}
	}

	booting := vm != nil && maxAge != vmSteady && vm.Status != engine.VMUp
	r.follower.follow(scope.key, followed{session: scope.session, vmID: id, fast: booting, vm: vm})

	return 0, nil
}

// reconcileGuest asks for the addresses that only the guest knows, where there are such.
func (r *OLVMMachineReconciler) reconcileGuest(ctx context.Context, scope *machineScope) (time.Duration, error) {
	if scope.vm == nil || scope.vm.Status != engine.VMUp || !scope.dynamic() {
		return 0, nil
	}

	started, known := scope.vm.StartedAt()
	booting := known && time.Since(started) < guestSettles
	maxAge := vmSteady
	if booting {
		maxAge = vmBooting / 2
	}

	var err error
	if scope.guest, err = r.Engines.Guest(ctx, scope.session, scope.vm.ID, maxAge); err != nil {
		scope.vmErr = err
		return engineRetry, nil
	}

	scope.guestAsked = true
	silent := func(n resolve.NIC) bool { return n.Dynamic() && len(scope.reported(n.VNICName)) == 0 }
	if booting && slices.ContainsFunc(scope.nics, silent) {
		return vmBooting, nil
	}

	return jitter(vmSteady), nil // a lease may be renewed with another address
}

// reconcileConfiguration resolves the names and renders.
func (r *OLVMMachineReconciler) reconcileConfiguration(
	ctx context.Context, scope *machineScope,
) (time.Duration, error) {
	if scope.session == nil || scope.addressErr != nil || scope.waiting != nil || scope.stateErr != nil {
		return 0, nil
	}

	groups, err := r.affinityGroups(ctx, scope)
	if err != nil {
		scope.renderErr = err
		return engineRetry, nil // the OLVMCluster wakes the machine when the group is there
	}

	nodes, err := r.controlPlaneNodes(ctx, scope)
	if err != nil {
		return 0, err
	}

	ids, err := resolve.RecordedRouterIDs(scope.olvmCluster)
	if err != nil {
		scope.renderErr = err
		return vmSteady, nil
	}

	machine, resolved, err := resolve.Machine(ctx, scope.session, resolve.Input{
		ControlPlane: util.IsControlPlaneMachine(scope.machine), ControlPlaneNodes: nodes, RouterIDs: ids,
		KubernetesVersion: scope.machine.Spec.Version,
		Spec:              scope.olvmMachine.Spec,
		Cluster:           scope.olvmCluster.Spec,
		VMName:            scope.machine.Name,
		Owner:             ownerOf(scope.olvmMachine),
		NICs:              scope.nics, Addresses: scope.addresses, Bootstrap: scope.bootstrap, Config: scope.config,
		FailureDomain: scope.machine.Spec.FailureDomain, AffinityGroups: groups,
	})
	if err == nil {
		scope.digest, err = r.digests.of(machine)
	}

	scope.resolved, scope.renderErr = resolved, err
	if err == nil {
		scope.asked, scope.groups = &machine, groups
		scope.leftGroup, scope.vmErr = r.leftGroup(ctx, scope)
		err = scope.vmErr
	}

	var field *resolve.Error
	if errors.As(err, &field) && field.Reason == infrav1.BootstrapDataInvalidReason {
		scope.waiting = &fact{field.Reason, field.Error()}
	}

	if err != nil {
		return engineRetry, nil // the engine may answer, or have the name, later
	}

	return 0, nil
}

// controlPlaneNodes are the addresses of the control plane's machines that are recorded, where the machine's first boot
// needs them.
func (r *OLVMMachineReconciler) controlPlaneNodes(ctx context.Context, scope *machineScope) ([]netip.Addr, error) {
	services := scope.olvmCluster.Spec.ControlPlaneServices
	if scope.bootstrap == nil || services == nil || !util.IsControlPlaneMachine(scope.machine) && services.DNS == nil {
		return nil, nil
	}

	var owners clusterv1.MachineList
	err := r.Client.List(ctx, &owners, client.InNamespace(scope.machine.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: scope.cluster.Name,
	})
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

		if recorded, err := resolve.Recorded(&m); err == nil { // a record that is spoilt is told by that machine
			out = append(out, recorded[resolve.Networks(m.Spec)[0].VNICName]...)
		}
	}

	slices.SortFunc(out, netip.Addr.Compare)

	return out, nil
}

func ownerOf(m *infrav1.OLVMMachine) resolve.Owner {
	return resolve.Owner{Namespace: m.Namespace, Name: m.Name, UID: string(m.UID)}
}

// observe collects what decide needs.
func (r *OLVMMachineReconciler) observe(scope *machineScope) observed {
	o := observed{
		now:           time.Now(),
		failures:      scope.attempt.failures,
		lastFailure:   scope.attempt.at,
		lastAttempted: scope.attempt.digest,
		stateInvalid:  scope.stateErr != nil,
		stateEmpty:    scope.state.Empty(),
		hadVM:         scope.olvmMachine.Spec.ProviderID != "",
		vmMissing:     scope.vmMissing,
		ready:         scope.asked != nil && scope.vmErr == nil, drifted: scope.leftGroup,
	}
	if status, ok := r.runner.Observe(scope.key); ok && (!scope.noticed || status.Phase != terraform.Done) {
		o.run = &status
	}

	o.digest = scope.digest
	if scope.state != nil {
		o.applied = scope.state.AppliedDigest
	}

	return o
}

// reconcileRun decides, and submits a run where one is needed.
func (r *OLVMMachineReconciler) reconcileRun(ctx context.Context, scope *machineScope) (time.Duration, error) {
	o := r.observe(scope)
	scope.action = decide(normalRules, o)
	if scope.action.kind != actionApply {
		return scope.action.after, nil
	}

	if o.drifted && o.digest == o.applied {
		driftTotal.WithLabelValues(driftMember).Inc()
	}

	// That a VM may exist must be known before anything can create it.
	err := r.Runs.submit(ctx, r.Client, scope.olvmMachine, map[string]string{
		infrav1.CreateRequestedAnnotation: scope.machine.Name,
	}, func() terraform.Job {
		return terraform.Job{
			Key:       scope.key,
			Tenant:    scope.olvmCluster.Namespace,
			Engine:    resolve.EngineOf(scope.olvmCluster),
			Operation: terraform.Apply,
			Digest:    o.digest,
			Run:       r.applyJob(scope, o.digest),
		}
	})
	if err != nil {
		return 0, err
	}

	vm := &ensureOLVM(scope.olvmMachine).VirtualMachine
	vm.CreateRequestSubmitted, vm.VMName = true, scope.machine.Name

	return 0, nil
}

// recordVM writes the ID of a VM down the moment it exists, also with an executor that writes its state at the end
// only. If that fails, the state or a look by name finds the VM later.
func (r *OLVMMachineReconciler) recordVM(ctx context.Context, owner *infrav1.OLVMMachine, id string) {
	ctx, cancel := context.WithTimeout(ctx, engineRetry)
	defer cancel()
	patch := client.RawPatch(
		types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"providerID":%q}}`, owner.UID, bootstrap.ProviderIDPrefix+id),
	)
	target := &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name}}
	if err := r.Client.Patch(ctx, target, patch); err != nil {
		ctrl.Log.WithName("olvmmachine").Error(err, "Failed to record the VM of an OLVMMachine", "OLVMMachine",
			client.ObjectKeyFromObject(owner), "vm", id)
	}
}

// shortQueue is how long a job may have waited for its turn without that it is looked at anew.
const shortQueue = time.Second

// stillWanted reads object and Cluster anew when a job's turn has come, and again when its plan is to be applied: the
// queue may have been long, and who paused, moved or changed a machine meanwhile must find it untouched. A destruction
// does not need the Cluster.
func (r *OLVMMachineReconciler) stillWanted(
	ctx context.Context, owner *infrav1.OLVMMachine, operation terraform.Operation,
) error {
	if err := r.Runs.mayAct(ctx); err != nil {
		return err
	}

	current := &infrav1.OLVMMachine{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(owner), current); err != nil {
		return fmt.Errorf("failed to get the OLVMMachine before the run: %w", err)
	}

	cluster := &clusterv1.Cluster{}
	key := client.ObjectKey{Namespace: owner.Namespace, Name: owner.Labels[clusterv1.ClusterNameLabel]}
	err := r.APIReader.Get(ctx, key, cluster)
	if err != nil && (operation == terraform.Apply || !apierrors.IsNotFound(err)) {
		return fmt.Errorf("failed to get the Cluster before the run: %w", err)
	}

	_, moving := current.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	rendered := owner.Spec
	rendered.ProviderID = current.Spec.ProviderID // what we write ourselves
	if current.UID != owner.UID || moving || annotations.IsPaused(cluster, current) ||
		operation == terraform.Apply && (!current.DeletionTimestamp.IsZero() || !equality.Semantic.DeepEqual(rendered,
			current.Spec)) {
		return terraform.ErrCancelled
	}

	return nil
}

// applyJob is one run. It works on copies: the scope belongs to the reconcile that ends before the run begins.
func (r *OLVMMachineReconciler) applyJob(
	scope *machineScope, digest string,
) func(context.Context) (terraform.Summary, error) {
	owner, session := scope.olvmMachine.DeepCopy(), scope.session
	name, dcName := scope.machine.Name, scope.olvmCluster.Spec.OLVMDatacenterName
	secrets := []string{scope.config.Password, scope.asked.UserData}
	if scope.bootstrap != nil {
		secrets = append(secrets, string(scope.bootstrap.Data))
	}

	hadVM := scope.olvmMachine.Spec.ProviderID != ""
	clusterID, groups := engine.ID(scope.resolved.ClusterID), scope.groups
	dir := r.workDir(owner)
	asked, submitted := *scope.asked, time.Now()

	return func(ctx context.Context) (terraform.Summary, error) {
		if time.Since(submitted) > shortQueue { // else it was just looked at, and is again before anything is applied
			if err := r.stillWanted(ctx, owner, terraform.Apply); err != nil {
				return terraform.Summary{}, err
			}
		}

		files, err := render.MachineFiles(asked) // not before its turn: a thousand jobs may wait
		if err != nil {
			return terraform.Summary{}, err
		}

		state, err := r.states.Load(ctx, owner)
		if err != nil {
			return terraform.Summary{}, err
		}

		vmID := state.ResourceID("ovirt_vm")
		fresh := state == nil && !hadVM
		if !state.Complete() {
			found, err := resolve.FindExisting(ctx, session, dcName, name, owner.Spec)
			if err != nil {
				return terraform.Summary{}, err
			}

			if found != nil && vmID == "" && found.Owner != ownerOf(owner) {
				return terraform.Summary{}, found.Conflict()
			}

			if found != nil && vmID != "" && found.VM.ID.String() != vmID {
				found = nil // the machine's own was renamed in the engine
			}

			fresh = fresh && found == nil
			if err := found.FindMemberships(ctx, session, clusterID, groups); err != nil {
				return terraform.Summary{}, err
			}

			files = files.Adopting(found.Imports())
		}

		summary, err := r.Executor.Apply(ctx, terraform.Request{
			Dir:         dir,
			Owner:       ownerOf(owner).Comment(),
			Files:       files,
			SecretFiles: []string{render.SecretsFile},
			Secrets:     secrets,
			Names:       []string{asked.Name},
			State:       state.Bytes(),
			Fresh:       fresh,
			Guard:       guardLiveMachine(hadVM || state.ResourceID("ovirt_vm") != ""),
			Confirm:     func(ctx context.Context) error { return r.stillWanted(ctx, owner, terraform.Apply) },
			Applied: func(ctx context.Context, address, id string) {
				if address == render.VMAddress.String() {
					r.recordVM(ctx, owner, id)
				}
			},
			SaveState: func(ctx context.Context, state []byte) error {
				return r.states.Save(ctx, owner, owner.Labels[clusterv1.ClusterNameLabel], state)
			},
		})
		if err != nil {
			return summary, err
		}

		if !state.Complete() {
			if err := r.removeStrays(ctx, session, owner); err != nil {
				return summary, err
			}
		}

		return summary, r.states.MarkApplied(ctx, owner, digest)
	}
}

// guardLiveMachine refuses what a machine that has a VM must not suffer: machines are immutable, a change is a rollout.
func guardLiveMachine(hadVM bool) func(terraform.Change) string {
	return func(change terraform.Change) string {
		switch {
		case change.Type == "ovirt_vm_affinity_group":
			return "" // leaving or changing a group touches no VM
		case change.Action == "delete" || change.Action == "replace":
			return change.Action
		case change.Action == "create" && change.Type == "ovirt_vm" && hadVM:
			return "create again"
		}

		return ""
	}
}

// workDir is the machine's working directory, by namespace, name and UID: an object made anew gets a new one.
func (r *OLVMMachineReconciler) workDir(m *infrav1.OLVMMachine) string {
	return filepath.Join(r.WorkDir, m.Namespace, workFolder(m.Name, m.UID))
}

func (r *OLVMMachineReconciler) removeWorkDir(m *infrav1.OLVMMachine) error {
	if err := os.RemoveAll(r.workDir(m)); err != nil {
		return fmt.Errorf("failed to remove the working directory: %w", err)
	}

	return nil
}

// providerIDToVM is the UUID in a provider ID; empty where there is none.
func providerIDToVM(providerID string) engine.ID {
	id, ok := strings.CutPrefix(providerID, bootstrap.ProviderIDPrefix)
	if !ok {
		return ""
	}

	return engine.ID(id)
}
