package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/bootstrapvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
	"github.com/capolvm/cluster-api-provider-olvm/internal/scratchdir"
	"github.com/capolvm/cluster-api-provider-olvm/internal/workload"
)

// DeleteOptions configure Delete.
type DeleteOptions struct {
	Common
	// Name is the name of the Cluster.
	Name string
	// To is the management cluster for the deletion of a self-managed cluster. Without a kubeconfig, it is a local
	// management cluster.
	To mgmtcluster.Options
	// Engine returns the credentials of the engine for the bootstrap VM of an incomplete cluster.
	Engine func() (preview.Credentials, error)
	// Confirm asks the user to type a word. An error ends the operation.
	Confirm func(question, word string) error
}

// deletion is a running Delete, with the results of its steps.
type deletion struct {
	DeleteOptions
	management *management
	// cluster is nil if an interrupted Delete has already deleted it.
	cluster *clusterv1.Cluster
	// managesItself reports whether the management cluster is the cluster itself. If so, Delete first moves the cluster
	// to the management cluster in the field to.
	managesItself bool
	to            *management
	// provider is the infrastructure of the cluster. kept are the objects created by Create for the cluster in the
	// management cluster.
	provider Provider
	kept     []client.Object
	// vm is the bootstrap VM of an incomplete cluster, or nil, and engine is its engine. managesFromVM reports whether
	// the VM is the management cluster.
	vm            *bootstrapvm.VM
	engine        engine.Config
	managesFromVM bool
	// kubeconfig is the connection to the cluster, or nil if unknown.
	kubeconfig *clientcmdapi.Cluster
	// missing is the error if the first search finds no cluster.
	missing error
	// own is the cluster itself if it has its own objects. interrupted reports whether the cluster has only some of its
	// objects.
	own         *management
	interrupted bool
	// source is the cluster itself if an earlier Delete has not finished moving it out of itself. Otherwise it is nil.
	source *management
}

// Delete deletes a cluster with its VMs, waits until all of them are gone, and removes the additional objects of
// Create.
func Delete(ctx context.Context, o DeleteOptions) error {
	scratchdir.Tidy(scratchdir.Command)

	d, err := newDeletion(o)
	if err != nil {
		return err
	}

	defer func() { d.management.remindOfLocal(ctx, o.Display) }()

	return runSteps(ctx, o.Display, d.allSteps())
}

func newDeletion(o DeleteOptions) (*deletion, error) {
	d := &deletion{DeleteOptions: o, provider: providerOf(nil)}
	err := d.findVM()
	if err != nil {
		return nil, err
	}

	if d.management, err = newManagement(d.Management, d.Driver); err != nil {
		return nil, err
	}

	driver := d.Driver
	if d.To.Kubeconfig == "" {
		driver = mgmtcluster.DriverProcess
	}

	d.to, err = newManagement(d.To, driver)

	return d, err
}

// allSteps returns all steps, from an existing cluster to nothing.
func (d *deletion) allSteps() []Step {
	var out []Step

	out = append(out, withCondition(d.management.local.Exists, d.management.startSteps(d.Display, nil)...)...)
	out = append(out,
		Step{name: "Looking for the cluster", quiet: true, run: d.findCluster},
	)
	out = append(out, d.findMovedSteps()...)
	out = append(out,
		Step{name: "Checking whether the cluster manages itself", quiet: true, needed: d.exists, run: d.checkOwn},
		Step{name: "Waiting for confirmation", quiet: true, asks: true, run: d.confirmDeletion},
	)
	out = append(out, d.endMoveSteps()...)
	out = append(out, Step{
		name:   movingName,
		needed: func() bool { return d.source != nil },
		run:    d.finishMoveAway,
	})
	out = append(out, withCondition(func() bool { return d.managesItself }, d.moveSteps()...)...)

	out = append(out, withCondition(func() bool { return !d.hasOnlyVM() }, d.deleteSteps()...)...)

	return append(out, removeVM(d.vm, d.engine)...)
}

// hasOnlyVM reports whether only a bootstrap VM is left.
func (d *deletion) hasOnlyVM() bool { return d.managesFromVM && !d.exists() }

