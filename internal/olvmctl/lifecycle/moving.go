package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/attempt"
	"github.com/capolvm/cluster-api-provider-olvm/internal/filelock"
	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

// This file moves namespaces between management clusters. clusterctl pauses the Clusters, copies all objects, deletes
// them at the source, and resumes the copies. An interrupted move continues from the state of both management clusters.
// If some objects were not copied, olvmctl removes the copies and starts again. Otherwise it removes the remaining
// objects from the source.

const (
	// movingName is the name of the step that moves the namespace.
	movingName = "Moving the namespace"
	// movingAnnotation marks a moving Cluster with the identities of both management clusters.
	movingAnnotation = "olvmctl.cluster.x-k8s.io/moving"
	// shownInTheWay is the maximum number of objects in an error.
	shownInTheWay = 5
)

// move is the move of a namespace.
type move struct {
	*Common
	from, to *management
	// fromID and toID are the identities of the two management clusters.
	fromID, toID types.UID
	// source and target are the Clusters of the namespace at both ends.
	source, target []clusterv1.Cluster
	// interrupted reports whether an earlier move has not finished.
	interrupted bool
	// notes are the files with the holder of a move, by management cluster. This process holds the locks of these
	// files.
	notes map[types.UID]string
	// leases are the Leases held by this command.
	leases []*moveLease
}

// checkMovable fails if a move would fail. It prevents the installation of providers for an impossible move.
func (o *Common) checkMovable(ctx context.Context, from, to *management) error {
	m := &move{Common: o, from: from, to: to}
	return m.inspectEnds(ctx)
}

// moveClusters moves all clusters of the namespace to another management cluster, or continues an interrupted move.
func (o *Common) moveClusters(ctx context.Context, from, to *management) error {
	m := &move{Common: o, from: from, to: to}
	if err := m.inspectEnds(ctx); err != nil {
		return err
	}

	release, err := m.lockNamespace()
	if err != nil {
		return err
	}
	defer release()

	held, release, err := m.holdLeases(ctx)
	if err != nil {
		return err
	}
	defer release()

	err = (&move{Common: o, from: m.from, to: m.to, leases: m.leases}).runLocked(held)
	if lost := context.Cause(held); err != nil && ctx.Err() == nil && lost != nil {
		return lost
	}

	return err
}

// runLocked moves the namespace while this command holds all locks.
func (m *move) runLocked(ctx context.Context) error {
	o, from, to := m.Common, m.from, m.to
	if err := m.inspectEnds(ctx); err != nil { // another move may have ended since
		return err
	}

	if m.interrupted {
		ended, err := m.finishOrUndo(ctx)
		if err != nil || ended {
			return err
		}

		if m.source, err = listClusters(ctx, from.Cluster); err != nil {
			return err
		}
	}

	if err := m.checkNothingInTheWay(ctx); err != nil {
		return err
	}

	if err := m.confirmHeld(ctx); err != nil {
		return err
	}

	if err := signCreated(ctx, from.Cluster, from.Namespace, m.markerText()); err != nil {
		return err
	}

	if err := signClusters(ctx, from.Cluster, m.source, m.markerText()); err != nil {
		return err
	}

	var moved []string
	for i := range m.source {
		moved = append(moved, client.ObjectKeyFromObject(&m.source[i]).String())
	}

	o.Display.PrintLine("%s, with its clusters: %s", from.Namespace, strings.Join(moved, ", "))

	if err := m.confirmHeld(ctx); err != nil {
		return err
	}

	providers := o.clusterctlProviders()
	if err := providers.MoveNamespace(ctx, from.ClusterctlAccess(), to.ClusterctlAccess(), from.Namespace); err != nil {
		return err
	}

	return m.resumeClusters(ctx, to.Cluster)
}

// lockNamespace prevents other commands of this user from moving the namespace into or out of either management cluster
// at the same time. If locking fails, the move goes on without a lock. holdLeases does the same across machines, but
// takes longer to notice a killed command.
func (m *move) lockNamespace() (release func(), err error) {
	folder, err := lockFolder()
	if err != nil {
		return m.warnUnlocked(err), nil
	}

	m.notes = map[types.UID]string{}

	var held []func()

	release = func() {
		for _, one := range held {
			one()
		}
	}

	for _, id := range []types.UID{m.fromID, m.toID} {
		path := filepath.Join(folder, string(id)+"_"+m.from.Namespace)
		one, err := filelock.TakeFile(path)
		if errors.Is(err, filelock.ErrHeld) {
			release()

			return nil, fmt.Errorf("another olvmctl is moving namespace %s from %s to %s, or back; wait until it "+
				"is complete", m.from.Namespace, m.from.Server(), m.to.Server())
		}

		if err != nil {
			one = m.warnUnlocked(err)
		} else {
			m.notes[id] = path + noteSuffix
		}

		held = append(held, one)
	}

	return release, nil
}

