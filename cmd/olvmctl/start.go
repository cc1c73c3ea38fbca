package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/manifest"
)

const (
	// fieldOwner of what start and upgrade apply.
	fieldOwner = client.FieldOwner("olvmctl")
	// cloudInitOS is the operating system of templates for images with cloud-init.
	cloudInitOS = "other_linux"
	// managedBy is the label of what start makes beside the manifests, and delete takes away.
	managedBy      = "app.kubernetes.io/managed-by"
	managedByValue = "olvmctl"
	// ownLimit bounds how long a cluster is asked whether it manages itself.
	ownLimit = 10 * time.Second
)

// start are the flags of the start command.
type start struct {
	streams
	steps
	management
	access
	file          clusterFile
	image         string
	addOns        addOns
	selfManaged   bool
	kubeconfigOut string
	force         bool
	output        string
}

// started is what start has made.
type started struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	// Kubeconfig is the file for the cluster; Management, for its management cluster: the same where it manages itself.
	Kubeconfig string `json:"kubeconfig"`
	Management string `json:"managementKubeconfig"`
	Nodes      int    `json:"nodes"`
}

func newStartCommand(s streams) *cobra.Command {
	o := &start{streams: s, steps: steps{progress: s.err}}
	command := &cobra.Command{
		Use:   "start -f FILE",
		Short: "Make the cluster of a cluster file, from nothing to nodes that are ready",
		Long: `start asks the engine whether all that the cluster file names is there, installs
Cluster API and its providers into a management cluster without them, applies the manifests of
the cluster file, waits for the control plane, writes its kubeconfig, installs add-ons, and waits
for the nodes. It can be run again at any time: what is done already stays as it is, and where it
was interrupted it goes on.

` + managementHelp + `

The credentials of the engine are those of the environment variables OLVM_USERNAME and
OLVM_PASSWORD, or of the Secret in the management cluster that the cluster file names. Those of the
storage driver, which are on every node, are OLVM_CSI_USERNAME and OLVM_CSI_PASSWORD.

With --self-managed, or selfManaged in the cluster file, the cluster gets the providers itself, and
its objects are moved into it.`,
		Example: `  olvmctl start -f cluster.yaml --kubeconfig management.kubeconfig
  olvmctl start -f cluster.yaml --image ock-1.33.qcow2 --add-on kube-flannel.yml --self-managed`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := checkOutput(o.output, "text", "json"); err != nil {
				return err
			}

			defer o.remind(command.Context(), &o.steps)

			return o.run(command.Context())
		},
	}
	set := command.Flags()
	o.file.addFlags(command)
	o.addKubeconfigFlag(command)
	o.addProviderFlags(command)
	o.addDriverFlag(command)
	o.addOns.addFlags(command)
	o.access.addFlags(set)
	set.StringVar(&o.image, "image", "", "image file to make the template of, where the engine does not have it yet")
	set.BoolVar(&o.selfManaged, "self-managed", false,
		"let the cluster manage itself; it must be the only one of its namespace")
	set.StringVar(&o.kubeconfigOut, "kubeconfig-out", "",
		"file for the kubeconfig of the cluster (default ~/.kube/kubeconfig.NAME)")
	set.BoolVar(&o.force, "force-conflicts", false, "take back fields that others have changed since, such as replicas")
	set.StringVarP(&o.output, "output", "o", "text", "output: text or json")

	return command
}

func (o *start) run(ctx context.Context) error {
	cluster, err := o.file.valid(o.err)
	if err != nil {
		return err
	}

	wanted, err := o.complete(ctx, cluster)
	if err != nil {
		return err
	}

	own, err := o.reachManagement(ctx, cluster)
	if err != nil {
		return err
	}

	if o.selfManaged && !own {
		if err := o.checkAlone(ctx, cluster.Name); err != nil {
			return err
		}
	}

	workload, err := o.raise(ctx, cluster)
	if err != nil {
		return err
	}

	if err := o.furnish(ctx, cluster, workload, wanted); err != nil {
		return err
	}

	out := started{Name: cluster.Name, Namespace: o.namespace, Kubeconfig: o.kubeconfigOut, Management: o.kubeconfig}
	if o.selfManaged && !own {
		if err := o.pivot(ctx, cluster.Name); err != nil {
			return err
		}

		out.Management = o.kubeconfigOut
	}

	return o.report(ctx, workload, out)
}