// moveSteps returns the steps to move a self-managed cluster to another management cluster before its deletion.
func (d *deletion) moveSteps() []Step {
	out := d.to.startSteps(d.Display, func() Provider { return d.provider })

	return append(out,
		Step{
			name:  "Connecting to the other management cluster",
			quiet: true,
			run: func(ctx context.Context) error {
				d.to.options.Namespace = d.management.Namespace
				if err := d.to.connect(ctx); err != nil {
					return fmt.Errorf("--to-kubeconfig: %w", err)
				}

				return nil
			},
		},
		Step{name: "Ending the move that was interrupted", quiet: true, run: d.endMoveIn},
		Step{
			name:  "Comparing both management clusters",
			quiet: true,
			run:   func(ctx context.Context) error { return d.checkMovable(ctx, d.management, d.to) },
		},
		ensureProviders(&d.Common, d.to, func() ([]Provider, error) { return []Provider{d.provider}, nil }),
		Step{
			name: movingName,
			// Compute the target only when the step runs: a cluster in a bootstrap VM may have moved into itself by
			// then.
			run: d.moveAway,
		},
		Step{
			name:  "Switching to the other management cluster",
			quiet: true,
			run: func(ctx context.Context) (err error) {
				d.management = d.to
				d.cluster, err = d.to.GetCluster(ctx, d.Name)

				return err
			},
		},
		// Cluster API needs a connection to a cluster to delete its control plane. It connects only after it has seen
		// the infrastructure of the cluster.
		Step{
			name: "Waiting for Cluster API to connect to the cluster",
			run: d.waitFor(func(ctx context.Context) error {
				return checkKnown(ctx, d.management.Cluster, d.Name)
			}),
		},
	)
}

// endMoveIn ends an interrupted move of the cluster out of the other management cluster and into itself. The cluster
// then moves back.
func (d *deletion) endMoveIn(ctx context.Context) error {
	isCopy, err := isCopyFrom(ctx, d.cluster, d.to)
	if err != nil || !isCopy {
		return err
	}

	if err := d.moveClusters(ctx, d.to, d.management); err != nil {
		return err
	}

	d.cluster, err = d.management.GetCluster(ctx, d.Name)

	return err
}

// moveAway moves a cluster out of itself. The recorded identity lets a second Delete recognize the cluster in the other
// management cluster.
func (d *deletion) moveAway(ctx context.Context) error {
	id, err := d.management.FetchIdentity(ctx)
	if err == nil {
		err = d.management.RecordIdentity(ctx, d.Name, id)
	}

	if err != nil {
		return err
	}

	return d.moveClusters(ctx, d.management, d.to)
}

// deleteSteps returns the steps to delete the cluster, and to remove the objects created for it.
func (d *deletion) deleteSteps() []Step {
	out := []Step{
		{name: "Looking for the kubeconfig", quiet: true, needed: d.exists, run: d.findKubeconfig},
		{name: "Looking for the credentials", quiet: true, needed: d.exists, run: d.findKept},
		{name: "Recording the server of the cluster", quiet: true, needed: d.exists, run: d.storeKubeconfig},
		{
			name:   "Releasing resources of the cluster",
			quiet:  true,
			needed: func() bool { return d.exists() && d.cluster.DeletionTimestamp.IsZero() },
			run:    func(ctx context.Context) error { return runSteps(ctx, d.Display, d.provider.ReleaseSteps(d)) },
		},
		{
			name:   "Deleting " + d.Name,
			needed: d.exists,
			run: func(ctx context.Context) error {
				// Cluster API deletes objects in the order required by the infrastructure. Foreground deletion would
				// let the garbage collector delete the network of a cluster on OCI before its machines.
				if err := d.deleteCluster(ctx); err != nil {
					return err
				}

				return d.waitFor(func(ctx context.Context) error {
					return checkGone(ctx, d.management.Cluster, d.provider, d.Name)
				})(ctx)
			},
		},
		{
			name: "Removing the credentials and the kubeconfig",
			run: func(ctx context.Context) error {
				err := d.Display.WaitFor(ctx, d.Timeout, func(ctx context.Context) error {
					return checkMachinesGone(ctx, d.management.Cluster, d.provider, d.Name)
				})
				if err != nil {
					return err
				}

				return d.removeRest(ctx)
			},
		},
	}

	return append(out, d.leaveSteps()...)
}

