package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/oracle/oci-go-sdk/v65/core"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/addon"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/bootstrapvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/oci"
)

// OCI is the infrastructure of Oracle Cloud.
type OCI struct {
	// Files are disks by architecture: files, or references of container images. They are imported if the compartment
	// has no image for the architecture.
	Files map[string]string

	account *oci.Account
	cloud   *oci.Cloud
	// compartment is the OCID of the compartment. It is empty before findCompartment runs.
	compartment string
	// images are OCIDs by architecture. The OCID of a missing image is empty. unfinished are the images still being
	// imported by an interrupted Create.
	images     map[string]string
	unfinished map[string]*core.Image
}

var _ Provider = &OCI{}

func newOCI(o ProviderOptions) (Provider, error) {
	out := &OCI{Files: map[string]string{}}

	for _, text := range o.Images {
		architecture, file, ok := strings.Cut(text, "=")
		if !ok || architecture != oci.AMD64 && architecture != oci.ARM {
			return nil, fmt.Errorf("--image: %q has no architecture; use %s=FILE or %s=REFERENCE", text, oci.AMD64,
				oci.ARM)
		}

		out.Files[architecture] = file
	}

	return out, nil
}

// Components implements Provider.
func (*OCI) Components() clusterctl.Infrastructure { return clusterctl.OCI }

// settingsOfOCI returns the settings in the cluster file.
func settingsOfOCI(c *creation) clusterfile.OCI { return c.File.Providers.OCI }

// writtenImages returns the images in the cluster file by architecture.
func writtenImages(c *creation) map[string]string {
	images := settingsOfOCI(c).Images
	return map[string]string{oci.AMD64: images.AMD64, oci.ARM: images.ARM64}
}

// architecturesOf returns the architectures of the machines, in a fixed order.
func architecturesOf(c *creation) []string {
	o := settingsOfOCI(c)
	found := map[string]bool{
		oci.ArchitectureOf(o.ControlPlaneShape.Shape): true,
		oci.ArchitectureOf(o.WorkerShape.Shape):       true,
	}

	return slices.Sorted(maps.Keys(found))
}

// findCompartment finds the compartment.
func (o *OCI) findCompartment(ctx context.Context, c *creation) (err error) {
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

	found, err := o.cloud.FindCompartment(ctx, settings.Compartment)
	if err != nil {
		return fmt.Errorf("%s: providers.oci.compartment: %w", c.File.Path, err)
	}

	o.compartment = found

	return nil
}

// ValidationSteps implements Provider.
func (o *OCI) ValidationSteps(c *creation) []Step {
	return []Step{{
		name:   "Checking Oracle Cloud",
		needed: func() bool { return o.compartment == "" },
		run: func(ctx context.Context) error {
			if err := o.findCompartment(ctx, c); err != nil || c.exists {
				return err
			}

			return o.chooseImages(ctx, c)
		},
	}}
}

// BootstrapOptions implements Provider.
func (*OCI) BootstrapOptions(*creation) (bootstrapvm.Options, error) {
	return bootstrapvm.Options{}, errors.New("--bootstrap vm is supported only on OLVM; omit it: without " +
		"--kubeconfig, a local management cluster creates the cluster")
}

// BuildManifests implements Provider. Existing machines keep their images: a newer image needs a rollout.
func (o *OCI) BuildManifests(ctx context.Context, c *creation) ([]*unstructured.Unstructured, error) {
	if err := o.findCompartment(ctx, c); err != nil {
		return nil, err
	}

	if c.File.Objects != nil {
		return c.File.Objects, nil
	}

	facts := clusterfile.OCIFacts{Compartment: o.compartment}
	objects, err := c.File.OCIManifests(facts)
	if err != nil {
		return nil, err
	}

	if c.exists {
		if facts.ControlPlaneImage, facts.WorkerImage, err = findUsedImages(ctx, c, objects); err != nil {
			return nil, err
		}
	}

	// A cluster without machine templates is new, or its creation was interrupted before the templates existed. It has
	// no images yet.
	if o.images == nil && (facts.ControlPlaneImage == "" || facts.WorkerImage == "") {
		if err := o.chooseImages(ctx, c); err != nil {
			return nil, err
		}
	}

	settings := settingsOfOCI(c)
	facts.ControlPlaneImage = cmp.Or(facts.ControlPlaneImage,
		o.images[oci.ArchitectureOf(settings.ControlPlaneShape.Shape)])
	facts.WorkerImage = cmp.Or(facts.WorkerImage, o.images[oci.ArchitectureOf(settings.WorkerShape.Shape)])

	if objects, err = c.File.OCIManifests(facts); err != nil || !c.exists {
		return objects, err
	}

	return objects, checkImageIDs(objects)
}

// WriteSecrets implements Provider. It stores the API key if the cluster refers to a Secret.
func (o *OCI) WriteSecrets(ctx context.Context, c *creation, labels map[string]string) error {
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
		if secret.ResourceVersion == "" { // the user's own Secret does not go with the cluster
			secret.Labels = maps.Clone(labels)
			secret.Labels[clusterv1.ClusterNameLabel] = c.File.Name
		}

		// With this label, clusterctl moves the Secret with the cluster.
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
		return fmt.Errorf("failed to write the key for OCI to Secret %s: %w", key, err)
	}

	return nil
}

// AddonSteps implements Provider. It installs the cloud controller manager, because nodes stay tainted without it.
func (o *OCI) AddonSteps(c *creation) []Step {
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

			return c.installAddOn(ctx, addon.FromManifests("the cloud controller manager of OCI", objects))
		},
	}}
}

// controllerManager returns the settings of the cloud controller manager. The network is the network of the OCICluster,
// unless the cluster file names another one.
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
		return out, fmt.Errorf("OCICluster %s has no subnet with the role service-lb for the load balancers of "+
			"Services; set providers.oci.loadBalancer.subnet1", key)
	}

	return out, nil
}

// subnetsOfRole returns the OCIDs of the subnets with the given role in a network.
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

// newOCIObject returns an empty object of Cluster API Provider OCI.
func newOCIObject(kind string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(schema.GroupVersionKind{
		Group: clusterctl.InfrastructureGroup, Version: "v1beta2", Kind: kind,
	})

	return out
}

// ListSecretObjects implements Provider. It returns the Secret with the key, and its OCIClusterIdentity.
func (*OCI) ListSecretObjects(
	ctx context.Context, in *mgmtcluster.Cluster, name string, _ *clusterv1.Cluster,
) ([]client.Object, error) {
	key := client.ObjectKey{Namespace: in.Namespace, Name: clusterfile.OCICredentialsOf(name)}
	out, err := findCreatedSecret(ctx, in, key)
	if err != nil {
		return nil, err
	}

	identity := newOCIObject("OCIClusterIdentity")
	key.Name = name
	err = in.Get(ctx, key, identity)
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("failed to get OCIClusterIdentity %s: %w", key, err)
	}

	if err == nil && identity.GetLabels()[clusterv1.ClusterNameLabel] == name {
		out = append(out, identity)
	}

	return out, nil
}
