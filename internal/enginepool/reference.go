package enginepool

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
)

// Reference is an object that an OLVMCluster names for the connection to its engine; false where it names none.
type Reference func(*infrav1.OLVMCluster) (client.ObjectKey, bool)

// CredentialsOf is the Secret with the credentials; that of an OLVMClusterIdentity is its administrator's business.
func CredentialsOf(c *infrav1.OLVMCluster) (client.ObjectKey, bool) {
	return connection.CredentialsKey(c, nil)
}

// CAOf is the ConfigMap with the CA, likewise.
func CAOf(c *infrav1.OLVMCluster) (client.ObjectKey, bool) { return connection.CAKey(c, nil) }

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