// deleteCluster deletes exactly the Cluster shown to the user. While the question was open, another command may have
// deleted this Cluster, and created another one with the same name.
func (d *deletion) deleteCluster(ctx context.Context) error {
	err := d.management.Delete(ctx, d.cluster, client.Preconditions{UID: &d.cluster.UID})
	if apierrors.IsConflict(err) {
		return fmt.Errorf("somebody else has deleted and created Cluster %s again meanwhile; to delete the new "+
			"Cluster, run the command again", d.Name)
	}

	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to delete Cluster %s: %w", d.Name, err)
	}

	return nil
}

// leaveSteps returns the steps to remove the local management cluster if nobody needs it any more.
func (d *deletion) leaveSteps() []Step {
	own := withCondition(func() bool { return d.management != d.to }, d.management.removalSteps(&d.Common)...)
	other := withCondition(func() bool { return d.management == d.to }, d.to.removalSteps(&d.Common)...)

	return append(own, other...)
}

// guardedSecrets returns a reader for the kubeconfig Secrets of a management cluster. Tenants may write these Secrets,
// so the reader omits all parts of a kubeconfig able to run programs on this machine.
func guardedSecrets(in *management) client.Reader {
	return workload.Secrets{Reader: in.Client, Clusters: in.Client}
}

// connectWorkload connects to the cluster itself.
func (d *deletion) connectWorkload(ctx context.Context) (client.Client, error) {
	key := client.ObjectKey{Namespace: d.management.Namespace, Name: d.Name}
	content, err := kubeconfig.FromSecret(ctx, guardedSecrets(d.management), key)
	if err != nil {
		return nil, fmt.Errorf("failed to get the kubeconfig: %w", err)
	}

	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return nil, fmt.Errorf("invalid kubeconfig of %s: %w", d.Name, err)
	}

	config.Timeout = ownLimit

	return client.New(config, client.Options{})
}

func (d *deletion) exists() bool { return d.cluster != nil }

// findCluster reads the Cluster. If an interrupted Delete has already deleted the Cluster, only the cluster's Secret
// remains to identify it.
func (d *deletion) findCluster(ctx context.Context) error {
	if d.managesFromVM {
		return d.findBeside(ctx)
	}

	if d.management.isLocal && !d.management.local.Exists() {
		return fmt.Errorf("no Cluster %s found, because there is no kubeconfig and no local management cluster; "+
			"specify its management cluster with --kubeconfig", d.Name)
	}

	if err := d.management.connect(ctx); err != nil {
		if d.switchToOther() {
			return d.findRemains(ctx, err)
		}

		return err
	}

	cluster, err := d.management.GetCluster(ctx, d.Name)
	var missing *mgmtcluster.NotFoundError
	if err != nil && !errors.As(err, &missing) {
		err = cmp.Or(d.management.CheckInstalled(ctx), err)
		if !d.hasOtherEnd() {
			return err
		}

		d.missing = err // an earlier Delete may have begun to delete it from there

		return nil
	}

	if err == nil && isRest(cluster) {
		d.missing = checkSettled(cluster)
		return nil
	}

	if err == nil {
		d.cluster, d.provider = cluster, providerOf(cluster)
		return nil
	}

	for _, one := range knownProviders() {
		d.provider = one
		if err := d.findKept(ctx); err != nil || len(d.kept) > 0 {
			return d.judgeRemains(ctx, err)
		}
	}

	d.missing = missing
	if err := checkMoveEnded(ctx, d.management.Cluster); err != nil {
		d.missing = err
	}

	return nil
}

// judgeRemains tells the remains of an interrupted Delete from those of an interrupted move out of this management
// cluster. A Delete has noted the connection on them. A move has signed them, or has left its Lease. Its other end has
// the cluster.
func (d *deletion) judgeRemains(ctx context.Context, err error) error {
	d.loadStoredKubeconfig()
	if err != nil {
		return err
	}

	if d.missing = checkUnsigned(d.management.Cluster, d.kept); d.missing == nil && d.kubeconfig == nil {
		d.missing = checkMoveEnded(ctx, d.management.Cluster)
	}

	if d.missing != nil {
		d.kept = nil
	}

	return nil
}

