package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capolvm/cluster-api-provider-olvm/internal/addon"
	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/oci"
	"github.com/capolvm/cluster-api-provider-olvm/internal/progress"
)

// OCI is the infrastructure of Oracle Cloud.
type OCI struct {
	// Files are disks to import, by architecture, where the compartment has no image for it.
	Files map[string]string

	account *oci.Account
	cloud   *oci.Cloud
	// compartment is its OCID; empty before look.
	compartment string
	// images are OCIDs by architecture; empty where there is none yet.
	images map[string]string
}

var _ Provider = &OCI{}

func newOCI(o ProviderOptions) (Provider, error) {
	out := &OCI{Files: map[string]string{}}

	for _, text := range o.Images {
		architecture, file, ok := strings.Cut(text, "=")
		if !ok || architecture != oci.AMD64 && architecture != oci.ARM {
			return nil, fmt.Errorf("--image: %q says no architecture; write %s=FILE or %s=FILE", text, oci.AMD64,
				oci.ARM)
		}

		out.Files[architecture] = file
	}

	return out, nil
}

// Components implements Provider.
func (*OCI) Components() clusterctl.Infrastructure { return clusterctl.OCI }

// settings of the cluster file.
func settingsOfOCI(c *creation) clusterfile.OCI { return c.File.Providers.OCI }

// architectures are those of the machines, in their order.
func architecturesOf(c *creation) []string {
	o := settingsOfOCI(c)
	found := map[string]bool{
		oci.ArchitectureOf(o.ControlPlaneShape.Shape): true,
		oci.ArchitectureOf(o.WorkerShape.Shape):       true,
	}

	return slices.Sorted(maps.Keys(found))
}

// look finds the compartment.
func (o *OCI) look(ctx context.Context, c *creation) (err error) {
	if o.compartment != "" {
		return nil
	}

	settings := settingsOfOCI(c)
	read := oci.InstanceAccount
	if settings.Principal != clusterfile.InstancePrincipal {
		read = func() (*oci.Account, error) { return oci.ReadAccount(settings.Profile) }
	}

	if o.account, err = read(); err != nil {
		return err
	}

	if o.cloud, err = oci.Connect(o.account, oci.Endpoints(settings.Endpoints)); err != nil {
		return err
	}

	found, err := o.cloud.Compartment(ctx, settings.Compartment)
	if err != nil {
		return fmt.Errorf("%s: providers.oci.compartment: %w", c.File.Path, err)
	}

	o.compartment = found

	return nil
}

// wanted is the image for an architecture.
func (o *OCI) wanted(c *creation, architecture string) oci.Wanted {
	return oci.Wanted{Compartment: o.compartment, Architecture: architecture, Kubernetes: c.File.OCIKubernetes()}
}

// findImages finds the images of the machines: those of the cluster file, or the newest of the compartment. One that is
// still being imported counts as missing.
func (o *OCI) findImages(ctx context.Context, c *creation) error {
	written := settingsOfOCI(c).Images
	o.images = map[string]string{}

	for _, architecture := range architecturesOf(c) {
		id := map[string]string{oci.AMD64: written.AMD64, oci.ARM: written.ARM64}[architecture]
		if id == "" {
			found, err := o.cloud.FindImage(ctx, o.wanted(c, architecture))
			if err != nil {
				return err
			}

			if found != nil {
				id = *found.Id
			}
		}

		o.images[architecture] = id
	}

	return nil
}

// checkImages says which images are missing, and have no file to make them of.
func (o *OCI) checkImages(c *creation) error {
	var problems []error

	for _, architecture := range architecturesOf(c) {
		file := o.Files[architecture]

		switch {
		case o.images[architecture] != "":
		case file != "":
			problems = append(problems, oci.Import{Wanted: o.wanted(c, architecture), File: file}.CheckFile())
		default:
			problems = append(problems, fmt.Errorf("compartment %s does not have %s; give a disk with --image "+
				"%s=FILE, or write providers.oci.images.%[3]s", settingsOfOCI(c).Compartment, o.wanted(c, architecture),
				architecture))
		}
	}

	return errors.Join(problems...)
}

