package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/bootstrapvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

// This file handles bootstrap VMs. A bootstrap VM is the temporary management cluster of one cluster. olvmctl removes
// the VM once the cluster manages itself.

// findVM finds the bootstrap VM of an earlier Create, or chooses the options of a new one. The VM becomes the
// management cluster.
func (c *creation) findVM() (err error) {
	c.vm, err = bootstrapvm.Find(c.namespace(), c.File.Name)
	if err != nil || c.vm == nil && !c.BootstrapVM {
		return err
	}

	if c.Management.Kubeconfig != "" || c.Driver == mgmtcluster.DriverProcess {
		return fmt.Errorf("the management cluster of %s is a bootstrap VM; omit --kubeconfig and --driver",
			c.File.Name)
	}

	options, err := c.Provider.BootstrapOptions(c)
	if err != nil {
		return err
	}

	c.engine = options.Engine
	if c.vm == nil {
		if c.vm, err = bootstrapvm.New(options); err != nil {
			return err
		}
	}

	c.SelfManaged = true
	c.Management.Kubeconfig, c.Driver = c.vm.KubeconfigFile(), mgmtcluster.DriverExisting

	return nil
}

// vmSteps returns the steps to create the bootstrap VM, and to wait until its API server has a ready node.
func (c *creation) vmSteps() []Step {
	if c.vm == nil {
		return nil
	}

	return []Step{
		{
			name:   "Creating the bootstrap VM " + c.vm.Name(),
			needed: func() bool { return !c.vm.Asked },
			run: func(ctx context.Context) error {
				c.Display.PrintLine(
					"address %s, kubeconfig %s", c.vm.Address(), c.vm.KubeconfigFile(),
				)

				return c.vm.CreateOrResume(ctx, c.engine)
			},
		},
		{
			name: "Waiting for the bootstrap VM",
			run:  c.waitFor(c.checkVM),
		},
	}
}

// checkVM succeeds once the node of the bootstrap VM is ready.
func (c *creation) checkVM(ctx context.Context) error {
	if err := c.management.connect(ctx); err != nil {
		return err
	}

	limited, cancel := context.WithTimeout(ctx, ownLimit)
	defer cancel()

	var nodes corev1.NodeList
	if err := c.management.List(limited, &nodes); err != nil {
		return fmt.Errorf("the API server of VM %s is not available yet: %w", c.vm.Name(), err)
	}

	for i := range nodes.Items {
		for _, condition := range nodes.Items[i].Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
	}

	return fmt.Errorf("the node of VM %s is not ready yet", c.vm.Name())
}

// removeVM returns the steps to remove a bootstrap VM, if there is one.
func removeVM(vm *bootstrapvm.VM, at engine.Config) []Step {
	if vm == nil {
		return nil
	}

	return []Step{{
		name: "Removing the bootstrap VM " + vm.Name(),
		run:  func(ctx context.Context) error { return vm.Remove(ctx, at) },
	}}
}

// moveInterrupted reports whether a move of the cluster into itself was interrupted. In that case the cluster already
// has its own objects, but they are paused. If the bootstrap VM has no objects left, moveInterrupted finishes the move.
func (c *creation) moveInterrupted(ctx context.Context) (bool, error) {
	if c.vm == nil { // the source of the move is not known yet
		return ptr.Deref(c.own.Spec.Paused, false) && c.own.Annotations[movingAnnotation] != "", nil
	}

	if err := c.management.connect(ctx); err != nil {
		return false, err
	}

	return interruptedMove(ctx, c.management, c.workload, c.File.Name)
}

// interruptedMove implements moveInterrupted for a move between two management clusters.
func interruptedMove(ctx context.Context, from, to *management, name string) (bool, error) {
	moved, err := to.GetCluster(ctx, name)
	if err != nil || !ptr.Deref(moved.Spec.Paused, false) {
		return false, err
	}

	_, err = from.GetCluster(ctx, name)
	var missing *mgmtcluster.NotFoundError
	if !errors.As(err, &missing) {
		return err == nil, err
	}

	return false, endMove(ctx, to.Cluster, moved)
}

// moveOut moves a cluster out of its bootstrap VM, or finishes an interrupted move.
func (o *Common) moveOut(ctx context.Context, vm *bootstrapvm.VM, from, to *management) error {
	if err := vm.MarkMoved(); err != nil {
		return err
	}

	return o.moveClusters(ctx, from, to)
}

// remindOfVM tells the user about a remaining bootstrap VM after an error.
func (c *creation) remindOfVM() {
	if c.vm != nil && c.vm.Exists() {
		c.Display.PrintLine("the bootstrap VM %s still exists; to continue, run olvmctl start; to remove it, run "+
			"olvmctl delete", c.vm.Name())
	}
}

