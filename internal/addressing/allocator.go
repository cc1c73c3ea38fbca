// Package addressing assigns static addresses to machines: from ranges, and from IPAM providers by claims.
package addressing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/addressing/addressrange"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
)

// Allocator assigns static addresses to each OLVMMachine, from its ranges and from IPAM providers. It records the
// addresses on the object before anyone uses them. The object is the only record: an address is in use as long as an
// OLVMMachine names it, across all restarts.
//
// One allocation runs at a time. Leader election excludes other processes, except those of other shards. If there are
// other shards, each allocation checks again after it has written its record. If two shards record the same address, at
// least one notices, releases the address and chooses another.
//
// If the cache has all machines, the allocator reads the cache, and adds its own records that the cache lacks.
// Otherwise, and on its first use, it reads without the cache. This takes longer with more machines.
type Allocator struct {
	Client client.Client
	// Reader reads without the cache.
	Reader client.Reader
	// CacheHasAll reports that the cache has the machines of all namespaces, and that no other manager assigns
	// addresses.
	CacheHasAll bool

	mu sync.Mutex
	// recorded has machines as written after their allocation, until the cache has them. It is nil before the first
	// use.
	recorded map[client.ObjectKey]*infrav1.OLVMMachine
	// admitted has the OLVMClusters and OLVMSupportServices whose virtual addresses this process has found free.
	admitted map[types.UID]bool
	// compared has the records that this process has compared with those of other machines.
	compared map[client.ObjectKey]comparedRecord
}

