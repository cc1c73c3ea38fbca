package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

// This file lists the objects deleted with a cluster, and the objects kept because others need them.

// shownRemains is the maximum number of objects listed in one line.
const shownRemains = 5

// confirmDeletion asks the user to confirm a deletion.
func (d *deletion) confirmDeletion(ctx context.Context) error {
	if d.hasOnlyVM() {
		return d.Confirm(fmt.Sprintf(
			"Only the bootstrap VM of cluster %s in namespace %s remains: VM %s with its disk in the engine %s, "+
				"which is the management cluster at %s.\nDelete this VM? Type the name of the cluster to confirm: ",
			d.Name, d.vm.Namespace, d.vm.Name(), d.vm.URL, d.vm.Address()), d.Name)
	}

	where := fmt.Sprintf("in namespace %s of %s", d.management.Namespace, d.management.DescribeLocation())

	if !d.exists() {
		lines, err := d.describeRemains(ctx)
		if err != nil {
			return err
		}

		return d.Confirm(fmt.Sprintf("Cluster %s %s no longer exists. Delete its remaining objects?\n%sType the "+
			"name of the cluster to confirm: ", d.Name, where, lines), d.Name)
	}

	if err := d.findKept(ctx); err != nil {
		return err
	}

	lines, err := d.describeMachines(ctx)
	if err != nil {
		return err
	}

	rest, err := d.describeRemains(ctx)
	if err != nil {
		return err
	}

	if d.managesItself {
		other := "the local management cluster of this machine"
		if !d.to.isLocal {
			other = d.to.options.Kubeconfig
		}

		rest += fmt.Sprintf("The cluster manages itself. Its objects will first be moved to another management "+
			"cluster: %s.\n", other)
	}

	if d.vm != nil {
		rest = fmt.Sprintf("  bootstrap VM %s with its disk\n", d.vm.Name()) + rest
	}

	return d.Confirm(fmt.Sprintf("Delete cluster %s %s? This permanently deletes:\n%s%sType the name of the "+
		"cluster to confirm: ", d.Name, where, lines, rest), d.Name)
}

// describeMachines lists the machines to delete, with their VMs and disks.
func (d *deletion) describeMachines(ctx context.Context) (string, error) {
	var machines clusterv1.MachineList
	of := []client.ListOption{
		client.InNamespace(d.management.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: d.Name},
	}
	if err := d.management.List(ctx, &machines, of...); err != nil {
		return "", fmt.Errorf("failed to list the machines: %w", err)
	}

	var ours infrav1.OLVMMachineList
	if err := d.management.List(ctx, &ours, of...); err != nil && !meta.IsNoMatchError(err) {
		return "", fmt.Errorf("failed to list the OLVMMachines: %w", err)
	}

	vms, disks, back := 0, 0, 0

	for i := range ours.Items {
		spec := &ours.Items[i].Spec
		if spec.FromInventory != nil {
			back++
			continue
		}

		vms, disks = vms+1, disks+1+len(spec.VirtualMachine.DataDisks)
	}

	var names []string
	for i := range machines.Items {
		names = append(names, machines.Items[i].Name)
	}

	line := "  " + english.Plural(len(names), "machine", "")
	if len(ours.Items) > 0 || d.provider.Components().Name == (&OLVM{}).Components().Name {
		line += fmt.Sprintf(" with %s and %s", english.Plural(vms, "VM", ""), english.Plural(disks, "disk", ""))
	}

	if len(names) > 0 {
		line += ": " + joinNames(names)
	}

	if back > 0 {
		line += fmt.Sprintf("\n  (kept: %s to an inventory)", english.Plural(back, "VM returns", "VMs return"))
	}

	return line + "\n", nil
}

// describeRemains lists the other objects to delete, and the objects to keep.
func (d *deletion) describeRemains(ctx context.Context) (string, error) {
	var lines strings.Builder
	for _, object := range d.kept {
		fmt.Fprintf(&lines, "  %s\n", nameOf(object))
	}

	if d.managesItself || d.interrupted { // its namespace goes with it
		return lines.String(), nil
	}

	namespace, stays, err := d.findNamespaceToDelete(ctx)
	switch {
	case err != nil:
		return "", err
	case namespace != nil:
		fmt.Fprintf(&lines, "  namespace %s\n", namespace.Name)
	case len(stays) > 0:
		fmt.Fprintf(&lines, "  (kept: namespace %s, which contains %s)\n", d.management.Namespace, joinNames(stays))
	}

	return lines.String(), nil
}

// joinNames joins the first names of a list.
func joinNames(names []string) string {
	out := strings.Join(names[:min(len(names), shownRemains)], ", ")
	if more := len(names) - shownRemains; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}

	return out
}

// findEmptyNamespace returns the namespace of the cluster if Create has created it and it has no foreign objects.
// Otherwise it returns nil.
func (d *deletion) findEmptyNamespace(ctx context.Context) (*corev1.Namespace, error) {
	namespace, stays, err := d.findNamespaceToDelete(ctx)
	if len(stays) > 0 {
		d.Display.PrintLine("kept namespace %s: it contains %s", d.management.Namespace, joinNames(stays))
	}

	return namespace, err
}