// complete fills in what the cluster file decides, and returns the add-ons that are asked for.
func (o *start) complete(ctx context.Context, cluster readCluster) ([]addOn, error) {
	o.namespace = cluster.Providers.OLVM.Namespace
	o.selfManaged = o.selfManaged || cluster.Providers.OLVM.SelfManaged
	charts, err := cluster.Charts()
	if err != nil {
		return nil, err
	}

	wanted, err := o.addOns.load(ctx, charts)
	if err != nil {
		return nil, err
	}

	if o.kubeconfigOut == "" {
		if o.kubeconfigOut, err = kubeconfigPath(cluster.Name); err != nil {
			return nil, err
		}
	}

	return wanted, o.checkDriver(cluster)
}

// reachManagement connects to the management cluster, which is made where there is none. own reports that the cluster
// manages itself already.
func (o *start) reachManagement(ctx context.Context, cluster readCluster) (own bool, err error) {
	own, unsure, err := o.managesItself(ctx, cluster)
	if err != nil {
		return false, err
	}

	if !own {
		if err := o.prepare(ctx, cluster, unsure); err != nil {
			return false, err
		}

		return false, o.connect()
	}

	o.say("%s manages itself: its management cluster is the one of %s", cluster.Name, o.kubeconfigOut)
	o.kubeconfig = o.kubeconfigOut
	if err := o.connect(); err != nil {
		return false, err
	}

	return true, o.logIn(ctx, &o.management, cluster)
}

// raise applies the manifests, waits for the control plane, and connects to the cluster.
func (o *start) raise(ctx context.Context, cluster readCluster) (*management, error) {
	if err := o.do("Applying the manifests", func() error { return o.apply(ctx, cluster) }); err != nil {
		return nil, err
	}

	err := o.do("Waiting for the control plane", func() error {
		return o.until(ctx, o.timeout, o.checkControlPlane(cluster.Name))
	})
	if err != nil {
		return nil, err
	}

	return o.writeKubeconfig(ctx, cluster.Name)
}

// furnish installs the add-ons, and waits for the nodes.
func (o *start) furnish(ctx context.Context, cluster readCluster, workload *management, wanted []addOn) error {
	driver, err := o.storageDriver(ctx, cluster, workload)
	if err != nil {
		return err
	}

	if err := install(ctx, &o.steps, workload, append(wanted, driver...), o.timeout); err != nil {
		return err
	}

	return o.do("Waiting for the nodes", func() error { return o.until(ctx, o.timeout, o.checkReady(cluster.Name)) })
}

// report prints what was started.
func (o *start) report(ctx context.Context, workload *management, out started) error {
	var nodes corev1.NodeList
	if err := workload.List(ctx, &nodes); err != nil {
		return fmt.Errorf("failed to list the nodes: %w", err)
	}

	out.Nodes = len(nodes.Items)
	if o.output == "json" {
		return encode(o.out, o.output, out)
	}

	_, err := fmt.Fprintf(o.out, "The cluster %s has %d nodes. Look at it with:\n  export KUBECONFIG=%s\n",
		out.Name, out.Nodes, out.Kubeconfig)

	return err
}

