package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/bootstrapvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/preview"
)

// DeleteOptions say which cluster to delete.
type DeleteOptions struct {
	Common
	// Name of the Cluster.
	Name string
	// To is the management cluster that deletes a cluster that manages itself; without a kubeconfig that is a local
	// one.
	To mgmtcluster.Options
	// Engine are the credentials of the engine, for the bootstrap VM of a cluster that was not completed.
	Engine func() (preview.Credentials, error)
	// Confirm asks the user to type a word; an error ends the operation.
	Confirm func(question, word string) error
}

// deletion is a Delete that runs, with what its steps have found.
type deletion struct {
	DeleteOptions
	management *management
	// cluster is nil where an interrupted Delete has deleted it.
	cluster *clusterv1.Cluster
	// managesItself reports that the management cluster is the cluster itself. It is moved to the management cluster
	// to.
	managesItself bool
	to            *management
	// provider is the infrastructure of the cluster, and kept what Create has made in the management cluster for it.
	provider Provider
	kept     []client.Object
	// vm is the bootstrap VM of a cluster that was not completed; nil for none. engine is where it is, and
	// managesFromVM reports that it is the management cluster.
	vm            *bootstrapvm.VM
	engine        engine.Config
	managesFromVM bool
	// own is the cluster itself, where it has its own objects; interrupted reports that it does not have all of them.
	own         *management
	interrupted bool
}

// Delete deletes a cluster with its VMs, waits until all is gone, and removes what Create made beside it.
func Delete(ctx context.Context, o DeleteOptions) error {
	d, err := newDeletion(o)
	if err != nil {
		return err
	}

	defer func() { d.management.remind(ctx, o.Display) }()

	return runSteps(ctx, o.Display, d.steps())
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

// steps from a cluster to nothing.
func (d *deletion) steps() []Step {
	var out []Step

	out = append(out, only(d.management.local.Exists, d.management.start(d.Display, nil)...)...)
	out = append(out,
		Step{name: "Looking for the cluster", quiet: true, run: d.find},
		Step{name: "Looking whether it manages itself", quiet: true, needed: d.exists, run: d.checkOwn},
		Step{name: "Asking the user", quiet: true, run: d.confirm},
	)
	out = append(out, d.endMoveSteps()...)
	out = append(out, only(func() bool { return d.managesItself }, d.moveSteps()...)...)

	out = append(out, only(func() bool { return !d.onlyVM() }, d.deleteSteps()...)...)

	return append(out, removeVM(d.vm, d.engine)...)
}

// onlyVM reports that there is nothing but a bootstrap VM.
func (d *deletion) onlyVM() bool { return d.managesFromVM && !d.exists() }

// moveSteps move a cluster that manages itself to another management cluster, which deletes it then.
func (d *deletion) moveSteps() []Step {
	out := d.to.start(d.Display, func() Provider { return d.provider })

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
		ensureProviders(&d.Common, d.to, func() ([]Provider, error) { return []Provider{d.provider}, nil }),
		Step{
			name: movingName,
			// Its end is known when its turn comes: a cluster in a bootstrap VM may have been moved into itself.
			run: func(ctx context.Context) error { return d.move(ctx, d.management, d.to) },
		},
		Step{
			name:  "Turning to the other management cluster",
			quiet: true,
			run: func(context.Context) error {
				d.management = d.to
				return nil
			},
		},
		// Cluster API connects to clusters whose infrastructure it has seen, and deletes a control plane with a
		// connection alone.
		Step{
			name: "Waiting for Cluster API to know it",
			run: d.wait(func(ctx context.Context) error {
				return checkKnown(ctx, d.management.Cluster, d.Name)
			}),
		},
	)
}