// imagesFor finds the images of a new cluster, and says what is wrong with them. Manifests that the cluster file has
// itself name theirs.
func (o *OCI) imagesFor(ctx context.Context, c *creation) error {
	if c.File.Objects != nil {
		return checkImageIDs(c.File.Objects)
	}

	if err := o.findImages(ctx, c); err != nil {
		return err
	}

	return o.checkImages(c)
}

// checkImageIDs says which templates of machines name no image.
func checkImageIDs(objects []*unstructured.Unstructured) error {
	var problems []error

	for _, object := range objects {
		if object.GetKind() != "OCIMachineTemplate" {
			continue
		}

		id, _, _ := unstructured.NestedString(object.Object, "spec", "template", "spec", "imageId")
		if !strings.HasPrefix(id, "ocid1.image") {
			problems = append(problems, fmt.Errorf("OCIMachineTemplate %s: spec.template.spec.imageId is %q, which is "+
				"no OCID of an image", object.GetName(), id))
		}
	}

	return errors.Join(problems...)
}

// EnsureImages implements Provider. Nothing is written before all that is missing is known.
func (o *OCI) EnsureImages(c *creation) []Step {
	out := []Step{{name: "Asking Oracle Cloud", run: func(ctx context.Context) error {
		if err := o.look(ctx, c); err != nil {
			return err
		}

		return o.imagesFor(ctx, c)
	}}}

	if c.File.Objects != nil {
		return out // they name their images
	}

	for _, architecture := range architecturesOf(c) {
		out = append(out, Step{
			name:   "Importing the image for " + architecture,
			needed: func() bool { return o.images[architecture] == "" },
			run:    func(ctx context.Context) error { return o.importImage(ctx, c, architecture) },
		}, Step{
			name:  "Looking whether the image for " + architecture + " can be used",
			quiet: true,
			run:   func(ctx context.Context) error { return o.finishImage(ctx, c, architecture) },
		})
	}

	return out
}

// importImage makes the image for an architecture of its file.
func (o *OCI) importImage(ctx context.Context, c *creation, architecture string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()

	file := o.Files[architecture]
	o.images[architecture], err = o.cloud.ImportImage(ctx, oci.Import{
		Wanted:   o.wanted(c, architecture),
		File:     file,
		Bucket:   settingsOfOCI(c).ImageBucket,
		Uploaded: progress.Transfer(c.Display, "uploading "+file),
		Imported: sayPercents(c.Display, "importing "+file),
	})

	return err
}