// warnUnlocked warns about a move without a lock, and returns a release function without effect.
func (m *move) warnUnlocked(err error) (release func()) {
	m.Display.PrintLine(
		"the move of namespace %s is not locked: %v; do not run another move until this one is complete",
		m.from.Namespace, err,
	)

	return func() {}
}

// lockFolder returns the folder for this user's locks. It is in the user's cache folder. If there is none, it is in the
// folder for temporary files. Other users can write to the folder for temporary files.
func lockFolder() (string, error) {
	if base, err := os.UserCacheDir(); err == nil {
		return filepath.Join(base, "capolvm", "moves"), nil
	}

	dir := filepath.Join(os.TempDir(), fmt.Sprintf("capolvm-%d", os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("failed to create a folder for locks: %w", err)
	}

	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("failed to check the folder for locks: %w", err)
	}

	if !info.IsDir() || !hostos.IsOwn(info) || info.Mode().Perm() != 0o700 {
		return "", fmt.Errorf("%s is not a folder that only this user can access; remove it", dir)
	}

	return filepath.Join(dir, "moves"), nil
}

// markerText returns the value of movingAnnotation.
func (m *move) markerText() string { return signOf(m.fromID, m.toID) }

func signOf(from, to types.UID) string { return fmt.Sprintf("from %s to %s", from, to) }

// inspectEnds identifies both management clusters, and finds the progress of an earlier move.
func (m *move) inspectEnds(ctx context.Context) (err error) {
	if m.fromID, err = m.from.FetchIdentity(ctx); err != nil {
		return err
	}

	if m.toID, err = m.to.FetchIdentity(ctx); err != nil {
		return err
	}

	if m.fromID == m.toID {
		return fmt.Errorf("%s and %s are the same cluster: the UID of namespace kube-system is %s in both; specify "+
			"another management cluster with --to-kubeconfig", m.from.Server(), m.to.Server(), m.fromID)
	}

	if m.source, err = listClusters(ctx, m.from.Cluster); err != nil {
		return err
	}

	m.target, err = listNamespaceClusters(ctx, m.to.Cluster, m.from.Namespace)
	if err != nil {
		return err
	}

	for i := range m.target {
		if m.isCopy(&m.target[i]) {
			m.interrupted = true
		}
	}

	for i := range m.source {
		if err := m.inspectSource(&m.source[i]); err != nil {
			return err
		}
	}

	if len(m.source) == 0 && !m.interrupted {
		dropNoted(ctx, m.from.Namespace, m.from, m.to)

		return fmt.Errorf("no Cluster to move found in namespace %s of %s; specify a namespace with -n",
			m.from.Namespace,
			m.from.Server())
	}

	return nil
}

// inspectSource finds out whether a Cluster at the source is moving. It rejects a Cluster paused by something else.
func (m *move) inspectSource(cluster *clusterv1.Cluster) error {
	if !ptr.Deref(cluster.Spec.Paused, false) {
		return nil
	}

	sign := cluster.Annotations[movingAnnotation]

	switch {
	case sign == m.markerText(), m.interrupted:
		m.interrupted = true
		return nil
	case sign != "":
		return fmt.Errorf("the move of Cluster %s to another management cluster was interrupted: %s, by the UIDs "+
			"of the kube-system namespaces; specify this management cluster to resume the move", cluster.Name, sign)
	}

	return fmt.Errorf("no move of olvmctl has paused Cluster %s; set spec.paused to false first",
		cluster.Name)
}

// isCopy reports whether an unfinished move from this source has copied a Cluster of the target. clusterctl resumes the
// copies before olvmctl removes their signs. By then, the source has no such Cluster.
func (m *move) isCopy(cluster *clusterv1.Cluster) bool {
	if cluster.Annotations[movingAnnotation] == m.markerText() && !m.isFromSource(cluster.Name) {
		return true
	}

	if !ptr.Deref(cluster.Spec.Paused, false) {
		return false
	}

	if sign := cluster.Annotations[movingAnnotation]; sign != "" {
		return sign == m.markerText()
	}

	for i := range m.source {
		if of := &m.source[i]; of.Name == cluster.Name {
			return ptr.Deref(of.Spec.Paused, false) && sameCluster(of, cluster)
		}
	}

	return false
}

