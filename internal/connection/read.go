package connection

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

// ReadObjects reads the objects for the connection to the engine of a cluster.
func ReadObjects(ctx context.Context, reader client.Reader, of Engine) (Objects, error) {
	var out Objects
	var err error

	if name := GetIdentityName(of); name != "" {
		key := client.ObjectKey{Name: name}
		if out.Identity, err = readOrNil(ctx, reader, key, &infrav1alpha1.OLVMClusterIdentity{}); err != nil {
			return out, err
		}

		key.Name = of.Key.Namespace
		if out.Namespace, err = readOrNil(ctx, reader, key, &corev1.Namespace{}); err != nil {
			return out, err
		}

		// Users without access to the identity learn nothing about its objects.
		if out.Identity == nil || !CanUse(out.Identity, of.Key.Namespace, out.Namespace) {
			return out, nil
		}

		if err := out.readNamed(ctx, reader, of); err != nil {
			return out, fmt.Errorf("failed to read the references of OLVMClusterIdentity %s: %s", name,
				apierrors.ReasonForError(err))
		}

		return out, nil
	}

	return out, out.readNamed(ctx, reader, of)
}

// readNamed reads the Secret and the ConfigMap named by the object or its identity.
func (o *Objects) readNamed(ctx context.Context, reader client.Reader, of Engine) (err error) {
	if key, ok := CredentialsKey(of, o.Identity); ok {
		if o.Secret, err = readOrNil(ctx, reader, key, &corev1.Secret{}); err != nil {
			return err
		}
	}

	if key, ok := CAKey(of, o.Identity); ok {
		o.CA, err = readOrNil(ctx, reader, key, &corev1.ConfigMap{})
	}

	return err
}

// ReadConfigForUser returns the connection to the engine of a cluster for another user. The other user's Secret is in
// the cluster's namespace. The CA comes from the cluster or its identity.
func ReadConfigForUser(
	ctx context.Context, reader client.Reader, of Engine, secret string, policy Policy,
) (engine.Config, error) {
	other := of
	other.Server.CredentialsSecret, other.Server.IdentityRef = infrav1.NamespacedName{Name: secret}, nil

	config, err := ReadConfig(ctx, reader, other, policy)
	if err != nil || GetIdentityName(of) == "" {
		return config, err
	}

	owners, err := ReadConfig(ctx, reader, of, policy)
	config.CA = owners.CA

	return config, err
}

// ReadConfig reads the objects of a connection, and returns the result of BuildConfig.
func ReadConfig(
	ctx context.Context, reader client.Reader, of Engine, policy Policy,
) (engine.Config, error) {
	objects, err := ReadObjects(ctx, reader, of)
	if err != nil {
		return engine.Config{}, err
	}

	objects.Policy = policy

	return BuildConfig(of, objects)
}

// readOrNil reads an object, and returns nil if it does not exist.
func readOrNil[T client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, into T) (T, error) {
	var none T

	if err := reader.Get(ctx, key, into); apierrors.IsNotFound(err) {
		return none, nil
	} else if err != nil {
		return none, fmt.Errorf("failed to get %T %s: %w", into, key, err)
	}

	return into, nil
}