// deleteSteps delete the cluster, and remove what Create made for it.
func (d *deletion) deleteSteps() []Step {
	out := []Step{
		{name: "Looking for the credentials", quiet: true, needed: d.exists, run: d.findKept},
		{
			name:   "Releasing what the cluster has made",
			quiet:  true,
			needed: func() bool { return d.exists() && d.cluster.DeletionTimestamp.IsZero() },
			run:    func(ctx context.Context) error { return runSteps(ctx, d.Display, d.provider.Release(d)) },
		},
		{
			name:   "Deleting " + d.Name,
			needed: d.exists,
			run: func(ctx context.Context) error {
				// Cluster API deletes in the order that infrastructures need. The garbage collector, asked to wait for
				// all dependents, would delete the network of a cluster on OCI before its machines.
				err := d.management.Delete(ctx, d.cluster)
				if client.IgnoreNotFound(err) != nil {
					return fmt.Errorf("failed to delete Cluster %s: %w", d.Name, err)
				}

				return d.wait(func(ctx context.Context) error {
					return checkGone(ctx, d.management.Cluster, d.provider, d.Name)
				})(ctx)
			},
		},
		{
			name: "Removing what was made for it",
			run: func(ctx context.Context) error {
				err := d.Display.Wait(ctx, d.Timeout, func(ctx context.Context) error {
					return checkMachinesGone(ctx, d.management.Cluster, d.provider, d.Name)
				})
				if err != nil {
					return err
				}

				return d.tidy(ctx)
			},
		},
	}

	return append(out, d.leaveSteps()...)
}

// leaveSteps remove the local management cluster that is not needed any more.
func (d *deletion) leaveSteps() []Step {
	own := only(func() bool { return !d.managesItself }, d.management.leave(&d.Common)...)
	other := only(func() bool { return d.managesItself }, d.to.leave(&d.Common)...)

	return append(own, other...)
}

// workload connects to the cluster itself.
func (d *deletion) workload(ctx context.Context) (client.Client, error) {
	key := client.ObjectKey{Namespace: d.management.Namespace, Name: d.Name}
	content, err := kubeconfig.FromSecret(ctx, d.management.Client, key)
	if err != nil {
		return nil, fmt.Errorf("failed to get the kubeconfig: %w", err)
	}

	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig of %s: %w", d.Name, err)
	}

	config.Timeout = ownLimit

	return client.New(config, client.Options{})
}

func (d *deletion) exists() bool { return d.cluster != nil }

// find reads the Cluster. Where an interrupted Delete has deleted it, its Secret is left: without that there is nothing
// to know it from.
func (d *deletion) find(ctx context.Context) error {
	if d.managesFromVM {
		return d.findBeside(ctx)
	}

	if d.management.isLocal && !d.management.local.Exists() {
		return fmt.Errorf("there is no Cluster %s, for there is no management cluster: kubectl has no kubeconfig, and "+
			"no local management cluster was started; say where it is managed with --kubeconfig", d.Name)
	}

	if err := d.management.connect(ctx); err != nil {
		return err
	}

	cluster, err := d.management.GetCluster(ctx, d.Name)
	var missing *mgmtcluster.NotFoundError
	if !errors.As(err, &missing) {
		d.cluster, d.provider = cluster, providerOf(cluster)
		return err
	}

	for _, one := range providers() {
		d.provider = one
		if err := d.findKept(ctx); err != nil || len(d.kept) > 0 {
			return err
		}
	}

	return missing
}

// findKept finds what Create has made for the cluster, while its infrastructure names it.
func (d *deletion) findKept(ctx context.Context) (err error) {
	d.kept, err = d.provider.Kept(ctx, d.management.Cluster, d.Name, d.cluster)
	return err
}

// checkOwn finds whether the cluster manages itself, and checks that it can be deleted then.
func (d *deletion) checkOwn(ctx context.Context) error {
	d.managesItself = d.management.Is(d.cluster)
	if !d.managesItself {
		return nil
	}

	if d.To.Kubeconfig == "" && d.Driver == mgmtcluster.DriverExisting {
		return fmt.Errorf(
			"%s manages itself, and cannot delete itself; name another management cluster with --to-kubeconfig", d.Name)
	}

	// Other clusters would have no controllers any more, and those of the namespace would be moved, too.
	others, err := d.management.Others(ctx, d.Name)
	if err != nil {
		return err
	}

	if len(others) > 0 {
		return fmt.Errorf("%s manages other clusters, too: %s; delete these first, or move them with olvmctl move",
			d.Name, strings.Join(others, ", "))
	}

	return nil
}

