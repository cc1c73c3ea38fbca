package lifecycle

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/bootstrapvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
)

// Provider is an infrastructure. It implements the parts of all operations that depend on the infrastructure.
type Provider interface {
	// Components returns the Cluster API provider of the infrastructure.
	Components() clusterctl.Infrastructure
	// FindImages returns the steps to find the missing images for the machines of a cluster. EnsureImages returns the
	// steps to provide them.
	FindImages(c *creation) []Step
	ImageSteps(c *creation) []Step
	// ValidationSteps returns the steps to check the infrastructure before changing the management cluster.
	ValidationSteps(c *creation) []Step
	// BootstrapOptions returns the options of a bootstrap VM: the cluster it is for, and the connection to the
	// infrastructure.
	BootstrapOptions(c *creation) (bootstrapvm.Options, error)
	// BuildManifests returns the objects of the cluster.
	BuildManifests(ctx context.Context, c *creation) ([]*unstructured.Unstructured, error)
	// WriteSecrets stores the infrastructure's credentials in the management cluster. Delete recognizes these objects
	// by their labels.
	WriteSecrets(ctx context.Context, c *creation, labels map[string]string) error
	// AddonSteps returns the steps to install the infrastructure's add-ons in the cluster itself.
	AddonSteps(c *creation) []Step
	// DescribeRollouts describes the machines to be replaced because their owners change.
	DescribeRollouts(ctx context.Context, u *upgrade, owners []*owner) ([]string, error)
	// DescribeRemaining describes the remaining machines to replace for a changed owner, or returns "".
	DescribeRemaining(ctx context.Context, u *upgrade, one *owner) (string, error)
	// ReleaseSteps returns the steps to delete resources created in the infrastructure by the workload cluster, before
	// the deletion of the cluster.
	ReleaseSteps(d *deletion) []Step
	// ListSecretObjects returns the objects with the credentials of a cluster, except those needed by other clusters.
	// If the cluster is already deleted, cluster is nil, and name identifies it.
	ListSecretObjects(
		ctx context.Context, in *mgmtcluster.Cluster, name string, cluster *clusterv1.Cluster,
	) ([]client.Object, error)
}

// ProviderOptions are the options of an infrastructure outside the cluster file.
type ProviderOptions struct {
	// Engine are credentials of the engine. EngineFrom is the origin of Engine in messages.
	Engine     preview.Credentials
	EngineFrom string
	// StorageDriver are the storage driver's credentials for the engine.
	StorageDriver Login
	// Images are image files to import. Some infrastructures take ARCHITECTURE=FILE.
	Images []string
}

// NewProvider returns the infrastructure with the given name in cluster files.
func NewProvider(name string, o ProviderOptions) (Provider, error) {
	return map[string]func(ProviderOptions) (Provider, error){
		clusterfile.OLVMProvider: newOLVM,
		clusterfile.OCIProvider:  newOCI,
	}[name](o)
}

// RenderManifests returns the manifests of a cluster file. It may ask the infrastructure for some of their values.
func RenderManifests(
	ctx context.Context, file clusterfile.Loaded, from Provider,
) ([]*unstructured.Unstructured, error) {
	return from.BuildManifests(ctx, &creation{CreateOptions: CreateOptions{File: file, Provider: from}})
}

// CheckInfrastructure checks whether the infrastructure has everything named in a cluster file, and returns the
// problems.
func CheckInfrastructure(ctx context.Context, file clusterfile.Loaded, of Provider) []error {
	c := &creation{CreateOptions: CreateOptions{File: file, Provider: of}}
	c.Display = progress.NewDisplay(io.Discard)

	err := runSteps(ctx, c.Display, of.ValidationSteps(c))
	if several, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // errors.Join has made it
		return several.Unwrap()
	}

	if err != nil {
		return []error{err}
	}

	return nil
}

// findCreatedSecret returns a Secret created by Create. It returns nothing for a missing Secret, or for a Secret
// created by a user.
func findCreatedSecret(ctx context.Context, in *mgmtcluster.Cluster, key client.ObjectKey) ([]client.Object, error) {
	secret := &corev1.Secret{}
	if err := in.Get(ctx, key, secret); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to get Secret %s: %w", key, err)
	}

	if secret.Labels[managedBy] != managedByValue {
		return nil, nil
	}

	return []client.Object{secret}, nil
}

// knownProviders returns the providers for existing clusters.
func knownProviders() []Provider { return []Provider{&OLVM{}, &OCI{}} }

// providerOf returns the provider of a cluster. For an unknown kind, it returns the provider for OLVM.
func providerOf(cluster *clusterv1.Cluster) Provider {
	for _, one := range knownProviders() {
		if cluster != nil && cluster.Spec.InfrastructureRef.Kind == one.Components().ClusterKind {
			return one
		}
	}

	return &OLVM{}
}
