package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/addon"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/bootstrapvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterctl"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/preview"
)

// OLVM is the infrastructure of an engine.
type OLVM struct {
	// Engine are the credentials for the engine. They replace those in the management cluster. They may be empty.
	// EngineFrom is the origin of Engine in messages.
	Engine     preview.Credentials
	EngineFrom string
	// StorageDriver are the credentials of the storage driver for the engine. They may be empty.
	StorageDriver Login
	// Image is a disk image to create a missing VM template from. It may be empty.
	Image string

	// loginChanges reports whether Engine differs from the credentials in the management cluster.
	loginChanges bool
	// driver is the storage driver, or nil.
	driver *addon.AddOn
}

// Login is a user of the engine.
type Login struct{ Username, Password string }

var _ Provider = &OLVM{}

func newOLVM(o ProviderOptions) (Provider, error) {
	out := &OLVM{Engine: o.Engine, EngineFrom: o.EngineFrom, StorageDriver: o.StorageDriver}
	if len(o.Images) > 1 {
		return nil, errors.New("--image: machines on OLVM share one template; specify one file")
	}

	if len(o.Images) == 1 {
		out.Image = o.Images[0]
	}

	return out, nil
}

// Components implements Provider.
func (*OLVM) Components() clusterctl.Infrastructure { return clusterctl.OLVM }

// FindImages implements Provider. The user says what is missing, so it only checks what a long upload would delay.
func (o *OLVM) FindImages(c *creation) []Step {
	return []Step{{
		name:  "Checking the storage driver",
		quiet: true,
		run:   func(context.Context) error { return o.checkStorageDriver(c) },
	}}
}

// ImageSteps implements Provider.
func (o *OLVM) ImageSteps(c *creation) []Step {
	return []Step{{
		name:   "Creating the template " + c.File.Providers.OLVM.ControlPlaneMachine.VMTemplateName,
		needed: func() bool { return o.Image != "" },
		run:    func(ctx context.Context) error { return o.makeTemplate(ctx, c) },
	}}
}

// ValidationSteps implements Provider. It does not check an existing cluster in the engine, because the cluster itself
// uses its addresses.
func (o *OLVM) ValidationSteps(c *creation) []Step {
	return []Step{
		{
			name:   "Comparing the credentials of the engine",
			quiet:  true,
			needed: func() bool { return c.exists },
			run:    func(ctx context.Context) error { return o.compareLogin(ctx, c) },
		},
		{
			name:   "Verifying the new credentials of the engine",
			needed: func() bool { return o.loginChanges },
			run:    func(ctx context.Context) error { return o.tryLogin(ctx, c) },
		},
		{
			name:   "Checking the engine",
			needed: func() bool { return !c.exists },
			run: func(ctx context.Context) error {
				return errors.Join(preview.CheckEngine(ctx, c.File.Objects, o.Engine)...)
			},
		},
		{
			name:   "Looking for machines of the cluster in the engine",
			quiet:  true,
			needed: func() bool { return !c.exists && c.management != nil },
			run:    func(ctx context.Context) error { return o.checkNotMade(ctx, c) },
		},
	}
}

// checkNotMade fails if the engine has machines of the cluster unknown to the management cluster. Another management
// cluster has created them, and the machines of both would use the same addresses.
func (o *OLVM) checkNotMade(ctx context.Context, c *creation) error {
	made, err := preview.FindVMOwners(ctx, c.File.Objects, o.Engine)
	if err != nil {
		return err
	}

	var others []string

	for _, one := range made {
		if c.management.Cluster != nil { // they may belong to another cluster in the namespace
			key := client.ObjectKey{Namespace: one.Namespace, Name: one.Name}
			err := c.management.Get(ctx, key, &infrav1.OLVMMachine{})
			if err == nil {
				continue
			}

			if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
				return fmt.Errorf("failed to get OLVMMachine %s: %w", key, err)
			}
		}

		others = append(others, one.Name)
	}

	if len(others) == 0 {
		return nil
	}

	remedy := "specify its management cluster with --kubeconfig"
	if c.management.local.Exists() {
		remedy += "; if this is the local one, run olvmctl local start, and use --driver " + mgmtcluster.DriverProcess
	}

	return fmt.Errorf("the engine already has machines of %s, created by another management cluster: %s; %s. If this "+
		"management cluster no longer exists, delete these VMs in the engine first", c.File.Name, joinNames(others),
		remedy)
}

// BootstrapOptions implements Provider.
func (o *OLVM) BootstrapOptions(c *creation) (bootstrapvm.Options, error) {
	if o.Engine.Username == "" {
		return bootstrapvm.Options{}, errNoLogin("--bootstrap vm")
	}

	config, err := o.engineConfig(c)

	return bootstrapvm.Options{
		Namespace: c.namespace(),
		Cluster:   c.File.Name,
		Manifests: c.File.Objects,
		Engine:    config,
	}, err
}

