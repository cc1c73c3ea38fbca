package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
)

// remove are the flags of the delete command.
type remove struct {
	streams
	steps
	management
	to  management
	yes bool
}

func newDeleteCommand(s streams) *cobra.Command {
	o := &remove{streams: s, steps: steps{progress: s.err}}
	command := &cobra.Command{
		Use:   "delete CLUSTER",
		Short: "Delete a cluster with its VMs, and wait until all is gone",
		Long: `delete deletes the Cluster, waits until Cluster API has deleted all machines and the
engine their VMs, and removes what start has made beside them: the Secret with the credentials, the
namespace if nothing else is in it, and the file with the kubeconfig.

A cluster that manages itself cannot delete itself: its objects are moved to the management cluster
of --to-kubeconfig first, or to one that runs as processes of this machine for as long as that
takes. One that manages other clusters, too, is not deleted.

It asks before; --yes answers, and is needed where there is no terminal.`,
		Example: `  olvmctl delete prod -n prod --kubeconfig management.kubeconfig
  olvmctl delete prod -n prod --kubeconfig ~/.kube/kubeconfig.prod --to-kubeconfig other.kubeconfig --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			defer o.remind(command.Context(), &o.steps)
			return o.run(command.Context(), args[0])
		},
	}
	o.addFlags(command)
	o.addProviderFlags(command)
	o.addDriverFlag(command)
	command.Flags().StringVar(&o.to.kubeconfig, "to-kubeconfig", "",
		"kubeconfig of the management cluster that deletes a cluster that manages itself")
	command.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")

	return command
}

func (o *remove) run(ctx context.Context, name string) error {
	if err := o.management.run(ctx, &o.steps); err != nil {
		return err
	}

	if err := o.connect(); err != nil {
		return err
	}

	cluster, err := o.cluster(ctx, name)
	var missing *noClusterError
	if errors.As(err, &missing) {
		return o.finish(ctx, missing)
	}

	if err != nil {
		return err
	}

	own, err := o.checkOwn(ctx, cluster)
	if err != nil {
		return err
	}

	if err := o.confirmAll(ctx, name); err != nil {
		return err
	}

	if own {
		if err := o.moveAway(ctx, name); err != nil {
			return err
		}
	}

	return o.removeCluster(ctx, cluster)
}

// checkOwn reports whether the cluster manages itself, and checks that it can be deleted then.
func (o *remove) checkOwn(ctx context.Context, cluster *clusterv1.Cluster) (bool, error) {
	own, err := o.ownEndpoint(cluster)
	if err != nil || !own {
		return false, err
	}

	if o.to.kubeconfig == "" && o.driver == driverExisting {
		return false, fmt.Errorf(
			"%s manages itself, and cannot delete itself; name another management cluster with --to-kubeconfig",
			cluster.Name)
	}

	// Other clusters would have no controllers any more, and those of the namespace would be moved, too.
	others, err := o.others(ctx, cluster.Name)
	if err != nil {
		return false, err
	}

	if len(others) > 0 {
		return false, fmt.Errorf("%s manages other clusters, too: %s; delete these first, or move them with olvmctl "+
			"move", cluster.Name, strings.Join(others, ", "))
	}

	return true, nil
}

// confirmAll asks before anything is deleted.
func (o *remove) confirmAll(ctx context.Context, name string) error {
	var machines clusterv1.MachineList
	err := o.List(ctx, &machines, client.InNamespace(o.namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: name,
	})
	if err != nil {
		return fmt.Errorf("failed to list the machines: %w", err)
	}

	return confirm(o.streams, o.yes, fmt.Sprintf(
		"Delete the cluster %s in namespace %s with its %d machines and their disks? Type its name: ",
		name, o.namespace, len(machines.Items)), name)
}

// moveAway moves a cluster that manages itself to another management cluster, which deletes it then.
func (o *remove) moveAway(ctx context.Context, name string) error {
	o.to.namespace, o.to.driver = o.namespace, o.driver
	if o.to.kubeconfig == "" {
		o.to.driver = driverProcess
	}

	if err := o.to.run(ctx, &o.steps); err != nil {
		return err
	}

	if err := o.to.connect(); err != nil {
		return fmt.Errorf("--to-kubeconfig: %w", err)
	}

	if err := o.move(ctx, &o.steps, &o.to); err != nil {
		return err
	}

	o.kubeconfig, o.driver, o.Client = o.to.kubeconfig, o.to.driver, o.to.Client

	// Cluster API connects to clusters whose infrastructure it has seen, and deletes a control plane with a connection
	// alone.
	return o.do("Waiting for Cluster API to know it", func() error {
		return o.until(ctx, o.timeout, o.checkKnown(name))
	})
}

// removeCluster deletes the cluster, waits until it is gone, and removes what start made for it.
func (o *remove) removeCluster(ctx context.Context, cluster *clusterv1.Cluster) error {
	name := cluster.Name
	var olvmCluster infrav1.OLVMCluster
	err := o.Get(ctx, client.ObjectKey{Namespace: o.namespace, Name: cluster.Spec.InfrastructureRef.Name}, &olvmCluster)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to get the OLVMCluster: %w", err)
	}

	err = o.do("Deleting "+name, func() error {
		err := o.Delete(ctx, cluster, client.PropagationPolicy(metav1.DeletePropagationForeground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete Cluster %s: %w", name, err)
		}

		return o.until(ctx, o.timeout, func(ctx context.Context) error { return o.checkGone(ctx, name) })
	})
	if err != nil {
		return err
	}

	key := keyOf(o.namespace, &olvmCluster.Spec.OLVMOvirtAPIServer.CredentialsSecret)
	if key.Name == "" { // it was gone already
		key.Name = clusterfile.CredentialsOf(name)
	}

	err = o.do("Removing what was made for it", func() error { return o.tidy(ctx, name, serverAt(cluster), key) })
	if err != nil {
		return err
	}

	return o.leave(ctx, &o.steps)
}

// finish removes what start made for a cluster that an interrupted delete has deleted. Without its Secret there is
// nothing to know that from.
func (o *remove) finish(ctx context.Context, missing *noClusterError) error {
	name := missing.name
	key := client.ObjectKey{Namespace: o.namespace, Name: clusterfile.CredentialsOf(name)}
	secret, _, err := o.leftovers(ctx, key)
	if err != nil {
		return err
	}

	if secret == nil {
		return missing
	}

	question := fmt.Sprintf(
		"The cluster %s in namespace %s is gone. Remove what was made for it, Secret %s among it? Type its name: ",
		name,
		o.namespace,
		key,
	)
	if err := confirm(o.streams, o.yes, question, name); err != nil {
		return err
	}

	err = o.do("Removing what was made for "+name, func() error {
		err := o.until(ctx, o.timeout, func(ctx context.Context) error { return o.checkOursGone(ctx, name) })
		if err != nil {
			return err
		}

		return o.tidy(ctx, name, "", key)
	})
	if err != nil {
		return err
	}

	return o.leave(ctx, &o.steps)
}

// checkKnown succeeds when Cluster API has seen the infrastructure of the cluster.
func (o *remove) checkKnown(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		cluster, err := o.cluster(ctx, name)
		if err != nil || ptr.Deref(cluster.Status.Initialization.InfrastructureProvisioned, false) {
			return err
		}

		return o.troubles(ctx, name)
	}
}

// checkGone succeeds when nothing of the cluster is left. Until then its error names what is.
func (o *remove) checkGone(ctx context.Context, name string) error {
	tree, err := o.describe(ctx, name)
	key := client.ObjectKey{Namespace: o.namespace, Name: name}
	if err := o.Get(ctx, key, &clusterv1.Cluster{}); apierrors.IsNotFound(err) {
		return o.checkOursGone(ctx, name)
	} else if err != nil {
		return fmt.Errorf("failed to get Cluster %s: %w", name, err)
	}

	if err != nil {
		return err
	}

	machines, trouble := tree.Machines()
	if trouble != "" {
		trouble = "; " + trouble
	}

	return fmt.Errorf("%d machines are left%s", machines, trouble)
}

// checkOursGone succeeds when no object of this provider is left, either.
func (o *remove) checkOursGone(ctx context.Context, name string) error {
	var machines infrav1.OLVMMachineList
	err := o.List(ctx, &machines, client.InNamespace(o.namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: name,
	})
	if err != nil {
		return fmt.Errorf("failed to list the OLVMMachines: %w", err)
	}

	if len(machines.Items) > 0 {
		return fmt.Errorf("%d OLVMMachines are left", len(machines.Items))
	}

	return nil
}

// tidy removes what start made, as far as nothing else needs it. server is that of the cluster, empty where it is not
// known.
func (o *remove) tidy(ctx context.Context, name, server string, credentials client.ObjectKey) error {
	if path, err := kubeconfigPath(name); err == nil && fileExists(path) {
		if err := o.removeKubeconfig(path, server); err != nil {
			return err
		}
	}

	secret, namespace, err := o.leftovers(ctx, credentials)
	if err != nil {
		return err
	}

	// The Secret comes last: it is what a second delete knows the cluster by.
	if namespace != nil {
		if err := o.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete namespace %s: %w", o.namespace, err)
		}

		o.say("deleted namespace %s", o.namespace)
	}

	if secret != nil {
		if err := o.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("failed to delete Secret %s: %w", credentials, err)
		}

		o.say("deleted Secret %s", credentials)
	}

	return nil
}

// removeKubeconfig removes the file, if it is that of the cluster.
func (o *remove) removeKubeconfig(path, server string) error {
	found, err := serverOf(path)
	switch {
	case err != nil:
		o.say("left %s: %v", path, err)
		return nil
	case server == "":
		o.say("left %s: its server is %s; remove it if that was the cluster's", path, found)
		return nil
	case found != server:
		o.say("left %s: its server is %s, that of the cluster was %s", path, found, server)
		return nil
	}

	if err := os.Remove(path); err != nil {
		return fmt.Errorf("failed to remove the kubeconfig: %w", err)
	}

	o.say("removed %s", path)

	return nil
}

// leftovers are the Secret with the credentials and the namespace of a cluster that is gone; nil where start has not
// made them, or other clusters need them.
func (o *remove) leftovers(
	ctx context.Context, credentials client.ObjectKey,
) (*corev1.Secret, *corev1.Namespace, error) {
	var clusters infrav1.OLVMClusterList
	if err := o.List(ctx, &clusters); err != nil {
		return nil, nil, fmt.Errorf("failed to list the OLVMClusters: %w", err)
	}

	needed, others := false, false

	for i := range clusters.Items {
		c := &clusters.Items[i]
		others = others || c.Namespace == o.namespace
		needed = needed || keyOf(c.Namespace, &c.Spec.OLVMOvirtAPIServer.CredentialsSecret) == credentials
	}

	secret, namespace := &corev1.Secret{}, &corev1.Namespace{}
	if err := o.Get(ctx, credentials, secret); client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("failed to get Secret %s: %w", credentials, err)
	}

	if err := o.Get(ctx, client.ObjectKey{Name: o.namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("failed to get namespace %s: %w", o.namespace, err)
	}

	if secret.Labels[managedBy] != managedByValue || needed {
		secret = nil
	}

	if namespace.Labels[managedBy] != managedByValue || others {
		namespace = nil
	}

	return secret, namespace, nil
}

// keyOf is what a reference of an object in a namespace means.
func keyOf(namespace string, ref *infrav1.NamespacedName) client.ObjectKey {
	return client.ObjectKey{Namespace: cmp.Or(ref.Namespace, namespace), Name: ref.Name}
}