// finishImage ends the import of an image that an earlier Create has begun.
func (o *OCI) finishImage(ctx context.Context, c *creation, architecture string) error {
	found, err := o.cloud.FindImage(ctx, o.wanted(c, architecture))
	if err != nil || found == nil || *found.Id != o.images[architecture] || !oci.Unfinished(found) {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()

	return o.cloud.FinishImage(ctx, found, sayPercents(c.Display, "image "+*found.Id+" is being imported"))
}

// sayPercents says each percentage once.
func sayPercents(display *progress.Display, what string) func(percent int) {
	said := -1

	return func(percent int) {
		if percent != said {
			display.Say("%s: %d %%", what, percent)
		}

		said = percent
	}
}

// Validate implements Provider.
func (o *OCI) Validate(c *creation) []Step {
	return []Step{{
		name:   "Asking Oracle Cloud",
		needed: func() bool { return o.compartment == "" },
		run: func(ctx context.Context) error {
			if err := o.look(ctx, c); err != nil || c.exists {
				return err
			}

			return o.imagesFor(ctx, c)
		},
	}}
}

// Manifests implements Provider. Machines that are there keep their images: a newer one is for a rollout.
func (o *OCI) Manifests(ctx context.Context, c *creation) ([]*unstructured.Unstructured, error) {
	if err := o.look(ctx, c); err != nil {
		return nil, err
	}

	if c.File.Objects != nil {
		return c.File.Objects, nil
	}

	if o.images == nil && !c.exists {
		if err := o.imagesFor(ctx, c); err != nil {
			return nil, err
		}
	}

	settings := settingsOfOCI(c)
	facts := clusterfile.OCIFacts{
		Compartment:       o.compartment,
		ControlPlaneImage: o.images[oci.ArchitectureOf(settings.ControlPlaneShape.Shape)],
		WorkerImage:       o.images[oci.ArchitectureOf(settings.WorkerShape.Shape)],
	}
	objects, err := c.File.OCIManifests(facts)
	if err != nil || !c.exists {
		return objects, err
	}

	if facts.ControlPlaneImage, facts.WorkerImage, err = imagesInUse(ctx, c, objects); err != nil {
		return nil, err
	}

	// What was interrupted before the machines had templates has none yet.
	if facts.ControlPlaneImage == "" || facts.WorkerImage == "" {
		if err := o.imagesFor(ctx, c); err != nil {
			return nil, err
		}

		facts.ControlPlaneImage = cmp.Or(facts.ControlPlaneImage,
			o.images[oci.ArchitectureOf(settings.ControlPlaneShape.Shape)])
		facts.WorkerImage = cmp.Or(facts.WorkerImage, o.images[oci.ArchitectureOf(settings.WorkerShape.Shape)])
	}

	if objects, err = c.File.OCIManifests(facts); err != nil {
		return nil, err
	}

	return objects, checkImageIDs(objects)
}

// imagesInUse are the images of the control plane's machines and of workers in the management cluster; empty where
// there are none yet.
func imagesInUse(
	ctx context.Context, c *creation, objects []*unstructured.Unstructured,
) (controlPlane, workers string, err error) {
	written := settingsOfOCI(c).Images
	byArchitecture := map[string]string{oci.AMD64: written.AMD64, oci.ARM: written.ARM64}
	used := map[string]string{}

	for _, object := range objects {
		if version, _ := machineFields(object.GetKind()); version == nil {
			continue
		}

		live := object.DeepCopy()
		err := c.management.Get(ctx, client.ObjectKeyFromObject(object), live)
		if client.IgnoreNotFound(err) != nil {
			return "", "", fmt.Errorf("failed to get %s %s: %w", object.GetKind(), object.GetName(), err)
		}

		if err != nil {
			continue
		}

		template, err := templateOf(ctx, c.management.Cluster, live)
		if apierrors.IsNotFound(err) {
			continue
		}

		if err != nil {
			return "", "", err
		}

		used[object.GetKind()], _, _ = unstructured.NestedString(template.Object, "spec", "template", "spec", "imageId")
	}

	o := settingsOfOCI(c)
	controlPlane = cmp.Or(byArchitecture[oci.ArchitectureOf(o.ControlPlaneShape.Shape)], used["KubeadmControlPlane"])
	workers = cmp.Or(byArchitecture[oci.ArchitectureOf(o.WorkerShape.Shape)], used["MachineDeployment"])

	return controlPlane, workers, nil
}

// Secrets implements Provider. The key is kept where the cluster names it.
func (o *OCI) Secrets(ctx context.Context, c *creation, labels map[string]string) error {
	key := client.ObjectKey{Namespace: c.namespace(), Name: clusterfile.OCICredentialsOf(c.File.Name)}
	if o.account.Key == "" || !slices.ContainsFunc(c.objects, func(object *unstructured.Unstructured) bool {
		kind, _, _ := unstructured.NestedString(object.Object, "spec", "type")
		name, _, _ := unstructured.NestedString(object.Object, "spec", "principalSecret", "name")

		return object.GetKind() == "OCIClusterIdentity" && kind == "UserPrincipal" && name == key.Name
	}) {
		return nil
	}

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	_, err := controllerutil.CreateOrPatch(ctx, c.management.Client, secret, func() error {
		if secret.ResourceVersion == "" { // that of a user stays the user's
			secret.Labels = maps.Clone(labels)
			secret.Labels[clusterv1.ClusterNameLabel] = c.File.Name
		}

		// clusterctl moves it with the cluster.
		metav1.SetMetaDataLabel(&secret.ObjectMeta, clusterctlv1.ClusterctlMoveLabel, "")
		secret.Data = map[string][]byte{
			"tenancy":     []byte(o.account.Tenancy),
			"user":        []byte(o.account.User),
			"fingerprint": []byte(o.account.Fingerprint),
			"key":         []byte(o.account.Key),
			"region":      []byte(o.account.Region),
		}

		return nil
	})
	if err != nil {
		return fmt.Errorf("failed to keep the key for OCI in Secret %s: %w", key, err)
	}

	return nil
}

// Addons implements Provider: the cloud controller manager, without which nodes stay tainted.
func (o *OCI) Addons(c *creation) []Step {
	return []Step{{
		name: "Installing the cloud controller manager of OCI",
		run: func(ctx context.Context) error {
			told, err := o.controllerManager(ctx, c)
			if err != nil {
				return err
			}

			objects, err := told.Manifests()
			if err != nil {
				return err
			}

			return c.install(ctx, addon.Of("the cloud controller manager of OCI", objects))
		},
	}}
}

// controllerManager is what it is told: the network of the OCICluster, unless the cluster file names another.
func (o *OCI) controllerManager(ctx context.Context, c *creation) (oci.ControllerManager, error) {
	settings := settingsOfOCI(c)
	out := oci.ControllerManager{
		Kubernetes:  c.File.Version(),
		Region:      o.account.Region,
		Compartment: o.compartment,
		VCN:         settings.VCN,
	}

	for _, subnet := range []string{settings.LoadBalancer.Subnet1, settings.LoadBalancer.Subnet2} {
		if subnet != "" {
			out.Subnets = append(out.Subnets, subnet)
		}
	}

	cluster := newOCIObject("OCICluster")
	key := client.ObjectKey{Namespace: c.namespace(), Name: c.File.Name}
	if err := c.management.Get(ctx, key, cluster); err != nil {
		return out, fmt.Errorf("failed to get OCICluster %s: %w", key, err)
	}

	vcn, _, _ := unstructured.NestedMap(cluster.Object, "spec", "networkSpec", "vcn")
	if id, ok := vcn["id"].(string); ok {
		out.VCN = cmp.Or(out.VCN, id)
	}

	if len(out.Subnets) == 0 {
		out.Subnets = subnetsOfRole(vcn, "service-lb")
	}

	if out.VCN == "" || len(out.Subnets) == 0 {
		return out, fmt.Errorf("OCICluster %s has no subnet with the role service-lb, in which load balancers of "+
			"Services are made; name one in providers.oci.loadBalancer.subnet1", key)
	}

	return out, nil
}

// subnetsOfRole are the OCIDs of the subnets of a network that have a role.
func subnetsOfRole(vcn map[string]any, role string) []string {
	var out []string
	list, _, _ := unstructured.NestedSlice(vcn, "subnets")

	for _, entry := range list {
		subnet, _ := entry.(map[string]any)
		if id, ok := subnet["id"].(string); ok && subnet["role"] == role {
			out = append(out, id)
		}
	}

	return out
}

// newOCIObject is an empty object of Cluster API Provider OCI.
func newOCIObject(kind string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(schema.GroupVersionKind{
		Group: clusterctl.InfrastructureGroup, Version: "v1beta2", Kind: kind,
	})

	return out
}

// Rollouts implements Provider. Cluster API replaces the machines of owners that ask for another version or template.
func (*OCI) Rollouts(_ context.Context, u *upgrade, owners []*owner) ([]string, error) {
	changes := slices.ContainsFunc(owners, func(one *owner) bool { return len(one.patch) > 0 })
	if changes && u.Version != "" && u.File == nil && u.VMTemplate == "" {
		return nil, fmt.Errorf("--kubernetes-version: machines of %s need another image, too; give its OCID with "+
			"--vm-template, or a cluster file", u.Version)
	}

	var out []string

	for _, one := range owners {
		if len(one.patch) == 0 {
			continue
		}

		version, reference := machineFields(one.object.GetKind())
		asked, _, _ := unstructured.NestedString(one.object.Object, version...)
		template, _, _ := unstructured.NestedString(one.object.Object, append(slices.Clone(reference), "name")...)
		out = append(out, fmt.Sprintf("%s: all its machines are replaced, with version %s and OCIMachineTemplate %s",
			one.name, asked, template))
	}

	return out, nil
}

// Left implements Provider: the machines of an owner that do not have its version, or its template.
func (*OCI) Left(ctx context.Context, u *upgrade, one *owner) (string, error) {
	var machines clusterv1.MachineList
	err := u.List(ctx, &machines, client.InNamespace(u.Namespace), client.MatchingLabels{
		clusterv1.ClusterNameLabel: u.Name,
	})
	if err != nil {
		return "", fmt.Errorf("failed to list the Machines: %w", err)
	}

	version, reference := machineFields(one.object.GetKind())
	asked, _, _ := unstructured.NestedString(one.object.Object, version...)
	template, _, _ := unstructured.NestedString(one.object.Object, append(slices.Clone(reference), "name")...)

	for i := range machines.Items {
		machine := &machines.Items[i]
		if !ownedBy(machine, one.object) {
			continue
		}

		made := newOCIObject("OCIMachine")
		key := client.ObjectKey{Namespace: u.Namespace, Name: machine.Spec.InfrastructureRef.Name}
		if err := u.Get(ctx, key, made); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("failed to get OCIMachine %s: %w", key, err)
		}

		from := made.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation]
		if machine.Spec.Version != asked || from != template {
			return fmt.Sprintf("Machine %s has version %s and OCIMachineTemplate %s", machine.Name,
				machine.Spec.Version, from), nil
		}
	}

	return "", nil
}