// switchToOther switches to the other management cluster if the given kubeconfig is missing, and is the one removed by
// Delete. An interrupted Delete may already have removed this file.
func (d *deletion) switchToOther() bool {
	if d.To.Kubeconfig == "" || d.management == d.to || fileExists(d.Management.Kubeconfig) {
		return false
	}

	removed, err := KubeconfigPath(d.Name)
	if err != nil {
		return false
	}

	named, err := filepath.Abs(d.Management.Kubeconfig)
	if err != nil || d.Management.Kubeconfig == "" || named != removed {
		return false
	}

	d.Display.PrintLine(
		"%s does not exist; looking for the cluster in the management cluster of %s", d.Management.Kubeconfig,
		d.To.Kubeconfig,
	)

	if d.Management.Namespace != "" {
		d.to.options.Namespace = d.Management.Namespace
	}

	d.management = d.to

	return true
}

// findRemains finds the remains of an interrupted Delete in the other management cluster. unreachable is the error of
// the first management cluster. Delete stores the connection, deletes the Cluster, and then removes the kubeconfig.
// Therefore, an existing Cluster, or a Secret without a stored connection, belongs to another cluster.
func (d *deletion) findRemains(ctx context.Context, unreachable error) error {
	if err := d.findCluster(ctx); err != nil {
		return err
	}

	if d.exists() || len(d.kept) == 0 || d.kubeconfig == nil {
		return fmt.Errorf("%w; no earlier command has deleted %s from %s; to delete a cluster there, specify this "+
			"management cluster with --kubeconfig", unreachable, d.Name, d.To.Kubeconfig)
	}

	return nil
}

// hasOtherEnd reports whether an earlier Delete may have moved the cluster to the other management cluster.
func (d *deletion) hasOtherEnd() bool {
	if d.to == nil || d.to == d.management {
		return false
	}

	return !d.to.isLocal || d.to.local.Exists() && !d.management.isLocal
}

// findMovedSteps look for a cluster moved out of itself by an interrupted Delete, in the target of the move.
func (d *deletion) findMovedSteps() []Step {
	wanted := func() bool { return d.missing != nil && d.hasOtherEnd() }
	out := withCondition(wanted, d.to.startSteps(d.Display, nil)...)
	out = append(out, withCondition(wanted, Step{
		name:  "Looking for the cluster in the other management cluster",
		quiet: true,
		run:   d.findMoved,
	})...)

	return append(out, Step{
		name:   "Checking whether the cluster was found",
		quiet:  true,
		needed: func() bool { return d.missing != nil },
		run:    func(context.Context) error { return d.missing },
	})
}

// findMoved switches to the other management cluster if it has the cluster moved out of this one.
func (d *deletion) findMoved(ctx context.Context) error {
	d.to.options.Namespace = d.management.Namespace
	if err := d.to.connect(ctx); err != nil {
		return fmt.Errorf("--to-kubeconfig: %w", err)
	}

	cluster, err := d.to.GetCluster(ctx, d.Name)
	var missing *mgmtcluster.NotFoundError
	if errors.As(err, &missing) || meta.IsNoMatchError(err) {
		return d.findRemainsThere(ctx)
	}

	if err != nil {
		return err
	}

	// The first management cluster is the cluster itself, so both have the same identity.
	id, err := d.management.FetchIdentity(ctx)

	switch {
	case err != nil && cluster.DeletionTimestamp.IsZero():
		return err
	case err != nil: // its own API server may be gone
		there := &deletion{management: d.to, cluster: cluster}
		if problem := there.findKubeconfig(ctx); problem != nil || !d.isReached(there.kubeconfig) {
			return err
		}
	case cluster.Annotations[mgmtcluster.IdentityAnnotation] != string(id):
		return nil
	}

	if ptr.Deref(cluster.Spec.Paused, false) { // the move is finished once the user has agreed
		d.source = d.management
	}

	d.Display.PrintLine("an earlier command has moved %s to %s", d.Name, d.to.Server())
	d.cluster, d.management, d.provider, d.missing = cluster, d.to, providerOf(cluster), nil

	return nil
}

// findRemainsThere switches to the other management cluster if it has the remains of the cluster asked first. A Delete
// that was interrupted has noted its connection on them.
func (d *deletion) findRemainsThere(ctx context.Context) error {
	there := &deletion{DeleteOptions: d.DeleteOptions, management: d.to}

	for _, there.provider = range knownProviders() {
		if err := there.findKept(ctx); err != nil {
			return err
		}

		if there.loadStoredKubeconfig(); there.kubeconfig != nil && d.isReached(there.kubeconfig) {
			d.Display.PrintLine("an earlier command has deleted %s from %s", d.Name, d.to.Server())
			d.kept, d.kubeconfig, d.provider = there.kept, there.kubeconfig, there.provider
			d.management, d.missing = d.to, nil

			return nil
		}
	}

	return nil
}