// sameCluster reports whether two Clusters represent the same workload cluster.
func sameCluster(a, b *clusterv1.Cluster) bool {
	one, other := a.Annotations[mgmtcluster.IdentityAnnotation], b.Annotations[mgmtcluster.IdentityAnnotation]
	if one != "" && other != "" {
		return one == other
	}

	return a.Spec.ControlPlaneEndpoint.IsValid() && a.Spec.ControlPlaneEndpoint == b.Spec.ControlPlaneEndpoint
}

// finishOrUndo finishes an interrupted move if all objects were copied. It undoes any other interrupted move, so the
// move can start again.
func (m *move) finishOrUndo(ctx context.Context) (ended bool, err error) {
	from, to, namespace := m.from.ClusterctlAccess(), m.to.ClusterctlAccess(), m.from.Namespace

	if err := m.confirmHeld(ctx); err != nil { // it discards what another command may have copied by now
		return false, err
	}

	copied := len(m.source) == 0
	if !copied {
		if copied, err = clusterctl.IsCopyComplete(ctx, from, to, namespace, m.clusterNames()); err != nil {
			return false, err
		}
	}

	if copied {
		m.Display.PrintLine("completing an interrupted move of %s, which had copied all objects", namespace)

		if err := clusterctl.DiscardCopies(ctx, from, to, namespace); err != nil {
			return false, err
		}

		return true, m.resumeClusters(ctx, m.to.Cluster)
	}

	m.Display.PrintLine("restarting an interrupted move of %s, which had not copied all objects", namespace)

	// The source continues for a moment, so copies must not remain of objects deleted at the source meanwhile.
	if err := clusterctl.DiscardCopies(ctx, to, from, namespace); err != nil {
		return false, err
	}

	m.interrupted = false

	return false, m.resumeClusters(ctx, m.from.Cluster)
}

// resumeClusters resumes the moving Clusters in the management cluster at one end of the move.
func (m *move) resumeClusters(ctx context.Context, in *mgmtcluster.Cluster) error {
	if err := m.confirmHeld(ctx); err != nil {
		return err
	}

	classes := &metav1.PartialObjectMetadataList{}
	classes.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("ClusterClass"))
	err := in.List(ctx, classes, client.InNamespace(m.from.Namespace))
	if err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("failed to list the ClusterClasses: %w", err)
	}

	for i := range classes.Items {
		err := patchRead(ctx, in, &classes.Items[i], func(class *metav1.PartialObjectMetadata) {
			delete(class.Annotations, clusterv1.PausedAnnotation)
		})
		if err != nil {
			return fmt.Errorf("failed to end the move of ClusterClass %s: %w", classes.Items[i].Name, err)
		}
	}

	if err := m.unsignCreated(ctx); err != nil { // before the Clusters: their signs show that there is more
		return err
	}

	list, err := listNamespaceClusters(ctx, in, m.from.Namespace)
	if err != nil {
		return err
	}

	for i := range list {
		if sign := list[i].Annotations[movingAnnotation]; sign != m.markerText() && !m.isFromSource(list[i].Name) {
			continue
		}

		if err := endMove(ctx, in, &list[i]); err != nil {
			return err
		}
	}

	return nil
}

// clusterNames returns the names of the moving Clusters: those at the source, and their copies at the target.
func (m *move) clusterNames() []string {
	var out []string
	for i := range m.source {
		out = append(out, m.source[i].Name)
	}

	for i := range m.target {
		if m.isCopy(&m.target[i]) {
			out = append(out, m.target[i].Name)
		}
	}

	return out
}

// isFromSource reports whether the source has or had a Cluster with this name.
func (m *move) isFromSource(name string) bool {
	for i := range m.source {
		if m.source[i].Name == name {
			return true
		}
	}

	return false
}

// checkNothingInTheWay fails if clusterctl would overwrite objects of another cluster in the target.
func (m *move) checkNothingInTheWay(ctx context.Context) error {
	found, err := clusterctl.ListOverwritten(ctx, m.from.ClusterctlAccess(), m.to.ClusterctlAccess(), m.from.Namespace)
	if err != nil || len(found) == 0 {
		return err
	}

	named := strings.Join(found[:min(len(found), shownInTheWay)], ", ")
	if more := len(found) - shownInTheWay; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}

	return fmt.Errorf("namespace %s of %s already contains objects of the same names, which the move would overwrite: "+
		"%s; move to another management cluster, or delete these objects", m.from.Namespace, m.to.Server(), named)
}

