// Package otherprovider prevents this provider from running next to Oracle's provider. Both use the same kinds, and two
// managers of the same objects would undo each other's work.
package otherprovider

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Manager is the key of the Deployment of Oracle's provider, as its chart installs it.
var Manager = client.ObjectKey{Namespace: "cluster-api-provider-olvm", Name: "olvm-capi-controller-manager"}

// CheckAbsent returns an error if Oracle's provider is installed and not scaled to 0. It returns nil if it cannot read
// the Deployment, because a manager for one namespace may not read Deployments in others.
func CheckAbsent(ctx context.Context, reader client.Reader) error {
	var deployment appsv1.Deployment
	if err := reader.Get(ctx, Manager, &deployment); err != nil || ptr.Deref(deployment.Spec.Replicas, 1) == 0 {
		return nil //nolint:nilerr // see above
	}

	return fmt.Errorf(
		"the Deployment %[1]s of Oracle's provider manages the same kinds in this cluster: install this provider in "+
			"another management cluster, or pause the Clusters and stop the other one with kubectl -n %[2]s scale "+
			"deployment %[3]s --replicas=0 (docs/user/migration.md)",
		Manager, Manager.Namespace, Manager.Name,
	)
}
