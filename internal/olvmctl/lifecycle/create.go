package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/addon"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/bootstrapvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/scratchdir"
)

const (
	// managedBy is the label of all objects created by Create outside the manifests. Delete removes the objects with
	// this label.
	managedBy      = "app.kubernetes.io/managed-by"
	managedByValue = "olvmctl"
)

// CreateOptions configure Create.
type CreateOptions struct {
	Common
	// File is the cluster file. Its namespace overrides that of Management.
	File clusterfile.Loaded
	// Provider is the infrastructure named in the cluster file.
	Provider Provider
	// AddOns are installed in addition to the applications of the cluster file.
	AddOns addon.Sources
	// SelfManaged moves the cluster into itself. The cluster file can request this, too.
	SelfManaged bool
	// BootstrapVM creates a temporary VM in the infrastructure, to manage the cluster until it manages itself. It
	// replaces Management. If an earlier Create has started such a VM, Create uses it even without this option.
	BootstrapVM bool
	// KubeconfigOut is the file for the kubeconfig of the cluster. If empty, it is KubeconfigPath.
	KubeconfigOut string
	// Confirm asks the user to type a word before machines are deleted. An error ends the operation. If nil, nobody is
	// asked.
	Confirm func(question, word string) error
	// ForceConflicts overwrites fields changed by others.
	ForceConflicts bool
}

// Created describes a cluster with its nodes.
type Created struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Kubeconfig is the kubeconfig file of the cluster. Management is the kubeconfig file of its management cluster.
	// Both are the same file if the cluster manages itself.
	Kubeconfig string `json:"kubeconfig"`
	Management string `json:"managementKubeconfig"`
	Nodes      int    `json:"nodes"`
	// Access selects the management cluster in shell commands.
	Access mgmtcluster.ShellAccess `json:"-"`
}

// creation is a running Create, with the results of its steps.
type creation struct {
	CreateOptions
	// addOns are the add-ons to install.
	addOns []addon.AddOn
	// objects are the manifests of the cluster.
	objects []*unstructured.Unstructured
	// management is the management cluster, and workload the cluster itself.
	management, workload *management
	// managesItself reports whether the cluster already has its own objects. If this is unknown, unsure is the reason.
	managesItself bool
	unsure        error
	// own is the Cluster object in the cluster itself, or nil. answers reports whether the cluster's API server has
	// answered without a Cluster object.
	own     *clusterv1.Cluster
	answers bool
	// elsewhere is set if the server in the kubeconfig differs from the server in the manifests.
	elsewhere *elsewhere
	// exists reports whether the management cluster has the cluster.
	exists bool
	nodes  int
	// vm is the bootstrap VM, or nil, and engine is its engine. interrupted reports whether a move out of the VM has
	// begun.
	vm          *bootstrapvm.VM
	engine      engine.Config
	interrupted bool
}

// Create creates the cluster of a cluster file, and waits until its nodes are ready.
func Create(ctx context.Context, o CreateOptions) (*Created, error) {
	scratchdir.Tidy(scratchdir.Command)

	c, err := newCreation(ctx, o)
	if err != nil {
		return nil, err
	}

	defer func() { c.management.remindOfLocal(ctx, o.Display) }()

	if err := runSteps(ctx, o.Display, c.allSteps()); err != nil {
		c.remindOfVM()
		return nil, err
	}

	return &Created{
		Name:       c.File.Name,
		Namespace:  c.namespace(),
		Kubeconfig: c.KubeconfigOut,
		Management: c.management.Kubeconfig,
		Nodes:      c.nodes,
		Access:     c.management.ShellAccess(),
	}, nil
}

