package lifecycle

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/addon"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
)

// storageDriverName is the storage driver's name for the user.
const storageDriverName = "the oVirt CSI driver"

// checkStorageDriver reports missing or forbidden credentials of a new cluster's storage driver before the cluster is
// created.
func (o *OLVM) checkStorageDriver(c *creation) error {
	wanted, asked := c.File.WantsStorageDriver()
	if !wanted || c.File.Providers.OLVM.CSIDriver.Credentials == clusterfile.DriverMachines {
		return nil
	}

	if asked && o.StorageDriver.Username == "" && !fileExists(c.KubeconfigOut) {
		return fmt.Errorf("ovirtCsiDriver: %w", &noDriverLoginError{c.File.StorageDriverSecret()})
	}

	return o.checkDriverLogin(o.Engine.Username)
}

// checkDriverLogin rejects invalid credentials of the storage driver. machines is the engine user of the machine
// controllers, or "" if unknown.
func (o *OLVM) checkDriverLogin(machines string) error {
	switch given := o.StorageDriver; {
	case given.Username == "":
		return nil
	case given.Password == "":
		return errors.New("OLVM_CSI_PASSWORD is empty, but OLVM_CSI_USERNAME is set; set both")
	case given.Username == machines:
		return fmt.Errorf("OLVM_CSI_USERNAME: %s is the user of the machines, but the credentials of the storage "+
			"driver are on every node; use another user, or set ovirtCsiDriver: {credentials: %s}",
			given.Username, clusterfile.DriverMachines)
	}

	return nil
}

// noDriverLoginError reports a storage driver without its own user in the engine.
type noDriverLoginError struct{ key client.ObjectKey }

func (e *noDriverLoginError) Error() string {
	return fmt.Sprintf("it requires its own user in the engine, because its credentials are on every node; set "+
		"OLVM_CSI_USERNAME and OLVM_CSI_PASSWORD, or create the Secret %s in the cluster, or set ovirtCsiDriver: "+
		"{credentials: %s} to use the credentials of the machines", e.key, clusterfile.DriverMachines)
}

// findStorageDriver creates the add-on of the storage driver. There is none if the cluster file disables it, or if it
// is only the default and has no credentials.
func (o *OLVM) findStorageDriver(ctx context.Context, c *creation) error {
	wanted, asked := c.File.WantsStorageDriver()
	if !wanted {
		return nil
	}

	login, err := o.findDriverLogin(ctx, c)
	var missing *noDriverLoginError
	if errors.As(err, &missing) && !asked {
		c.Display.PrintLine("skipping the oVirt CSI driver: %s", missing)
		return nil
	} else if err != nil {
		return err
	}

	objects, err := c.File.StorageDriver(login.Username, login.Password)
	if err != nil {
		return err
	}

	driver := addon.FromManifests(storageDriverName, objects)
	o.driver = &driver

	return nil
}

// findDriverLogin returns the credentials for the storage driver. They are empty if the cluster already has
// credentials, because these stay.
func (o *OLVM) findDriverLogin(ctx context.Context, c *creation) (Login, error) {
	var secret corev1.Secret
	if err := c.management.Get(ctx, o.secretKey(c), &secret); err != nil {
		return Login{}, fmt.Errorf("failed to get the credentials of the engine: %w", err)
	}

	var machines Login
	machines.Username, machines.Password = connection.GetLogin(&secret)

	if c.File.Providers.OLVM.CSIDriver.Credentials == clusterfile.DriverMachines {
		return machines, nil
	}

	if err := o.checkDriverLogin(machines.Username); err != nil {
		return Login{}, err
	}

	if o.StorageDriver.Username != "" {
		return o.StorageDriver, nil
	}

	key := c.File.StorageDriverSecret()
	if err := c.workload.Get(ctx, key, &corev1.Secret{}); apierrors.IsNotFound(err) {
		return Login{}, &noDriverLoginError{key}
	} else if err != nil {
		return Login{}, fmt.Errorf("failed to get the credentials of the storage driver: %w", err)
	}

	return Login{}, nil
}
