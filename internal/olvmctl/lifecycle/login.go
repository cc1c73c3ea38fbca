package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/attempt"
	"github.com/capolvm/cluster-api-provider-olvm/internal/blocker"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/desired"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localroot"
)

const (
	// apiScope is the scope of the engine's tokens.
	apiScope = "ovirt-app-api"
	// cloudInitOS is the operating system of templates for images with cloud-init.
	cloudInitOS = "other_linux"
)

// secretKey returns the key of the Secret with the engine's credentials.
func (*OLVM) secretKey(c *creation) client.ObjectKey {
	ref := c.File.Providers.OLVM.OvirtAPIServer.CredentialsSecret
	return client.ObjectKey{Namespace: cmp.Or(ref.Namespace, c.namespace()), Name: ref.Name}
}

// compareLogin compares the given credentials with those in the Secret. Wrong credentials must not replace the stored
// ones, because Cluster API and the storage driver could no longer log in.
func (o *OLVM) compareLogin(ctx context.Context, c *creation) error {
	if o.Engine.Username == "" {
		return nil
	}

	var secret corev1.Secret
	if err := c.management.Get(ctx, o.secretKey(c), &secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("failed to get the credentials of the engine: %w", err)
	}

	username, password := connection.GetLogin(&secret)
	o.loginChanges = username != o.Engine.Username || password != o.Engine.Password

	return nil
}

// tryLogin logs in with the given credentials. It makes one attempt, because engines lock users out after some
// failures.
func (o *OLVM) tryLogin(ctx context.Context, c *creation) error {
	config, err := o.engineConfig(c)
	if err != nil {
		return err
	}

	if len(config.CA) == 0 && !config.Insecure { // the management cluster may have it
		if config.CA, err = o.fetchKnownCA(ctx, c); err != nil {
			return err
		}
	}

	sessions := &engine.Sessions{}
	defer sessions.Close(context.WithoutCancel(ctx))

	session, err := sessions.Get(config)
	if err != nil {
		return fmt.Errorf("failed to connect to the engine: %w", err)
	}

	_, err = session.ListDataCenters(ctx)
	var refused *engine.AuthError

	switch {
	case errors.As(err, &refused) && (refused.IsClosed() || refused.HasUnknownProfile()):
		return blocker.AddRemedy(err, o.Engine.Places)
	case errors.As(err, &refused):
		return fmt.Errorf("%s: %w; correct the credentials, or omit them to use the Secret %s", o.EngineFrom, refused,
			o.secretKey(c))
	case err != nil:
		return fmt.Errorf("failed to verify the credentials: %w", err)
	}

	return nil
}

// engineConfig returns the connection to the engine from the cluster file and the given credentials.
func (o *OLVM) engineConfig(c *creation) (engine.Config, error) {
	config := engine.Config{Username: o.Engine.Username, Password: o.Engine.Password, CA: o.Engine.CA}
	if err := c.File.CompleteEngine(&config); err != nil {
		return engine.Config{}, fmt.Errorf("%s: %w", c.File.Path, err)
	}

	return config, nil
}

// fetchKnownCA returns the engine's CA from the management cluster, or nil.
func (*OLVM) fetchKnownCA(ctx context.Context, c *creation) ([]byte, error) {
	ref := c.File.Providers.OLVM.OvirtAPIServer.CAConfigMap
	key := client.ObjectKey{Namespace: cmp.Or(ref.Namespace, c.namespace()), Name: ref.Name}
	var ca corev1.ConfigMap
	if err := c.management.Get(ctx, key, &ca); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("failed to get the CA of the engine: %w", err)
	}

	var out []byte
	for _, certificate := range ca.Data {
		out = append(out, strings.TrimSpace(certificate)+"\n"...)
	}

	return out, nil
}

// writeLogin writes the Secret with the engine's credentials. If the user gives no credentials, the Secret must exist.
func (o *OLVM) writeLogin(
	ctx context.Context, c *creation, key client.ObjectKey, labels map[string]string,
) error {
	if o.Engine.Username == "" {
		err := c.management.Get(ctx, key, &corev1.Secret{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("no Secret %s with the credentials of the engine found; set OLVM_USERNAME and "+
				"OLVM_PASSWORD, or use --credentials", key)
		}

		return err
	}

	// Another command may add the URL of another cluster's engine at the same time.
	err := attempt.OnError(attempt.DefaultBackoff, func(err error) bool {
		return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
	}, func() error { return o.mergeLogin(ctx, c, key, labels) })
	if err != nil {
		return fmt.Errorf("failed to write the credentials of the engine to Secret %s: %w", key, err)
	}

	return nil
}

// mergeLogin creates the Secret, or changes only this cluster's parts of an existing Secret. Clusters of other engines
// may share the Secret.
func (o *OLVM) mergeLogin(ctx context.Context, c *creation, key client.ObjectKey, labels map[string]string) error {
	login := map[string][]byte{
		"username": []byte(o.Engine.Username), "password": []byte(o.Engine.Password), "scope": []byte(apiScope),
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err := c.management.Get(ctx, key, secret)

	switch {
	case apierrors.IsNotFound(err):
		secret.Labels, secret.Data = labels, login
		secret.Data[infrav1.AllowedServerURLsKey] = []byte(c.File.EngineURL())

		return c.management.Create(ctx, secret)
	case err != nil:
		return err
	}

	before := secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}

	maps.Copy(secret.Data, login)
	secret.Data[infrav1.AllowedServerURLsKey] = withURL(secret.Data[infrav1.AllowedServerURLsKey], c.File.EngineURL())

	return c.management.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// withURL adds a URL to the list in a Secret, unless the list already has it.
func withURL(list []byte, added string) []byte {
	known := strings.FieldsFunc(string(list), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if slices.Contains(known, added) {
		return list
	}

	return []byte(strings.Join(append(known, added), "\n"))
}

// makeTemplate creates the VM template for the control plane's machines, if its name is still free.
func (o *OLVM) makeTemplate(ctx context.Context, c *creation) error {
	if o.Engine.Username == "" {
		return errNoLogin("--image")
	}

	config, err := o.engineConfig(c)
	if err != nil {
		return err
	}

	template := image.NodeTemplate{
		Upload: image.Upload{Path: o.Image, Out: c.Display},
		OSType: desired.IgnitionOS,
	}
	if c.File.Flavor != clusterfile.DefaultFlavor {
		template.OSType = cloudInitOS
	}

	template.SetDefaults(c.File.Source)
	err = localroot.AtEngine(ctx, config, func(session *engine.Client, local *localroot.Runner) error {
		_, err := template.CreateInEngine(
			ctx, session, connection.RenderEngine(session, config), local.Executor, local.Dir,
		)

		return err
	})

	var exists *image.ExistsError
	if errors.As(err, &exists) {
		c.Display.PrintLine("the template already exists")
		return nil
	}

	return blocker.AddRemedy(err, o.Engine.Places)
}