// Allocate returns the static addresses of the machine's network interfaces, and records new ones. If no other manager
// assigns addresses, it records them only in memory, and the caller must write them before anyone uses them. Otherwise,
// it calls write to write the object.
//
// Allocate never releases an address that a VM may have. If a machine with a VM has lost its record, for example
// because its object was recreated, learn returns the VM's addresses.
func (a *Allocator) Allocate(
	ctx context.Context,
	machine *infrav1.OLVMMachine,
	where connection.EngineID,
	nics []NIC,
	write func(context.Context) error,
	learn func(context.Context) (Addresses, error),
) (given map[string][]addressrange.Address, err error) {
	allocation, learned, err := a.loadAllocation(ctx, machine, nics, learn)
	if err != nil {
		return nil, err
	}

	given, complete := allocation.ResolveAddresses()

	// Another shard may have chosen the same address at the same moment. Only a later check can find out.
	unsure := !a.CacheHasAll && !CanHaveVM(machine)
	if complete && !learned && !unsure && (CanHaveVM(machine) || a.isCompared(machine)) {
		return given, nil
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.setCompared(machine, &err)

	self := seeker{Namespace: machine.Namespace, Machine: machine.Name}
	held, err := a.collectHeld(ctx, self, where)
	if err != nil {
		return nil, err
	}

	if complete && !learned {
		return given, a.releaseConflict(ctx, machine, write, allocation, held)
	}

	wanted, err := allocation.Allocate(held)
	if err != nil {
		return nil, err
	}

	if err := a.writeRecord(ctx, machine, write, wanted); err != nil {
		return nil, err
	}

	allocation.Recorded = wanted
	if given, complete = allocation.ResolveAddresses(); !complete {
		return nil, fmt.Errorf("the addresses %v of OLVMMachine %s do not match its network interfaces", wanted,
			machine.Name)
	}

	if unsure {
		if held, err = a.collectHeld(ctx, self, where); err != nil {
			return nil, err
		}

		err = a.releaseConflict(ctx, machine, write, allocation, held)
	}

	return given, err
}

// loadAllocation returns the addresses the machine already has: from its claims, and from its record or else from its
// VM. learned reports the latter.
func (a *Allocator) loadAllocation(
	ctx context.Context,
	machine *infrav1.OLVMMachine,
	nics []NIC,
	learn func(context.Context) (Addresses, error),
) (allocation Allocation, learned bool, err error) {
	allocation = Allocation{NICs: nics, InUse: CanHaveVM(machine)}
	if allocation.Recorded, err = ParseRecorded(machine); err != nil {
		return allocation, false, err
	}

	if machine.Spec.ProviderID != "" && len(allocation.Recorded) == 0 {
		if allocation.Recorded, err = learn(ctx); err != nil {
			return allocation, false, err
		}

		learned = len(allocation.Recorded) > 0
	}

	allocation.Made = machine.Spec.ProviderID != "" && len(allocation.Recorded) > 0
	allocation.Claimed, err = a.claimAddresses(ctx, machine, nics, allocation.Made)

	return allocation, learned, err
}

// isCompared reports whether this process has compared a machine's record with those of others. A halted predecessor,
// or a user who edited the annotation, may have written an address that another machine has.
func (a *Allocator) isCompared(machine *infrav1.OLVMMachine) bool {
	a.mu.Lock()
	defer a.mu.Unlock()

	return a.compared[client.ObjectKeyFromObject(machine)] == newComparedRecord(machine)
}

// comparedRecord is the record of a machine, with the UID of the machine.
type comparedRecord struct {
	uid  types.UID
	text string
}

// newComparedRecord returns the record of a machine.
func newComparedRecord(m *infrav1.OLVMMachine) comparedRecord {
	return comparedRecord{uid: m.UID, text: m.Annotations[infrav1.AddressesAnnotation]}
}

// setCompared records that a record was compared, unless the comparison has failed. The caller holds mu.
func (a *Allocator) setCompared(machine *infrav1.OLVMMachine, failed *error) {
	if *failed != nil {
		return
	}

	if a.compared == nil {
		a.compared = map[client.ObjectKey]comparedRecord{}
	}

	key := client.ObjectKeyFromObject(machine)

	a.compared[key] = newComparedRecord(machine)
	if a.recorded[key] != nil { // the cache has the edited record, and will never have the one this process has written
		a.recorded[key] = machine.DeepCopy()
	}
}

// releaseConflict releases recorded addresses if another object has recorded them, too. Both objects may do so, and try
// again.
func (a *Allocator) releaseConflict(
	ctx context.Context,
	machine *infrav1.OLVMMachine,
	write func(context.Context) error,
	allocation Allocation,
	held Held,
) error {
	conflict := allocation.FindConflict(held)
	if conflict == "" {
		return nil
	}

	if err := a.writeRecord(ctx, machine, write, Addresses{}); err != nil {
		return err
	}

	return fmt.Errorf("%s; OLVMMachine %s/%s chooses another one", conflict, machine.Namespace, machine.Name)
}

// writeRecord records the addresses. write must refuse a machine that was read before an earlier allocation was
// written.
func (a *Allocator) writeRecord(
	ctx context.Context, machine *infrav1.OLVMMachine, write func(context.Context) error, wanted Addresses,
) error {
	text, err := json.Marshal(wanted)
	if err != nil {
		return fmt.Errorf("failed to encode addresses: %w", err)
	}

	metav1.SetMetaDataAnnotation(&machine.ObjectMeta, infrav1.AddressesAnnotation, string(text))
	if a.CacheHasAll {
		a.recorded[client.ObjectKeyFromObject(machine)] = machine.DeepCopy()
		return nil
	}

	if err := write(ctx); err != nil {
		return fmt.Errorf("failed to record the addresses of OLVMMachine %s/%s: %w", machine.Namespace, machine.Name,
			err)
	}

	return nil
}

// listMachines returns the existing machines with all addresses ever recorded for them. The caller holds mu.
func (a *Allocator) listMachines(ctx context.Context) ([]infrav1.OLVMMachine, error) {
	reader := a.Reader
	if a.CacheHasAll && a.recorded != nil {
		reader = a.Client
	}

	var list infrav1.OLVMMachineList
	if err := reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil { // the caller only reads them
		return nil, fmt.Errorf("failed to list OLVMMachines: %w", err)
	}

	if !a.CacheHasAll {
		return list.Items, nil
	}

	if a.recorded == nil { // the cache may lack earlier records of other processes
		a.recorded = map[client.ObjectKey]*infrav1.OLVMMachine{}

		for i := range list.Items {
			if m := &list.Items[i]; m.Annotations[infrav1.AddressesAnnotation] != "" {
				a.recorded[client.ObjectKeyFromObject(m)] = m
			}
		}

		return list.Items, nil
	}

	behind := map[client.ObjectKey]*infrav1.OLVMMachine{}

	for i := range list.Items {
		m := &list.Items[i]
		ours := a.recorded[client.ObjectKeyFromObject(m)]
		if ours == nil || ours.UID != m.UID ||
			ours.Annotations[infrav1.AddressesAnnotation] == m.Annotations[infrav1.AddressesAnnotation] {
			continue
		}

		behind[client.ObjectKeyFromObject(m)] = ours
		list.Items[i] = *ours
	}

	a.recorded = behind

	return list.Items, nil
}

// listReader returns the reader for lists of objects that only users write.
func (a *Allocator) listReader() client.Reader {
	if a.CacheHasAll {
		return a.Client
	}

	return a.Reader
}

// seeker is the object that needs addresses. Its own addresses count as free.
type seeker struct{ Namespace, Machine, InventoryVM, Cluster string }

// WithHeld calls do with the holders of addresses on an engine, except the OLVMInventoryVM with this namespace and
// name. No other object gets an address before do returns, so do can record its choice.
func (a *Allocator) WithHeld(
	ctx context.Context, vm client.ObjectKey, where connection.EngineID, do func(Held) error,
) error {
	a.mu.Lock()
	defer a.mu.Unlock()

	held, err := a.collectHeld(ctx, seeker{Namespace: vm.Namespace, InventoryVM: vm.Name}, where)
	if err != nil {
		return err
	}

	return do(held)
}

// collectHeld returns the addresses of other machines and of inventory VMs on an engine, and its control plane
// endpoints. An object of another namespace counts only if the engine has accepted the credentials of its OLVMCluster
// or OLVMInventory. Otherwise, any user could block all addresses.
func (a *Allocator) collectHeld(ctx context.Context, self seeker, where connection.EngineID) (Held, error) {
	var clusters infrav1.OLVMClusterList
	if err := a.listReader().List(ctx, &clusters); err != nil {
		return nil, fmt.Errorf("failed to list OLVMClusters: %w", err)
	}

	machines, err := a.listMachines(ctx)
	if err != nil {
		return nil, err
	}

	services, err := a.listSupportServices(ctx)
	if err != nil {
		return nil, err
	}

	out, known := Held{}, map[client.ObjectKey]bool{}
	holding := findAcceptedClusters(where, machines)

	for i := range clusters.Items {
		c := &clusters.Items[i]
		known[GetClusterKey(c)] = true
		if where.IsUsedBy(connection.ClusterEngine(c), self.Namespace) || holding[GetClusterKey(c)] {
			holding[GetClusterKey(c)] = true
			out.AddEndpoint(c, services.GetServices(c), self.Namespace)
		}
	}

	for i := range machines {
		m := &machines[i]
		orphaned := !known[GetClusterKey(m)] && m.Namespace == self.Namespace // it may be on this engine
		own := m.Namespace == self.Namespace && m.Name == self.Machine
		if own || !holding[GetClusterKey(m)] && !orphaned {
			continue
		}

		out.AddRunning(m, DescribeHolder(m, self.Namespace))
	}

	return out, a.addProvisioned(ctx, out, self, where)
}

// findAcceptedClusters returns the clusters of machines that an engine has accepted. For the OLVMClusters of other
// managers, there is no other evidence.
func findAcceptedClusters(where connection.EngineID, machines []infrav1.OLVMMachine) map[client.ObjectKey]bool {
	out := map[client.ObjectKey]bool{}

	for i := range machines {
		if connection.GetMachineEngineID(&machines[i]).IsSame(where) {
			out[GetClusterKey(&machines[i])] = true
		}
	}

	return out
}

// addProvisioned adds the addresses of VMs that were created for inventories.
func (a *Allocator) addProvisioned(ctx context.Context, out Held, self seeker, where connection.EngineID) error {
	var pools infrav1alpha1.OLVMInventoryList
	if err := a.listReader().List(ctx, &pools); err != nil {
		return fmt.Errorf("failed to list OLVMInventories: %w", err)
	}

	holding := map[client.ObjectKey]bool{}

	for i := range pools.Items {
		pool := &pools.Items[i]
		if where.IsUsedBy(connection.InventoryEngine(pool), self.Namespace) {
			holding[client.ObjectKeyFromObject(pool)] = true
		}
	}

	if len(holding) == 0 {
		return nil
	}

	var vms infrav1alpha1.OLVMInventoryVMList
	if err := a.Reader.List(ctx, &vms); err != nil {
		return fmt.Errorf("failed to list OLVMInventoryVMs: %w", err)
	}

	for i := range vms.Items {
		vm := &vms.Items[i]
		pool := client.ObjectKey{Namespace: vm.Namespace, Name: vm.Spec.InventoryName}
		own := vm.Namespace == self.Namespace && (vm.Name == self.InventoryVM ||
			self.Cluster != "" && vm.Spec.ClaimRef != nil && vm.Spec.ClaimRef.ClusterName == self.Cluster)
		if vm.Spec.FromProvision != nil && holding[pool] && !own {
			out.AddProvisioned(*vm.Spec.FromProvision, describeObject("OLVMInventoryVM", vm, self.Namespace))
		}
	}

	return nil
}

// claimName returns the name of the IPAddressClaim of a network interface for one of the interface's pools.
func claimName(machine *infrav1.OLVMMachine, nic, pool int) string {
	return fmt.Sprintf("%s-%d-%d", machine.Name, nic, pool)
}

// claimAddresses requests an address of each pool from the IPAM providers, and returns the assigned addresses by
// network interface. It returns a *blocker.Error while an address is missing. For a machine with a VM, it requests
// none, because the guest could not use another address.
func (a *Allocator) claimAddresses(
	ctx context.Context, machine *infrav1.OLVMMachine, nics []NIC, made bool,
) (map[string][]addressrange.Address, error) {
	out := map[string][]addressrange.Address{}
	var missing error

	for i := range nics {
		if nics[i].Guest == nil {
			continue
		}

		for j, pool := range nics[i].Guest.FromPools {
			address, err := a.claimAddress(ctx, machine, claimName(machine, i, j), pool, nics[i].Guest, made)

			var waiting *blocker.Error
			switch {
			case err == nil:
				out[nics[i].VNICName] = append(out[nics[i].VNICName], address)
			case !errors.As(err, &waiting):
				return nil, err
			case made: // the machine's record has its addresses
			case missing == nil:
				missing = err // claim the other addresses all the same
			}
		}
	}

	return out, missing
}

// claimAddress returns the address from one pool, and creates the claim if necessary.
func (a *Allocator) claimAddress(
	ctx context.Context,
	machine *infrav1.OLVMMachine,
	name string,
	pool ipamv1.IPPoolReference,
	guest *GuestNIC,
	made bool,
) (addressrange.Address, error) {
	waiting := &blocker.Error{Reason: infrav1.WaitingForIPAddressesReason, Field: guest.Field + ".addressesFromPools",
		Message: fmt.Sprintf("waiting for an address from %s %s (IPAddressClaim %s)", pool.Kind, pool.Name, name)}
	claim := &ipamv1.IPAddressClaim{}
	err := a.Client.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: name}, claim)
	if apierrors.IsNotFound(err) {
		if made {
			return addressrange.Address{}, waiting
		}

		claim = newClaim(machine, name, pool)
		if err = a.Client.Create(ctx, claim); apierrors.IsAlreadyExists(err) { // the cache is outdated
			err = a.Reader.Get(ctx, client.ObjectKeyFromObject(claim), claim)
		}
	}

	if err != nil {
		return addressrange.Address{}, fmt.Errorf("failed to claim an address of %s %s: %w", pool.Kind, pool.Name, err)
	}

	if err := a.adoptClaim(ctx, machine, claim); err != nil {
		return addressrange.Address{}, err
	}

	if !CanHaveVM(machine) && (claim.Spec.PoolRef != pool || !claim.DeletionTimestamp.IsZero()) {
		// The claim is for another pool, or another client is deleting it. Its address is not in use yet. The next pass
		// creates a new claim.
		if err := a.deleteClaim(ctx, claim); err != nil {
			return addressrange.Address{}, err
		}

		return addressrange.Address{}, waiting
	}

	return a.readClaimedAddress(ctx, claim, guest, waiting)
}

