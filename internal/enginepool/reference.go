package enginepool

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
)

// Reference is an object that an OLVMCluster names for the connection to its engine; false where it names none.
type Reference func(connection.Engine) (client.ObjectKey, bool)

// CredentialsOf is the Secret with the credentials; that of an OLVMClusterIdentity is its administrator's business.
func CredentialsOf(c connection.Engine) (client.ObjectKey, bool) {
	return connection.CredentialsKey(c, nil)
}

// CAOf is the ConfigMap with the CA, likewise.
func CAOf(c connection.Engine) (client.ObjectKey, bool) { return connection.CAKey(c, nil) }

// Keys are the objects that an OLVMCluster names.
func Keys(c connection.Engine, references ...Reference) []client.ObjectKey {
	var out []client.ObjectKey

	for _, of := range references {
		if key, ok := of(c); ok {
			out = append(out, key)
		}
	}

	return out
}
