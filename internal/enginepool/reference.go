package enginepool

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
)

// Reference is an object that an OLVMCluster names for the connection to its engine; false where it names none.
type Reference func(*infrav1.OLVMCluster) (client.ObjectKey, bool)

// CredentialsOf is the Secret with the credentials.
func CredentialsOf(c *infrav1.OLVMCluster) (client.ObjectKey, bool) {
	name := c.Spec.OLVMOvirtAPIServer.CredentialsSecret

	return connection.Key(name, c), name.Name != ""
}

// CAOf is the ConfigMap with the CA.
func CAOf(c *infrav1.OLVMCluster) (client.ObjectKey, bool) {
	name := c.Spec.OLVMOvirtAPIServer.CAConfigMap
	if name == nil {
		return client.ObjectKey{}, false
	}

	return connection.Key(*name, c), name.Name != ""
}

// Keys are the objects that an OLVMCluster names.
func Keys(c *infrav1.OLVMCluster, references ...Reference) []client.ObjectKey {
	var out []client.ObjectKey

	for _, of := range references {
		if key, ok := of(c); ok {
			out = append(out, key)
		}
	}

	return out
}