func newClaim(machine *infrav1.OLVMMachine, name string, pool ipamv1.IPPoolReference) *ipamv1.IPAddressClaim {
	cluster := machine.Labels[clusterv1.ClusterNameLabel]
	claim := &ipamv1.IPAddressClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: machine.Namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
			Finalizers:      []string{infrav1.MachineFinalizer},
			OwnerReferences: []metav1.OwnerReference{newClaimOwner(machine)},
		},
		Spec: ipamv1.IPAddressClaimSpec{ClusterName: cluster, PoolRef: pool},
	}
	if filter, ok := machine.Labels[clusterv1.WatchLabel]; ok {
		claim.Labels[clusterv1.WatchLabel] = filter // the IPAM provider may also handle only objects with this label
	}

	return claim
}

// newClaimOwner returns an owner reference that does not block the owner's deletion. With foreground deletion, the
// garbage collector would otherwise delete the claim first. The IPAM provider would then assign the address of a
// running VM to another machine.
func newClaimOwner(machine *infrav1.OLVMMachine) metav1.OwnerReference {
	owner := *metav1.NewControllerRef(machine, infrav1.GroupVersion.WithKind("OLVMMachine"))
	owner.BlockOwnerDeletion = nil
	return owner
}

// adoptClaim takes over a claim of the machine that has no owner, or an outdated UID of the owner after a restore.
func (a *Allocator) adoptClaim(
	ctx context.Context, machine *infrav1.OLVMMachine, claim *ipamv1.IPAddressClaim,
) error {
	owner := metav1.GetControllerOf(claim)
	if owner != nil && owner.UID == machine.UID {
		return nil
	}

	if owner != nil && (owner.Kind != "OLVMMachine" || owner.Name != machine.Name) ||
		claim.Labels[clusterv1.ClusterNameLabel] != machine.Labels[clusterv1.ClusterNameLabel] {
		return &blocker.Error{Reason: infrav1.IPAddressConflictReason, Field: "metadata.name", Message: fmt.Sprintf(
			"IPAddressClaim %s exists and does not belong to this machine; delete it, or delete this Machine",
			claim.Name,
		)}
	}

	before := claim.DeepCopy()
	claim.OwnerReferences = slices.DeleteFunc(claim.OwnerReferences, func(r metav1.OwnerReference) bool {
		return r.Kind == "OLVMMachine"
	})
	claim.OwnerReferences = append(claim.OwnerReferences, newClaimOwner(machine))
	controllerutil.AddFinalizer(claim, infrav1.MachineFinalizer)
	err := a.Client.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return fmt.Errorf("failed to adopt IPAddressClaim %s: %w", claim.Name, err)
	}

	return nil
}