// newCreation reads the objects of the options, and checks them before Create changes anything.
func newCreation(ctx context.Context, o CreateOptions) (*creation, error) {
	c := &creation{CreateOptions: o}
	c.Management.Namespace = o.File.Namespace()
	c.SelfManaged = o.SelfManaged || o.File.SelfManaged()

	charts, err := o.File.Charts()
	if err != nil {
		return nil, err
	}

	sources := o.AddOns
	sources.CNI, sources.Pods = cmp.Or(sources.CNI, o.File.NetworkPlugin()), o.File.PodNetworks()

	if c.addOns, err = sources.Load(ctx, charts); err != nil {
		return nil, err
	}

	if c.KubeconfigOut == "" {
		c.KubeconfigOut, err = KubeconfigPath(o.File.Name)
	} else if c.KubeconfigOut, err = filepath.Abs(c.KubeconfigOut); err != nil {
		err = fmt.Errorf("--kubeconfig-out: %w", err)
	}

	if err != nil {
		return nil, err
	}

	if err := c.findVM(); err != nil {
		return nil, err
	}

	if c.management, err = newManagement(c.Management, c.Driver); err != nil {
		return nil, err
	}

	if c.management.isLocal { // avoids a useless upload of an image
		if err := localplane.CheckPlatform(runtime.GOOS); err != nil {
			return nil, err
		}
	}

	c.workload, err = newManagement(mgmtcluster.Options{
		Kubeconfig: c.KubeconfigOut,
		Context:    contextInFile(c.KubeconfigOut, o.File.Name),
		Namespace:  c.namespace(),
	}, mgmtcluster.DriverExisting)

	return c, err
}

// clusterProviders returns the provider of the cluster file.
func (c *creation) clusterProviders() ([]Provider, error) { return []Provider{c.Provider}, nil }

func (c *creation) namespace() string { return c.Management.Namespace }

// allSteps returns all steps, from a missing cluster to ready nodes.
func (c *creation) allSteps() []Step {
	var out []Step

	out = append(out, c.findSteps()...)
	out = append(out, c.prepareSteps()...)
	out = append(
		out,
		withCondition(func() bool { return !c.interrupted }, append(c.makeSteps(), c.addOnSteps()...)...)...)
	out = append(out, c.pivotSteps()...)
	out = append(out, removeVM(c.vm, c.engine)...)

	return append(out, Step{name: "Counting the nodes", quiet: true, run: c.countNodes})
}

// findSteps returns the steps to look for an existing cluster, because an existing cluster needs other steps.
func (c *creation) findSteps() []Step {
	out := []Step{{name: "Checking whether the cluster manages itself", quiet: true, run: c.findOwn}}

	// A stopped local management cluster may have the cluster.
	out = append(out, withCondition(func() bool { return !c.managesItself && c.management.local.Exists() },
		c.management.startSteps(c.Display, nil)...)...)

	return append(out, Step{
		name:   "Looking for the cluster in the management cluster",
		quiet:  true,
		needed: func() bool { return !c.managesItself },
		run:    c.findCluster,
	}, Step{
		name:   "Comparing the cluster with its kubeconfig",
		quiet:  true,
		needed: func() bool { return c.elsewhere != nil },
		run:    c.checkElsewhere,
	})
}

// prepareSteps returns the steps to check the infrastructure, and to set up a management cluster with all providers. An
// existing cluster already has its images.
func (c *creation) prepareSteps() []Step {
	images := append(c.Provider.FindImages(c), c.Provider.ImageSteps(c)...)
	out := withCondition(func() bool { return !c.exists }, images...)
	out = append(out, c.Provider.ValidationSteps(c)...)

	out = append(out, withCondition(func() bool { return !c.managesItself },
		append(append(c.vmSteps(), c.management.startSteps(c.Display, func() Provider { return c.Provider })...),
			Step{name: "Connecting to the management cluster", quiet: true, run: c.management.connect},
			ensureProviders(&c.Common, c.management, c.clusterProviders),
		)...)...)

	return append(out, Step{
		name:   "Looking for other clusters in the namespace",
		quiet:  true,
		needed: c.shouldPivot,
		run:    c.checkAlone,
	})
}

// makeSteps returns the steps to apply the manifests, and to connect to the cluster.
func (c *creation) makeSteps() []Step {
	return []Step{
		{
			name: "Confirming the deletion of machines", quiet: true, asks: true,
			needed: func() bool { return c.exists && c.Confirm != nil },
			run:    c.confirmFewerMachines,
		},
		{name: "Applying the manifests", run: c.applyManifests},
		{
			name: "Waiting for the control plane",
			run: c.waitFor(func(ctx context.Context) error {
				return checkControlPlane(ctx, c.management.Cluster, c.File.Name)
			}),
		},
		{name: "Writing the kubeconfig", quiet: true, run: c.writeKubeconfig},
		{
			name: "Waiting for the API server",
			run: c.waitFor(func(ctx context.Context) error {
				if err := c.workload.connect(ctx); err != nil {
					return err
				}

				return c.workload.List(ctx, &corev1.NodeList{})
			}),
		},
		{name: "Comparing the identity of the cluster", quiet: true, run: c.recordIdentity},
	}
}