// apply makes the namespace and the Secret with the credentials, and applies the manifests.
func (o *start) apply(ctx context.Context, cluster readCluster) error {
	label := map[string]string{managedBy: managedByValue}

	secretKey := o.secretKey(cluster)
	for _, name := range []string{o.namespace, secretKey.Namespace} {
		err := o.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: label}})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("failed to make namespace %s: %w", name, err)
		}
	}

	if err := o.keepCredentials(ctx, secretKey, cluster.Providers.OLVM.OvirtAPIServer.ServerURL, label); err != nil {
		return err
	}

	options := []client.ApplyOption{fieldOwner}
	if o.force {
		options = append(options, client.ForceOwnership)
	}

	if err := o.follow(ctx, cluster); err != nil {
		return err
	}

	err := manifest.Apply(ctx, o.Client, cluster.objects, options...)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%w\n%s: change %s, or give --force-conflicts", err,
			"another field manager has changed what the cluster file sets", o.file.path)
	}

	return err
}

// follow has the manifests name the OLVMMachineTemplates that upgrade has made, where the cluster has been rolled out
// since it was started. start itself replaces no machine: a cluster file that asks for that is an error.
func (o *start) follow(ctx context.Context, cluster readCluster) error {
	err := o.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: cluster.Name}, &clusterv1.Cluster{})
	if err != nil {
		return client.IgnoreNotFound(err)
	}

	wanted, err := o.templatesOf(ctx, cluster.objects)
	if err != nil {
		return err
	}

	for _, object := range cluster.objects {
		version, reference := machineFields(object.GetKind())
		if version == nil {
			continue
		}

		live := object.DeepCopy()
		if err := o.Get(ctx, client.ObjectKeyFromObject(object), live); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("failed to get %s %s: %w", object.GetKind(), object.GetName(), err)
		}

		now, _, _ := unstructured.NestedString(live.Object, version...)
		asked, _, _ := unstructured.NestedString(object.Object, version...)
		template, err := o.templateOf(ctx, live)
		if err != nil {
			return err
		}

		if now != asked || !equality.Semantic.DeepEqual(wanted[object.GetName()].Spec.Template.Spec,
			template.Spec.Template.Spec) {
			return fmt.Errorf(
				"%s %s has other machines than %s asks for; replace them with olvmctl upgrade %s -n %s -f %s",
				object.GetKind(),
				object.GetName(),
				o.file.path,
				cluster.Name,
				o.namespace,
				o.file.path,
			)
		}

		name, _, _ := unstructured.NestedString(object.Object, reference...)
		if err := unstructured.SetNestedField(object.Object, template.Name, reference...); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}

		for _, other := range cluster.objects {
			if other.GetKind() == "OLVMMachineTemplate" && other.GetName() == name {
				other.SetName(template.Name)
			}
		}
	}

	return nil
}

// machineFields are where the version and the name of the template of machines are in a kind; nil where it has none.
func machineFields(kind string) (version, reference []string) {
	switch kind {
	case "KubeadmControlPlane":
		return []string{"spec", "version"}, []string{"spec", "machineTemplate", "spec", "infrastructureRef", "name"}
	case "MachineDeployment":
		return []string{
				"spec",
				"template",
				"spec",
				"version",
			}, []string{
				"spec",
				"template",
				"spec",
				"infrastructureRef",
				"name",
			}
	}

	return nil, nil
}

// checkControlPlane succeeds when the control plane has its first machine. Until then its error says what is missing.
func (m *management) checkControlPlane(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		cluster, err := m.cluster(ctx, name)
		if err != nil {
			return err
		}

		if ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) {
			return nil
		}

		return m.troubles(ctx, name)
	}
}

// checkReady succeeds when all machines have nodes that are ready, and none is to be replaced. Until then its error
// says what is missing.
func (m *management) checkReady(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		tree, err := m.describe(ctx, name)
		if err != nil {
			return err
		}

		for _, child := range tree.Children {
			if child.Waiting != "" {
				return errors.New(child.Waiting)
			}
		}

		return nil
	}
}

// troubles is what is wrong in the tree of a cluster, the innermost first.
func (m *management) troubles(ctx context.Context, name string) error {
	tree, err := m.describe(ctx, name)
	if err != nil {
		return err
	}

	return errors.New(tree.Trouble())
}