// errNoLogin reports missing credentials of the engine.
func errNoLogin(what string) error {
	return fmt.Errorf("%s: the credentials of the engine are missing; set OLVM_USERNAME and OLVM_PASSWORD, or use "+
		"--credentials", what)
}

// BuildManifests implements Provider.
func (*OLVM) BuildManifests(_ context.Context, c *creation) ([]*unstructured.Unstructured, error) {
	return c.File.Objects, nil
}

// WriteSecrets implements Provider.
func (o *OLVM) WriteSecrets(ctx context.Context, c *creation, labels map[string]string) error {
	key := o.secretKey(c)
	if err := c.makeNamespace(ctx, key.Namespace, labels); err != nil {
		return err
	}

	return o.writeLogin(ctx, c, key, labels)
}

// AddonSteps implements Provider.
func (o *OLVM) AddonSteps(c *creation) []Step {
	return []Step{
		{
			name:  "Looking for the credentials of the storage driver",
			quiet: true,
			run:   func(ctx context.Context) error { return o.findStorageDriver(ctx, c) },
		},
		{
			name:   "Installing " + storageDriverName,
			needed: func() bool { return o.driver != nil },
			run:    func(ctx context.Context) error { return c.installAddOn(ctx, *o.driver) },
		},
		{
			name:   "Installing load balancers for Services",
			needed: c.File.WantsLoadBalancers,
			run:    c.installLoadBalancers,
		},
	}
}

// DescribeRollouts implements Provider. It finds the replacements with the help of the engine.
func (*OLVM) DescribeRollouts(ctx context.Context, u *upgrade, owners []*owner) ([]string, error) {
	manifests, err := u.buildManifests(ctx, owners...)
	if err != nil {
		return nil, err
	}

	machines, all, err := manifests.Expand()
	if err != nil {
		return nil, err
	}

	var changes []string
	for _, change := range onlyReplacing(all) {
		changes = append(changes, change.String())
	}

	if len(changes) > 0 {
		err = u.askEngine(ctx, manifests, machines)
	}

	return changes, err
}

// DescribeRemaining implements Provider.
func (*OLVM) DescribeRemaining(ctx context.Context, u *upgrade, one *owner) (string, error) {
	manifests, err := u.buildManifests(ctx, one)
	if err != nil {
		return "", err
	}

	_, changes, err := manifests.Expand()
	if err != nil {
		return "", err
	}

	if left := onlyReplacing(changes); len(left) > 0 {
		return left[0].String(), nil
	}

	return "", nil
}

// ReleaseSteps implements Provider.
func (*OLVM) ReleaseSteps(*deletion) []Step { return nil }

// ListSecretObjects implements Provider. It returns the Secret with the credentials.
func (*OLVM) ListSecretObjects(
	ctx context.Context, in *mgmtcluster.Cluster, name string, cluster *clusterv1.Cluster,
) ([]client.Object, error) {
	key := client.ObjectKey{Namespace: in.Namespace, Name: clusterfile.CredentialsOf(name)}

	var all infrav1.OLVMClusterList
	if err := in.List(ctx, &all); meta.IsNoMatchError(err) {
		return nil, nil // there never was a cluster on OLVM
	} else if err != nil {
		return nil, fmt.Errorf("failed to list the OLVMClusters: %w", err)
	}

	own := slices.IndexFunc(all.Items, func(c infrav1.OLVMCluster) bool {
		return cluster != nil && c.Namespace == in.Namespace && c.Name == cluster.Spec.InfrastructureRef.Name
	})
	if own >= 0 && connection.GetIdentityName(connection.ClusterEngine(&all.Items[own])) != "" {
		return nil, nil // the administrator's
	}

	if own >= 0 {
		key = keyOf(in.Namespace, &all.Items[own].Spec.OLVMOvirtAPIServer.CredentialsSecret)
	}

	users, err := listUsers(ctx, in)
	if apierrors.IsForbidden(err) {
		return nil, nil // others may need it, too
	} else if err != nil {
		return nil, err
	}

	for _, one := range users {
		itself := own >= 0 && one.kind == "OLVMCluster" && one.namespace == in.Namespace &&
			one.object == all.Items[own].Name
		if one.uses == key && !itself {
			return nil, nil // others need it, too
		}
	}

	return findCreatedSecret(ctx, in, key)
}

// keyOf returns the key of a referenced object. The namespace is the default for the reference.
func keyOf(namespace string, ref *infrav1.NamespacedName) client.ObjectKey {
	return client.ObjectKey{Namespace: cmp.Or(ref.Namespace, namespace), Name: ref.Name}
}
