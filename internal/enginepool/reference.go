package enginepool

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/connection"
)

// Reference returns the key of an object in an OLVMCluster's engine connection, or false if there is none.
type Reference func(connection.Engine) (client.ObjectKey, bool)

// CredentialsOf returns the Secret with the credentials. It ignores the Secret of an OLVMClusterIdentity, because its
// administrator is responsible for it.
func CredentialsOf(c connection.Engine) (client.ObjectKey, bool) {
	return connection.CredentialsKey(c, nil)
}

// CAOf returns the ConfigMap with the CA, except for an OLVMClusterIdentity.
func CAOf(c connection.Engine) (client.ObjectKey, bool) { return connection.CAKey(c, nil) }

// Keys returns the keys of the objects referenced by an OLVMCluster.
func Keys(c connection.Engine, references ...Reference) []client.ObjectKey {
	var out []client.ObjectKey

	for _, of := range references {
		if key, ok := of(c); ok {
			out = append(out, key)
		}
	}

	return out
}