// isReached reports whether the kubeconfig of the cluster asked first has this connection.
func (d *deletion) isReached(by *clientcmdapi.Cluster) bool {
	config, err := clientcmd.LoadFromFile(d.management.options.Kubeconfig)
	if err != nil {
		return false
	}

	context := config.Contexts[cmp.Or(d.management.options.Context, config.CurrentContext)]

	return context != nil && config.Clusters[context.Cluster] != nil && isSame(config.Clusters[context.Cluster], by)
}

// finishMoveAway finishes the move of an earlier Delete.
func (d *deletion) finishMoveAway(ctx context.Context) error {
	err := d.moveClusters(ctx, d.source, d.to)
	if err != nil {
		return err
	}

	d.cluster, err = d.to.GetCluster(ctx, d.Name)

	return err
}

// findKept finds the objects created by Create for the cluster, while the infrastructure objects still refer to them.
func (d *deletion) findKept(ctx context.Context) (err error) {
	d.kept, err = d.provider.ListSecretObjects(ctx, d.management.Cluster, d.Name, d.cluster)
	return err
}

// checkOwn finds out whether the cluster manages itself. If so, it checks whether the cluster can be deleted.
func (d *deletion) checkOwn(ctx context.Context) (err error) {
	if d.management.isLocal { // processes are no cluster of machines
		return d.checkSettled()
	}

	if d.managesItself, err = d.management.IsWorkloadOf(ctx, d.cluster); err != nil {
		return fmt.Errorf("%w; a cluster that manages itself would lose its controllers before its machines; make "+
			"its API server reachable from this machine", err)
	}

	if !d.managesItself {
		return d.checkSettled()
	}

	if d.To.Kubeconfig == "" && d.Driver == mgmtcluster.DriverExisting {
		return fmt.Errorf(
			"%s manages itself and cannot delete itself; specify another management cluster with --to-kubeconfig",
			d.Name)
	}

	// Other clusters would lose their controllers. The move would also take along all clusters of the same namespace.
	others, err := d.management.ListOtherClusters(ctx, d.Name)
	if err != nil {
		return err
	}

	if len(others) > 0 {
		return fmt.Errorf("%s also manages other clusters: %s; delete them first, or move them with olvmctl move",
			d.Name, strings.Join(others, ", "))
	}

	return nil
}

// checkSettled fails after an interrupted move, unless this Delete finishes the move.
func (d *deletion) checkSettled() error {
	if d.interrupted || d.source != nil {
		return nil
	}

	return checkSettled(d.cluster)
}

// removeRest removes the Lease of a killed move, and Create's objects. They go last: without them, the next Delete
// would take a Lease for that of a move.
func (d *deletion) removeRest(ctx context.Context) error {
	if err := d.dropLease(ctx); err != nil {
		return err
	}

	return d.removeLeftovers(ctx)
}

// removeLeftovers removes Create's objects, unless something else needs them.
func (d *deletion) removeLeftovers(ctx context.Context) error {
	if path, err := KubeconfigPath(d.Name); err == nil && fileExists(path) {
		if err := d.removeKubeconfig(path); err != nil {
			return err
		}
	}

	namespace, err := d.findEmptyNamespace(ctx)
	if err != nil {
		return err
	}

	// Delete the kept objects last, because a second Delete uses them to identify the cluster.
	if namespace != nil {
		if err := d.management.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete namespace %s: %w", namespace.Name, err)
		}

		d.Display.PrintLine("deleted namespace %s", namespace.Name)
	}

	for _, object := range d.kept {
		if by := d.findUserOf(ctx, object); by != "" {
			d.Display.PrintLine("kept %s: %s", nameOf(object), by)
			continue
		}

		if err := d.management.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete %s: %w", nameOf(object), err)
		}

		d.Display.PrintLine("deleted %s", nameOf(object))
	}

	return nil
}

