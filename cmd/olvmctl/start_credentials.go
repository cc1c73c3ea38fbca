package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
)

// secretKey is the Secret with the credentials of the engine.
func (o *start) secretKey(cluster readCluster) client.ObjectKey {
	ref := cluster.Providers.OLVM.OvirtAPIServer.CredentialsSecret
	return client.ObjectKey{Namespace: cmp.Or(ref.Namespace, o.namespace), Name: ref.Name}
}

// storageDriver is the oVirt CSI driver as an add-on; none where the cluster file does not want it, or where it is
// there by default and has no credentials.
func (o *start) storageDriver(ctx context.Context, cluster readCluster, workload client.Reader) ([]addOn, error) {
	wanted, asked := cluster.WantsStorageDriver()
	if !wanted {
		return nil, nil
	}

	username, password, err := o.driverCredentials(ctx, cluster, workload)
	var missing *noDriverCredentialsError
	if errors.As(err, &missing) && !asked {
		o.say("The oVirt CSI driver is left out: %s", missing)
		return nil, nil
	} else if err != nil {
		return nil, err
	}

	objects, err := cluster.StorageDriver(username, password)
	if err != nil {
		return nil, err
	}

	return []addOn{{name: "the oVirt CSI driver", objects: objects}}, nil
}

// checkDriver says at once, and not when the cluster is up, that the storage driver of a new cluster has no
// credentials.
func (o *start) checkDriver(cluster readCluster) error {
	wanted, asked := cluster.WantsStorageDriver()
	own := cluster.Providers.OLVM.CSIDriver.Credentials != clusterfile.DriverMachines
	if wanted && asked && own && os.Getenv("OLVM_CSI_USERNAME") == "" && !fileExists(o.kubeconfigOut) {
		return fmt.Errorf("ovirtCsiDriver: %w", &noDriverCredentialsError{cluster.StorageDriverSecret()})
	}

	return nil
}

// noDriverCredentialsError reports that the storage driver has no user of the engine of its own.
type noDriverCredentialsError struct{ key client.ObjectKey }

func (e *noDriverCredentialsError) Error() string {
	return fmt.Sprintf(
		"its credentials are on every node, so that it needs a user of the engine of its own: set OLVM_CSI_USERNAME "+
			"and OLVM_CSI_PASSWORD, "+
			"or make the Secret %s in the cluster, or write ovirtCsiDriver: {credentials: %s} to give "+
			"it those of the machines",
		e.key,
		clusterfile.DriverMachines,
	)
}

// driverCredentials are those that the storage driver is given; empty where the cluster has some already, which stay.
func (o *start) driverCredentials(
	ctx context.Context, cluster readCluster, workload client.Reader,
) (username, password string, _ error) {
	var machines corev1.Secret
	if err := o.Get(ctx, o.secretKey(cluster), &machines); err != nil {
		return "", "", fmt.Errorf("failed to get the credentials of the engine: %w", err)
	}

	theirs := string(machines.Data["username"])
	if cluster.Providers.OLVM.CSIDriver.Credentials == clusterfile.DriverMachines {
		return theirs, string(machines.Data["password"]), nil
	}

	username, password = os.Getenv("OLVM_CSI_USERNAME"), os.Getenv("OLVM_CSI_PASSWORD")
	switch {
	case username != "" && password == "":
		return "", "", errors.New("OLVM_CSI_PASSWORD: it is empty, and OLVM_CSI_USERNAME is not; set both")
	case username != "" && username == theirs:
		return "", "", fmt.Errorf(
			"OLVM_CSI_USERNAME: %s is the user of the machines, and the credentials of the storage driver are on "+
				"every node; give it another user, or write ovirtCsiDriver: {credentials: %s}",
			username,
			clusterfile.DriverMachines,
		)
	case username != "":
		return username, password, nil
	}

	key := cluster.StorageDriverSecret()
	if err := workload.Get(ctx, key, &corev1.Secret{}); apierrors.IsNotFound(err) {
		return "", "", &noDriverCredentialsError{key}
	} else if err != nil {
		return "", "", fmt.Errorf("failed to look for the credentials of the storage driver: %w", err)
	}

	return "", "", nil
}

// keepCredentials writes the Secret with the credentials of the engine, where there are any.
func (o *start) keepCredentials(
	ctx context.Context, key client.ObjectKey, server string, labels map[string]string,
) error {
	credentials, err := o.read()
	if err != nil {
		return err
	}

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err = o.Get(ctx, key, secret)
	if credentials.Username == "" {
		if apierrors.IsNotFound(err) {
			return fmt.Errorf(
				"there is no Secret %s with the credentials of the engine; set OLVM_USERNAME and OLVM_PASSWORD, or "+
					"give --credentials",
				key,
			)
		}

		return err
	}

	data := map[string][]byte{
		"username":                   []byte(credentials.Username),
		"password":                   []byte(credentials.Password),
		"scope":                      []byte(engineScope),
		infrav1.AllowedServerURLsKey: []byte(server)}

	switch {
	case apierrors.IsNotFound(err):
		secret.Labels, secret.Data = labels, data
		err = o.Create(ctx, secret)
	case err == nil:
		before := secret.DeepCopy()
		secret.Data = data
		err = o.Patch(ctx, secret, client.MergeFrom(before))
	}

	if err != nil {
		return fmt.Errorf("failed to keep the credentials of the engine in Secret %s: %w", key, err)
	}

	return nil
}