// readClaimedAddress returns the address of a claim, or the error waiting if there is none yet.
func (a *Allocator) readClaimedAddress(
	ctx context.Context, claim *ipamv1.IPAddressClaim, guest *GuestNIC, waiting *blocker.Error,
) (addressrange.Address, error) {
	pool := claim.Spec.PoolRef
	ready := conditions.Get(claim, ipamv1.IPAddressClaimReadyCondition)
	if ready != nil && ready.Status == metav1.ConditionFalse {
		waiting.Message += ": " + ready.Message
		if ready.Reason == ipamv1.IPAddressClaimReadyPoolExhaustedReason {
			waiting.Reason = infrav1.AddressRangeExhaustedReason
		}
	}

	if claim.Status.AddressRef.Name == "" {
		return addressrange.Address{}, waiting
	}

	given := &ipamv1.IPAddress{}
	key := client.ObjectKey{Namespace: claim.Namespace, Name: claim.Status.AddressRef.Name}
	err := a.Client.Get(ctx, key, given)
	if apierrors.IsNotFound(err) {
		err = a.Reader.Get(ctx, key, given) // the cache may be outdated
	}

	if apierrors.IsNotFound(err) {
		return addressrange.Address{}, waiting
	}

	if err != nil {
		return addressrange.Address{}, fmt.Errorf("failed to get the address of IPAddressClaim %s: %w", claim.Name, err)
	}

	address, err := netip.ParseAddr(given.Spec.Address)
	var gateway netip.Addr
	if err == nil && given.Spec.Gateway != "" {
		gateway, err = netip.ParseAddr(given.Spec.Gateway)
	}

	if err != nil || given.Spec.Prefix == nil || int(*given.Spec.Prefix) > address.BitLen() {
		return addressrange.Address{}, &blocker.Error{
			Reason: infrav1.AddressRangeInvalidReason,
			Field:  guest.Field + ".addressesFromPools",
			Message: fmt.Sprintf(
				"IPAddress %s of %s %s is unusable: address %q, gateway %q; correct the pool and delete this Machine",
				given.Name, pool.Kind, pool.Name, given.Spec.Address, given.Spec.Gateway,
			),
		}
	}

	return guest.ToAddress(netip.PrefixFrom(address, int(*given.Spec.Prefix)), gateway), nil
}