// findUserOf describes the user of a Secret of the deleted cluster, or returns "" if there is none. A deletion can take
// so long that another cluster starts to use the Secret meanwhile.
func (d *deletion) findUserOf(ctx context.Context, object client.Object) string {
	users, err := listUsers(ctx, d.management.Cluster)
	if apierrors.IsForbidden(err) && object.GetObjectKind().GroupVersionKind().Kind != "" {
		return "" // not a Secret of an engine
	}

	if err != nil {
		return fmt.Sprintf("cannot determine which objects use it: %v", err)
	}

	for _, one := range users {
		if one.uses == client.ObjectKeyFromObject(object) {
			return one.name + " uses it"
		}
	}

	return ""
}

// nameOf returns a readable name of an object.
func nameOf(object client.Object) string {
	kind := object.GetObjectKind().GroupVersionKind().Kind

	return fmt.Sprintf("%s %s", cmp.Or(kind, "Secret"), client.ObjectKeyFromObject(object))
}

// removeKubeconfig removes the kubeconfig of the cluster from a file.
func (d *deletion) removeKubeconfig(path string) error {
	found, err := mgmtcluster.Options{Kubeconfig: path, Context: contextInFile(path, d.Name)}.ServerURL()
	switch {
	case err != nil:
		d.Display.PrintLine("kept %s: %v", path, err)
		return nil
	case d.kubeconfig == nil:
		d.Display.PrintLine("kept %s: its server is %s; if this was the server of the cluster, remove the file", path,
			found)
		return nil
	}

	removed, err := dropKubeconfig(path, d.Name, d.kubeconfig)
	switch {
	case err != nil:
		return fmt.Errorf("failed to remove the kubeconfig: %w", err)
	case !removed:
		d.Display.PrintLine("kept %s: its server is %s, but the server of the cluster was %s", path, found,
			d.kubeconfig.Server)
	case fileExists(path):
		d.Display.PrintLine("removed %s from %s", d.Name, path)
	default:
		d.Display.PrintLine("removed %s", path)
	}

	return nil
}

// reachedAnnotation stores the connection to a deleted cluster in an object of Create. Delete compares it with the
// entries in users' kubeconfigs to find those of the cluster.
const reachedAnnotation = "olvmctl.cluster.x-k8s.io/reached"

// reached is the value of reachedAnnotation.
type reached struct {
	Server string `json:"server,omitempty"`
	CA     []byte `json:"ca,omitempty"`
}

// storeKubeconfig stores the connection to the cluster, because a second Delete no longer finds the Cluster. It removes
// the sign of a move that had ended, or had not begun.
func (d *deletion) storeKubeconfig(ctx context.Context) error {
	text, err := json.Marshal(reached{d.kubeconfig.Server, d.kubeconfig.CertificateAuthorityData})
	if err != nil {
		return fmt.Errorf("failed to encode the server of %s: %w", d.Name, err)
	}

	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q,%q:null}}}`, reachedAnnotation, text, movingAnnotation)

	for _, object := range d.kept {
		err := d.management.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to record in %s the server of %s: %w", nameOf(object), d.Name, err)
		}
	}

	return nil
}

// loadStoredKubeconfig reads the connection stored by an interrupted Delete.
func (d *deletion) loadStoredKubeconfig() {
	for _, object := range d.kept {
		var noted reached
		if json.Unmarshal([]byte(object.GetAnnotations()[reachedAnnotation]), &noted) == nil {
			d.kubeconfig = &clientcmdapi.Cluster{Server: noted.Server, CertificateAuthorityData: noted.CA}
		}
	}
}

// findKubeconfig finds the connection to the cluster while the Cluster still exists.
func (d *deletion) findKubeconfig(ctx context.Context) error {
	d.kubeconfig = &clientcmdapi.Cluster{Server: mgmtcluster.ServerAt(d.cluster)}

	content, err := kubeconfig.FromSecret(ctx, d.management.Client, client.ObjectKeyFromObject(d.cluster))
	if err != nil {
		return client.IgnoreNotFound(err)
	}

	config, err := clientcmd.Load(content)
	if err != nil {
		return nil //nolint:nilerr // a tenant may have spoilt it: the endpoint is known
	}

	if context := config.Contexts[config.CurrentContext]; context != nil && config.Clusters[context.Cluster] != nil {
		d.kubeconfig.CertificateAuthorityData = config.Clusters[context.Cluster].CertificateAuthorityData
	}

	return nil
}