// findVM finds the bootstrap VM of a cluster whose creation did not finish. The VM becomes the management cluster,
// unless the user names another management cluster. In that case Delete leaves the VM alone, because the VM may have
// machines unknown to the other management cluster.
func (d *deletion) findVM() (err error) {
	d.vm, err = bootstrapvm.Find(d.Management.Namespace, d.Name)
	if err != nil || d.vm == nil {
		return err
	}

	if d.Management.Kubeconfig != "" {
		other, err := filepath.Abs(d.Management.Kubeconfig)
		if err != nil {
			return fmt.Errorf("--kubeconfig: %w", err)
		}

		if other != d.vm.Workload {
			d.vm = nil
			return nil
		}
	}

	given, err := d.Engine()
	if err != nil {
		return err
	}

	if given.Username == "" {
		return errNoLogin("the bootstrap VM " + d.vm.Name())
	}

	d.engine = d.vm.Engine()
	d.engine.Username, d.engine.Password = given.Username, given.Password
	if len(given.CA) > 0 {
		d.engine.CA = given.CA
	}

	d.managesFromVM = true
	d.Management = mgmtcluster.Options{Kubeconfig: d.vm.KubeconfigFile(), Namespace: d.vm.Namespace}
	d.To, d.Driver = d.Management, mgmtcluster.DriverExisting

	return nil
}

// findBeside finds the Cluster in the bootstrap VM, or in the cluster itself after its move. Before Create applies the
// manifests, there is no Cluster to find.
func (d *deletion) findBeside(ctx context.Context) error {
	if !d.vm.Asked {
		return nil
	}

	if err := d.management.connect(ctx); err != nil {
		return err
	}

	limited, cancel := context.WithTimeout(ctx, ownLimit)
	defer cancel()

	cluster, err := d.management.GetCluster(limited, d.Name)
	var missing *mgmtcluster.NotFoundError

	switch {
	case err == nil:
		d.cluster, d.provider = cluster, providerOf(cluster)
	case !errors.As(err, &missing):
		return fmt.Errorf("cannot reach the bootstrap VM %s at %s, which may have machines of the cluster: %w",
			d.vm.Name(), d.vm.Address(), err)
	}

	return d.findOwn(ctx)
}

// findOwn makes the cluster itself the management cluster if it has its own objects. After an interrupted move, the
// cluster may have only some of its objects.
func (d *deletion) findOwn(ctx context.Context) error {
	if !fileExists(d.vm.Workload) {
		if d.cluster == nil && d.vm.Moved {
			return fmt.Errorf("kubeconfig %s of Cluster %s, which manages itself, does not exist; restore the "+
				"file, or specify another kubeconfig of the cluster with --kubeconfig", d.vm.Workload, d.Name)
		}

		return nil // no move has begun: it needs the file
	}

	own, err := newManagement(mgmtcluster.Options{Kubeconfig: d.vm.Workload, Namespace: d.vm.Namespace},
		mgmtcluster.DriverExisting)
	if err != nil {
		return err
	}

	if err := own.connect(ctx); err != nil {
		return err
	}

	limited, cancel := context.WithTimeout(ctx, ownLimit)
	defer cancel()

	moved, err := own.GetCluster(limited, d.Name)
	var missing *mgmtcluster.NotFoundError

	switch {
	case errors.As(err, &missing) && d.cluster != nil && checkSettled(d.cluster) != nil:
		d.own, d.interrupted = own, true // before the first copy

		return nil
	case errors.As(err, &missing), meta.IsNoMatchError(err):
		return nil // no move has begun
	case err != nil && d.cluster != nil && !ptr.Deref(d.cluster.Spec.Paused, false):
		return nil // no move has begun: it would have paused the Cluster first
	case err != nil:
		return fmt.Errorf("cannot determine whether %s manages itself, because the server in %s is unreachable: "+
			"%w; if the cluster no longer exists, move or delete the file", d.Name, d.vm.Workload, err)
	}

	d.own = own
	if d.interrupted, err = interruptedMove(ctx, d.management, own, d.Name); err != nil || d.interrupted {
		return err
	}

	d.cluster, d.provider = moved, providerOf(moved)
	d.management = own

	return nil
}

// endMoveSteps returns the steps to finish an interrupted move of the cluster into itself.
func (d *deletion) endMoveSteps() []Step {
	return withCondition(func() bool { return d.interrupted },
		Step{
			name: "Completing the interrupted move",
			run:  func(ctx context.Context) error { return d.moveOut(ctx, d.vm, d.management, d.own) },
		},
		Step{
			name:  "Switching to the cluster itself",
			quiet: true,
			run: func(ctx context.Context) (err error) {
				d.management = d.own
				if d.cluster, err = d.own.GetCluster(ctx, d.Name); err != nil {
					return err
				}

				return d.checkOwn(ctx)
			},
		},
	)
}
