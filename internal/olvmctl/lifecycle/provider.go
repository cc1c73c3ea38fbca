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

// Provider is an infrastructure: what operations ask it for. All else is the same for all infrastructures.
type Provider interface {
	// Components is the provider of Cluster API that makes its clusters.
	Components() clusterctl.Infrastructure
	// EnsureImages are the steps that have the images which the machines of a new cluster start from.
	EnsureImages(c *creation) []Step
	// Validate are the steps that ask the infrastructure, before anything is made in the management cluster.
	Validate(c *creation) []Step
	// Bootstrap says which cluster a bootstrap VM is for, and how the infrastructure that it is made in is reached.
	Bootstrap(c *creation) (bootstrapvm.Options, error)
	// Manifests are the objects of the cluster.
	Manifests(ctx context.Context, c *creation) ([]*unstructured.Unstructured, error)
	// Secrets keeps the credentials of the infrastructure in the management cluster. Its objects have labels, by which
	// a Delete knows them.
	Secrets(ctx context.Context, c *creation, labels map[string]string) error
	// Addons are the steps that install what the infrastructure has in the cluster itself.
	Addons(c *creation) []Step
	// Rollouts are what owners of machines, as they are to be, replace, for people.
	Rollouts(ctx context.Context, u *upgrade, owners []*owner) ([]string, error)
	// Left is what an owner that was changed has still to replace, for people; empty for nothing.
	Left(ctx context.Context, u *upgrade, one *owner) (string, error)
	// Release are the steps that delete what a cluster has made in the infrastructure by itself, before it is deleted.
	Release(d *deletion) []Step
	// Kept is what Secrets has made for a cluster and no other cluster needs. cluster is nil where it is gone; then the
	// name says which it was.
	Kept(ctx context.Context, in *mgmtcluster.Cluster, name string, cluster *clusterv1.Cluster) ([]client.Object, error)
}

// ProviderOptions are what users say of an infrastructure beside the cluster file.
type ProviderOptions struct {
	// Engine are credentials of the engine, EngineFrom is where the user gave them.
	Engine     preview.Credentials
	EngineFrom string
	// StorageDriver are credentials of the engine for the storage driver.
	StorageDriver Login
	// Images are files to make images of; of some infrastructures as ARCHITECTURE=FILE.
	Images []string
}

// NewProvider is the infrastructure of that name, as cluster files have it.
func NewProvider(name string, o ProviderOptions) (Provider, error) {
	return map[string]func(ProviderOptions) (Provider, error){
		clusterfile.OLVMProvider: newOLVM,
		clusterfile.OCIProvider:  newOCI,
	}[name](o)
}

// Template are the manifests of a cluster file. The infrastructure may be asked for parts of them.
func Template(ctx context.Context, file clusterfile.Loaded, from Provider) ([]*unstructured.Unstructured, error) {
	return from.Manifests(ctx, &creation{CreateOptions: CreateOptions{File: file, Provider: from}})
}

// Ask asks the infrastructure whether all is there that a cluster file names, and returns what is wrong.
func Ask(ctx context.Context, file clusterfile.Loaded, of Provider) []error {
	c := &creation{CreateOptions: CreateOptions{File: file, Provider: of}}
	c.Display = progress.To(io.Discard)

	err := runSteps(ctx, c.Display, of.Validate(c))
	if several, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // errors.Join has made it
		return several.Unwrap()
	}

	if err != nil {
		return []error{err}
	}

	return nil
}

// keptSecret is a Secret that Create has made; empty where there is none, or a user has made it.
func keptSecret(ctx context.Context, in *mgmtcluster.Cluster, key client.ObjectKey) ([]client.Object, error) {
	secret := &corev1.Secret{}
	if err := in.Get(ctx, key, secret); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to get Secret %s: %w", key, err)
	}

	if secret.Labels[managedBy] != managedByValue {
		return nil, nil
	}

	return []client.Object{secret}, nil
}

// providers are those of running clusters.
func providers() []Provider { return []Provider{&OLVM{}, &OCI{}} }

// providerOf is the provider of a cluster; that of OLVM where there is none for its kind.
func providerOf(cluster *clusterv1.Cluster) Provider {
	for _, one := range providers() {
		if cluster != nil && cluster.Spec.InfrastructureRef.Kind == one.Components().ClusterKind {
			return one
		}
	}

	return &OLVM{}
}