// ownedBy reports whether a machine is of a control plane or a MachineDeployment.
func ownedBy(machine *clusterv1.Machine, owner *unstructured.Unstructured) bool {
	_, control := machine.Labels[clusterv1.MachineControlPlaneLabel]

	return control && owner.GetKind() == "KubeadmControlPlane" ||
		machine.Labels[clusterv1.MachineDeploymentNameLabel] == owner.GetName()
}

// Release implements Provider: load balancers of Services. They are in the network of the cluster, which could not be
// deleted, and nothing removes them once the nodes are gone.
func (*OCI) Release(d *deletion) []Step {
	return []Step{{
		name: "Deleting the load balancers of Services",
		run: func(ctx context.Context) error {
			workload, err := d.workload(ctx)
			if err != nil {
				d.Display.Say("the cluster is not asked for its Services: %v", err)
				return nil
			}

			err = deleteBalancers(ctx, d, workload)
			if err != nil && ctx.Err() == nil {
				d.Display.Say("load balancers may be left, which keep the network from being deleted: %v", err)
				return nil
			}

			return err
		},
	}}
}

// deleteBalancers deletes the Services with load balancers, and waits until these are gone.
func deleteBalancers(ctx context.Context, d *deletion, workload client.Client) error {
	return d.Display.Wait(ctx, min(d.Timeout, releaseLimit), func(ctx context.Context) error {
		var services corev1.ServiceList
		if err := workload.List(ctx, &services); err != nil {
			return fmt.Errorf("failed to list the Services: %w", err)
		}

		var left []string

		for i := range services.Items {
			service := &services.Items[i]
			if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
				continue
			}

			left = append(left, client.ObjectKeyFromObject(service).String())
			if err := workload.Delete(ctx, service); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("failed to delete Service %s: %w", left[len(left)-1], err)
			}
		}

		if len(left) > 0 {
			return fmt.Errorf("the load balancers of these Services are being deleted: %s", strings.Join(left, ", "))
		}

		return nil
	})
}

// releaseLimit bounds how long load balancers of Services are waited for.
const releaseLimit = 5 * time.Minute

// Kept implements Provider: the Secret with the key, and the OCIClusterIdentity that names it.
func (*OCI) Kept(
	ctx context.Context, in *mgmtcluster.Cluster, name string, _ *clusterv1.Cluster,
) ([]client.Object, error) {
	var out []client.Object

	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: in.Namespace, Name: clusterfile.OCICredentialsOf(name)}
	if err := in.Get(ctx, key, secret); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to get Secret %s: %w", key, err)
	}

	if secret.Labels[managedBy] == managedByValue {
		out = append(out, secret)
	}

	identity := newOCIObject("OCIClusterIdentity")
	key.Name = name
	err := in.Get(ctx, key, identity)
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("failed to get OCIClusterIdentity %s: %w", key, err)
	}

	if err == nil && identity.GetLabels()[clusterv1.ClusterNameLabel] == name {
		out = append(out, identity)
	}

	return out, nil
}