// findNamespaceToDelete returns the namespace of the cluster if Create has created it. If the namespace has foreign
// objects, it returns nil and their names.
func (d *deletion) findNamespaceToDelete(ctx context.Context) (_ *corev1.Namespace, stays []string, err error) {
	in := d.management
	namespace := &corev1.Namespace{}
	if err := in.Get(ctx, client.ObjectKey{Name: in.Namespace}, namespace); err != nil {
		if client.IgnoreNotFound(err) != nil {
			err = fmt.Errorf("failed to get namespace %s: %w", in.Namespace, err)
		}

		return nil, nil, client.IgnoreNotFound(err)
	}

	if namespace.Labels[managedBy] != managedByValue {
		return nil, nil, nil
	}

	contents, err := in.ListContents(ctx, in.Namespace)
	if err != nil {
		return staysUnknown(ctx, err)
	}

	for i := range contents {
		if object := &contents[i]; !d.isOwn(object) {
			stays = append(stays, object.Kind+" "+object.Name)
		}
	}

	users, err := listUsers(ctx, in.Cluster)
	if err != nil {
		return staysUnknown(ctx, err)
	}

	for _, one := range users {
		if one.namespace != in.Namespace && one.uses.Namespace == in.Namespace {
			stays = append(stays, fmt.Sprintf("%s, used by %s", one.uses.Name, one.name))
		}
	}

	if len(stays) > 0 {
		slices.Sort(stays)
		return nil, slices.Compact(stays), nil
	}

	return namespace, nil, nil
}

// staysUnknown returns no namespace to delete, because its content is unknown. The cluster can still be deleted. For
// example, an API is unavailable if the add-on serving it in the management cluster is down.
func staysUnknown(ctx context.Context, err error) (*corev1.Namespace, []string, error) {
	switch {
	case ctx.Err() != nil:
		return nil, nil, err
	case apierrors.IsForbidden(err):
		return nil, []string{"objects that this user may not list"}, nil
	}

	return nil, []string{fmt.Sprintf("objects that cannot be listed: %v", err)}, nil
}

// isOwn reports whether an object of the namespace belongs to the cluster. It does if Kubernetes, the cluster or Create
// has created it. Objects with their own VMs never belong to the cluster.
func (d *deletion) isOwn(object *metav1.PartialObjectMetadata) bool {
	if object.Kind == "OLVMInventory" || object.Kind == "OLVMInventoryVM" {
		return false
	}

	if object.Kind == "Cluster" && object.GroupVersionKind().Group == clusterv1.GroupVersion.Group {
		return object.Name == d.Name
	}

	if object.Labels[clusterv1.ClusterNameLabel] == d.Name {
		return true
	}

	for _, kept := range d.kept {
		if kind := cmp.Or(kept.GetObjectKind().GroupVersionKind().Kind, "Secret"); kind == object.Kind &&
			kept.GetName() == object.Name {
			return true
		}
	}

	for i := range object.OwnerReferences {
		if d.management.IsNamespaced(&object.OwnerReferences[i]) {
			return true // it goes with its owner, and the owner is checked itself
		}
	}

	return slices.ContainsFunc(object.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == string(manifest.FieldOwner) && f.Operation == metav1.ManagedFieldsOperationApply
	})
}

// user is an object that refers to a Secret or a ConfigMap of the engine.
type user struct {
	// name and namespace are for messages. namespace is "" for cluster-scoped objects.
	name, namespace string
	// kind and object identify the object. uses is the key of the Secret or ConfigMap.
	kind, object string
	uses         client.ObjectKey
}

// listUsers returns all objects of a management cluster that refer to a Secret or a ConfigMap of an engine.
func listUsers(ctx context.Context, in *mgmtcluster.Cluster) ([]user, error) {
	var out []user

	add := func(kind, namespace, name string, server *infrav1.OvirtAPIServer) {
		one := user{
			name: fmt.Sprintf("%s %s/%s", kind, namespace, name), namespace: namespace, kind: kind, object: name,
			uses: keyOf(namespace, &server.CredentialsSecret),
		}
		if server.CredentialsSecret.Name != "" {
			out = append(out, one)
		}

		if server.CAConfigMap != nil {
			one.uses = keyOf(namespace, server.CAConfigMap)
			out = append(out, one)
		}
	}

	var clusters infrav1.OLVMClusterList
	var inventories infrav1alpha1.OLVMInventoryList
	var identities infrav1alpha1.OLVMClusterIdentityList

	for _, list := range []client.ObjectList{&clusters, &inventories, &identities} {
		if err := in.List(ctx, list); err != nil && !meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("failed to list the users of Secrets: %w", err)
		}
	}

	for i := range clusters.Items {
		c := &clusters.Items[i]
		add("OLVMCluster", c.Namespace, c.Name, &c.Spec.OLVMOvirtAPIServer)
	}

	for i := range inventories.Items {
		c := &inventories.Items[i]
		add("OLVMInventory", c.Namespace, c.Name, &c.Spec.OLVMOvirtAPIServer)
	}

	for i := range identities.Items {
		spec := &identities.Items[i].Spec
		one := user{
			name: "OLVMClusterIdentity " + identities.Items[i].Name, kind: "OLVMClusterIdentity",
			uses: client.ObjectKey(spec.CredentialsSecret),
		}
		out = append(out, one)

		if spec.CAConfigMap != nil {
			one.uses = client.ObjectKey(*spec.CAConfigMap)
			out = append(out, one)
		}
	}

	return out, nil
}