// ReleaseClaims releases the claims of a machine. Its VM must be gone. Addresses from ranges become free when the
// object is deleted.
func (a *Allocator) ReleaseClaims(ctx context.Context, machine *infrav1.OLVMMachine) error {
	return a.forEachClaim(ctx, a.Reader, client.ObjectKeyFromObject(machine), func(claim *ipamv1.IPAddressClaim) error {
		return a.deleteClaim(ctx, claim)
	})
}

// AbandonClaims removes this provider's finalizer from the claims of a machine that was deleted without ReleaseClaims.
// The garbage collector then deletes them.
func (a *Allocator) AbandonClaims(ctx context.Context, machine client.ObjectKey) error {
	a.mu.Lock()
	delete(a.compared, machine)
	a.mu.Unlock()

	return a.forEachClaim(ctx, a.Client, machine, func(claim *ipamv1.IPAddressClaim) error {
		return a.removeFinalizer(ctx, claim)
	})
}

// forEachClaim calls do for each claim of the machine with this name.
func (a *Allocator) forEachClaim(
	ctx context.Context, reader client.Reader, machine client.ObjectKey, do func(*ipamv1.IPAddressClaim) error,
) error {
	var claims ipamv1.IPAddressClaimList
	err := reader.List(ctx, &claims, client.InNamespace(machine.Namespace))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil // without these types, no claims can exist
	} else if err != nil {
		return fmt.Errorf("failed to list the IPAddressClaims of OLVMMachine %s: %w", machine, err)
	}

	var errs []error

	for i := range claims.Items {
		owner := metav1.GetControllerOf(&claims.Items[i])
		if owner != nil && owner.Kind == "OLVMMachine" && owner.Name == machine.Name {
			errs = append(errs, do(&claims.Items[i]))
		}
	}

	return kerrors.NewAggregate(errs)
}

// deleteClaim deletes a claim. It keeps a claim that a later machine with the same name has created.
func (a *Allocator) deleteClaim(ctx context.Context, claim *ipamv1.IPAddressClaim) error {
	if err := a.removeFinalizer(ctx, claim); err != nil {
		return err
	}

	if err := a.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to delete IPAddressClaim %s: %w", claim.Name, err)
	}

	return nil
}

// removeFinalizer removes this provider's finalizer from a claim.
func (a *Allocator) removeFinalizer(ctx context.Context, claim *ipamv1.IPAddressClaim) error {
	before := claim.DeepCopy()
	if !controllerutil.RemoveFinalizer(claim, infrav1.MachineFinalizer) {
		return nil
	}

	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := a.Client.Patch(ctx, claim, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to release IPAddressClaim %s: %w", claim.Name, err)
	}

	return nil
}