// addOnSteps returns the steps to install the add-ons, and to wait for the nodes. The CNI is one of the add-ons, and
// nodes are not ready without it.
func (c *creation) addOnSteps() []Step {
	var out []Step
	for _, one := range c.addOns {
		out = append(out, Step{
			name: "Installing " + one.Name,
			run:  func(ctx context.Context) error { return c.installAddOn(ctx, one) },
		})
	}

	out = append(out, c.Provider.AddonSteps(c)...)

	return append(out, Step{
		name: "Waiting for the nodes",
		run: c.waitFor(func(ctx context.Context) error {
			return checkReady(ctx, c.management.Cluster, c.File.Name)
		}),
	})
}

func (c *creation) installAddOn(ctx context.Context, one addon.AddOn) error {
	to := addon.Target{Client: c.workload.Client, Kubeconfig: c.workload.Kubeconfig, Context: c.workload.Context}
	return one.Install(ctx, to, c.Timeout, c.Display)
}

// installLoadBalancers installs the address provider for Services of type LoadBalancer.
func (c *creation) installLoadBalancers(ctx context.Context) error {
	objects, err := c.File.LoadBalancers()
	if err != nil {
		return err
	}

	return c.installAddOn(ctx, addon.FromManifests("load balancers for Services", objects))
}

// findCluster connects to an existing management cluster, and looks for the cluster in it.
func (c *creation) findCluster(ctx context.Context) error {
	if c.vm != nil && !c.vm.Asked || c.management.isLocal && !c.management.local.Exists() {
		return c.checkUnmanaged()
	}

	if err := c.management.connect(ctx); err != nil {
		return err
	}

	found, err := c.isIn(ctx, c.management)
	if !found { // also if the API server of kubectl's cluster cannot tell
		if local, problem := c.switchToLocal(ctx); local || err == nil {
			found, err = local, problem
		}
	}

	if err != nil {
		return err
	}

	if !found {
		return c.checkUnmanaged()
	}

	c.exists = true

	return nil
}

// isIn reports whether a management cluster has the cluster, or had it before an unfinished move.
func (c *creation) isIn(ctx context.Context, in *management) (bool, error) {
	key := client.ObjectKey{Namespace: c.namespace(), Name: c.File.Name}
	var found clusterv1.Cluster
	err := in.Get(ctx, key, &found)

	switch {
	case err == nil && !c.interrupted && !c.SelfManaged: // SelfManaged would continue the move
		return true, checkSettled(&found)
	case err == nil && !c.interrupted:
		return true, nil
	case err != nil && !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
		return false, fmt.Errorf("failed to get Cluster %s from the management cluster: %w", c.File.Name, err)
	case !c.interrupted:
		return false, nil
	}

	return isCopyFrom(ctx, c.own, in)
}

// switchToLocal makes the local management cluster the management cluster if it has the cluster and kubectl's cluster
// does not. Users often point kubectl at the new cluster.
func (c *creation) switchToLocal(ctx context.Context) (bool, error) {
	m := c.management
	if m.isLocal || !m.local.IsRunning() || c.Management.Kubeconfig != "" || c.Driver == mgmtcluster.DriverExisting {
		return false, nil
	}

	local, err := newManagement(mgmtcluster.Options{Namespace: c.namespace()}, mgmtcluster.DriverProcess)
	if err != nil {
		return false, err
	}

	if err := local.connect(ctx); err != nil {
		return false, err
	}

	found, err := c.isIn(ctx, local)
	if err == nil && found {
		c.Display.PrintLine("found %s in the local management cluster", c.File.Name)
		*m = *local // the steps share m
	}

	return found, err
}