// signClusters adds the sign of the move to Clusters before they move.
func signClusters(ctx context.Context, in *mgmtcluster.Cluster, clusters []clusterv1.Cluster, sign string) error {
	for i := range clusters {
		err := patchRead(ctx, in, &clusters[i], func(cluster *clusterv1.Cluster) {
			metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, movingAnnotation, sign)
		})
		if err != nil {
			return fmt.Errorf("failed to begin the move of Cluster %s: %w", clusters[i].Name, err)
		}
	}

	return nil
}

// endMove resumes the controllers of a moved Cluster.
func endMove(ctx context.Context, in *mgmtcluster.Cluster, cluster *clusterv1.Cluster) error {
	err := patchRead(ctx, in, cluster, func(cluster *clusterv1.Cluster) {
		cluster.Spec.Paused = nil
		delete(cluster.Annotations, movingAnnotation)
	})
	if err != nil {
		return fmt.Errorf("failed to end the move of Cluster %s: %w", cluster.Name, err)
	}

	return nil
}

// patchRead changes an object as it was read: a request that arrives late must not undo what another command has
// written meanwhile. Controllers write, too, so patchRead reads the same object again after a conflict.
func patchRead[T client.Object](ctx context.Context, in *mgmtcluster.Cluster, read T, change func(T)) error {
	uid := read.GetUID()

	return attempt.OnConflict(func() error {
		changed, ok := read.DeepCopyObject().(T)
		if !ok {
			return fmt.Errorf("failed to copy a %T", read)
		}

		change(changed)

		err := in.Patch(ctx, changed, client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{}))
		if !apierrors.IsConflict(err) {
			return err
		}

		if again := in.Get(ctx, client.ObjectKeyFromObject(read), read); again != nil {
			return again
		}

		if read.GetUID() != uid {
			return errors.New("another command has replaced it")
		}

		return err
	})
}

// isRest reports whether a Cluster is the rest of a move with all objects copied. clusterctl marks objects before
// deleting them at the source, and removes all other annotations.
func isRest(cluster *clusterv1.Cluster) bool {
	_, goes := cluster.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	return goes && ptr.Deref(cluster.Spec.Paused, false)
}

// checkSettled fails for a Cluster in an unfinished move. Each management cluster has only a part of its objects, and
// no controllers work on them. Deleting the Cluster here would leave the machines of the other management cluster.
func checkSettled(cluster *clusterv1.Cluster) error {
	if isRest(cluster) {
		return fmt.Errorf("a move of Cluster %s was interrupted after it had copied all objects to another "+
			"management cluster; run the same command again, or run olvmctl move -n %s with the kubeconfigs of "+
			"both; then use the other management cluster", cluster.Name, cluster.Namespace)
	}

	sign := cluster.Annotations[movingAnnotation]
	if sign == "" || !ptr.Deref(cluster.Spec.Paused, false) {
		return nil
	}

	return fmt.Errorf("a move of Cluster %s was interrupted: %s, by the UIDs of the kube-system namespaces; run "+
		"the same command again, or run olvmctl move -n %s with the kubeconfigs of both; then use the target "+
		"management cluster", cluster.Name, sign, cluster.Namespace)
}

// listNamespaceClusters returns the Clusters of a namespace. It returns none if the management cluster does not know
// the kind yet.
func listNamespaceClusters(
	ctx context.Context, in *mgmtcluster.Cluster, namespace string,
) ([]clusterv1.Cluster, error) {
	var list clusterv1.ClusterList
	if err := in.List(ctx, &list, client.InNamespace(namespace)); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("failed to list the Clusters of %s: %w", in.Server(), err)
	}

	return list.Items, nil
}

// isCopyFrom reports whether a Cluster is the copy of an unfinished move out of the given management cluster.
func isCopyFrom(ctx context.Context, cluster *clusterv1.Cluster, from *management) (bool, error) {
	sign := cluster.Annotations[movingAnnotation]
	if sign == "" || !ptr.Deref(cluster.Spec.Paused, false) {
		return false, nil
	}

	id, err := from.FetchIdentity(ctx)
	if err != nil {
		return false, err
	}

	return strings.HasPrefix(sign, signOf(id, "")), nil
}