// confirm asks before anything is deleted.
func (d *deletion) confirm(ctx context.Context) error {
	if d.onlyVM() {
		return d.Confirm(fmt.Sprintf(
			"There is nothing of the cluster %s but the bootstrap VM %s. Remove that? Type the name of the cluster: ",
			d.Name, d.vm.Name()), d.Name)
	}

	if !d.exists() {
		return d.Confirm(fmt.Sprintf(
			"The cluster %s in namespace %s is gone. Remove what was made for it, %s among it? Type its name: ",
			d.Name, d.management.Namespace, nameOf(d.kept[0])), d.Name)
	}

	var machines clusterv1.MachineList
	err := d.management.List(ctx, &machines, client.InNamespace(d.management.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: d.Name,
	})
	if err != nil {
		return fmt.Errorf("failed to list the machines: %w", err)
	}

	return d.Confirm(fmt.Sprintf(
		"Delete the cluster %s in namespace %s with %s and their disks? Type its name: ",
		d.Name, d.management.Namespace, english.Plural(len(machines.Items), "machine", "")), d.Name)
}

// tidy removes what Create made, as far as nothing else needs it.
func (d *deletion) tidy(ctx context.Context) error {
	server := ""
	if d.exists() {
		server = mgmtcluster.ServerAt(d.cluster)
	}

	if path, err := KubeconfigPath(d.Name); err == nil && fileExists(path) {
		if err := d.removeKubeconfig(path, server); err != nil {
			return err
		}
	}

	namespace, err := d.emptyNamespace(ctx)
	if err != nil {
		return err
	}

	// What is kept comes last: it is what a second Delete knows the cluster by.
	if namespace != nil {
		if err := d.management.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete namespace %s: %w", namespace.Name, err)
		}

		d.Display.Say("deleted namespace %s", namespace.Name)
	}

	for _, object := range d.kept {
		if err := d.management.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete %s: %w", nameOf(object), err)
		}

		d.Display.Say("deleted %s", nameOf(object))
	}

	return nil
}

// nameOf is an object for people.
func nameOf(object client.Object) string {
	kind := object.GetObjectKind().GroupVersionKind().Kind

	return fmt.Sprintf("%s %s", cmp.Or(kind, "Secret"), client.ObjectKeyFromObject(object))
}

// removeKubeconfig removes the file, if it is that of the cluster. server is that of the cluster; empty where it is not
// known.
func (d *deletion) removeKubeconfig(path, server string) error {
	found, err := mgmtcluster.ServerOf(path)
	switch {
	case err != nil:
		d.Display.Say("left %s: %v", path, err)
		return nil
	case server == "":
		d.Display.Say("left %s: its server is %s; remove it if that was the cluster's", path, found)
		return nil
	case found != server:
		d.Display.Say("left %s: its server is %s, that of the cluster was %s", path, found, server)
		return nil
	}

	if err := os.Remove(path); err != nil {
		return fmt.Errorf("failed to remove the kubeconfig: %w", err)
	}

	d.Display.Say("removed %s", path)

	return nil
}

// emptyNamespace is the namespace of the cluster, if Create has made it and no other cluster is in it; else nil.
func (d *deletion) emptyNamespace(ctx context.Context) (*corev1.Namespace, error) {
	in := d.management
	others, err := in.Others(ctx, d.Name, client.InNamespace(in.Namespace))
	if err != nil {
		return nil, err
	}

	namespace := &corev1.Namespace{}
	if err := in.Get(ctx, client.ObjectKey{Name: in.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to get namespace %s: %w", in.Namespace, err)
	}

	// Those of ours whose Cluster was forced away still have machines.
	var ours infrav1.OLVMClusterList
	err = in.List(ctx, &ours, client.InNamespace(in.Namespace))
	if err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("failed to list the OLVMClusters: %w", err)
	}

	if namespace.Labels[managedBy] != managedByValue || len(others)+len(ours.Items) > 0 {
		return nil, nil
	}

	return namespace, nil
}