// checkUnmanaged fails if a cluster runs but its management cluster does not have it. Another management cluster then
// manages it, and a second one would create its machines again.
func (c *creation) checkUnmanaged() error {
	in := c.management
	runs := c.answers || c.interrupted

	switch {
	case in.Cluster != nil && in.Server() == wantedServer(c.File.Objects): // it is the cluster itself
	case !runs:
		return c.unsure // it may be its own management cluster
	}

	remedy := "specify its management cluster with --kubeconfig"
	if in.local.Exists() {
		remedy += "; if this is the local one, run olvmctl local start, and use --driver " + mgmtcluster.DriverProcess
	}

	if c.interrupted {
		return fmt.Errorf("the move of %s into itself was interrupted, and this is not the source management "+
			"cluster (%s, by the UIDs of the kube-system namespaces); %s", c.File.Name,
			c.own.Annotations[movingAnnotation], remedy)
	}

	return fmt.Errorf("%s is already running, but this management cluster does not have its Cluster, and would "+
		"create its machines again; %s", c.File.Name, remedy)
}

// recordIdentity records the identity of the new cluster in the management cluster. It fails if the recorded identity
// is a different one.
func (c *creation) recordIdentity(ctx context.Context) error {
	id, err := c.workload.FetchIdentity(ctx)
	if err != nil {
		return err
	}

	return c.management.RecordIdentity(ctx, c.File.Name, id)
}

// applyManifests creates the namespace and the credentials, and applies the manifests.
func (c *creation) applyManifests(ctx context.Context) (err error) {
	labels := map[string]string{managedBy: managedByValue}
	if err := c.makeNamespace(ctx, c.namespace(), labels); err != nil {
		return err
	}

	if c.objects, err = c.Provider.BuildManifests(ctx, c); err != nil {
		return err
	}

	if c.vm != nil {
		if err := c.vm.MarkAsked(c.KubeconfigOut); err != nil {
			return err
		}
	}

	if err := c.Provider.WriteSecrets(ctx, c, labels); err != nil {
		return err
	}

	if err := c.followTemplates(ctx); err != nil {
		return err
	}

	options := []client.ApplyOption{manifest.FieldOwner}
	if c.ForceConflicts {
		options = append(options, client.ForceOwnership)
	}

	for {
		err := manifest.Apply(ctx, c.management.Client, c.objects, options...)
		if !c.keepScale(ctx, err) {
			return c.explainConflict(ctx, err)
		}
	}
}

// makeNamespace creates a missing namespace. If the namespace is being deleted, for example by Delete, makeNamespace
// first waits for the end.
func (c *creation) makeNamespace(ctx context.Context, name string, labels map[string]string) error {
	err := c.Display.WaitFor(ctx, c.Timeout, func(ctx context.Context) error {
		return checkNotTerminating(ctx, c.management.Cluster, name)
	})
	if err != nil {
		return err
	}

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if err := c.management.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("failed to create namespace %s: %w", name, err)
	}

	return nil
}

// writeKubeconfig writes the kubeconfig of the cluster to its file.
func (c *creation) writeKubeconfig(ctx context.Context) error {
	key := client.ObjectKey{Namespace: c.namespace(), Name: c.File.Name}
	content, err := kubeconfig.FromSecret(ctx, c.management.Client, key)
	if err != nil {
		return fmt.Errorf("failed to get the kubeconfig: %w", err)
	}

	err = mergeKubeconfig(c.KubeconfigOut, c.File.Name, content, c.managesItself)
	if err != nil {
		return err
	}

	c.workload.setContext(contextInFile(c.KubeconfigOut, c.File.Name))

	return nil
}

func (c *creation) countNodes(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := c.workload.List(ctx, &nodes); err != nil {
		return fmt.Errorf("failed to list the nodes: %w", err)
	}

	c.nodes = len(nodes.Items)

	return nil
}

// checkAlone fails if the namespace has other clusters, because a move of the namespace would move them, too.
func (c *creation) checkAlone(ctx context.Context) error {
	others, err := c.management.ListOtherClusters(ctx, c.File.Name, client.InNamespace(c.namespace()))
	if err != nil || len(others) == 0 {
		return err
	}

	return fmt.Errorf(
		"a cluster that manages itself must be alone in its namespace, but the namespace of %s also contains %s; "+
			"set another namespace in %s, or do not use --self-managed",
		c.File.Name, strings.Join(others, ", "), c.File.NamespaceKey())
}
