package lifecycle

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/kubeconfigfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
)

// ownLimit bounds the requests to find out whether a cluster manages itself.
const ownLimit = 10 * time.Second

// findOwn finds out whether the kubeconfig of an earlier Create leads to a cluster with its own objects. If so, it
// connects to the cluster.
func (c *creation) findOwn(ctx context.Context) (err error) {
	c.managesItself, c.unsure, err = c.detectSelfManaged(ctx)
	if err != nil || !c.managesItself {
		return err
	}

	if c.interrupted, err = c.moveInterrupted(ctx); err != nil || c.interrupted {
		c.managesItself, c.SelfManaged = false, true
		return err
	}

	c.Display.PrintLine("%s manages itself; using the management cluster in %s", c.File.Name, c.KubeconfigOut)
	dropNoted(ctx, c.namespace(), c.management, c.workload)

	local := c.management.local
	c.exists, c.management = true, c.workload

	if !local.IsRunning() {
		return nil
	}

	if left, err := local.CountUses(ctx); err == nil && left.IsEmpty() { // left by an interrupted command
		c.Display.PrintLine("the local management cluster is still running, but has no clusters; to stop it, run " +
			"olvmctl local stop")
	}

	return nil
}

// detectSelfManaged reports whether the cluster of an existing kubeconfig has its own objects. If this is unknown,
// unsure is the reason. If the kubeconfig is for another cluster, detectSelfManaged returns an error, because Create
// would overwrite it.
func (c *creation) detectSelfManaged(ctx context.Context) (own bool, unsure, err error) {
	if !fileExists(c.KubeconfigOut) {
		return false, nil, nil
	}

	at := contextInFile(c.KubeconfigOut, c.File.Name)
	if at == "" {
		// The file has only other clusters, or is not a kubeconfig.
		err := kubeconfigfile.Edit(c.KubeconfigOut, func(*clientcmdapi.Config) error { return nil })
		if err != nil {
			return false, nil, fmt.Errorf("--kubeconfig-out: %w", err)
		}

		return false, nil, nil
	}

	c.workload.setContext(at)
	server, err := c.workload.options.ServerURL()
	if err != nil {
		return false, nil, fmt.Errorf("%w; move the file, or specify another file with --kubeconfig-out", err)
	}

	if err := c.workload.connect(ctx); err != nil {
		return false, nil, err
	}

	limited, cancel := context.WithTimeout(ctx, ownLimit)
	defer cancel()

	var found clusterv1.Cluster
	key := client.ObjectKey{Namespace: c.namespace(), Name: c.File.Name}
	err = c.workload.Get(limited, key, &found)
	wanted := wantedServer(c.File.Objects)
	itself := err == nil && (wanted == "" || wanted == server)

	if err == nil && !itself && wanted == mgmtcluster.ServerAt(&found) {
		// The kubeconfig leads to the cluster through a tunnel, or to the management cluster.
		if itself, err = c.workload.IsWorkloadOf(limited, &found); err != nil {
			return false, nil, err
		}
	}

	if itself {
		c.own = &found
		return true, nil, c.checkRecorded(limited)
	}

	return c.detectOtherManaged(limited, at, server, err)
}

// detectOtherManaged completes detectSelfManaged if the cluster of the kubeconfig does not have its own objects. err is
// the error from looking for these objects.
func (c *creation) detectOtherManaged(
	ctx context.Context, at, server string, err error,
) (own bool, unsure, problem error) {
	wanted := wantedServer(c.File.Objects)

	switch {
	case wanted != "" && wanted != server && at != contextName(c.File.Name) &&
		filepath.Base(c.KubeconfigOut) != dedicatedName(c.File.Name):
		c.workload.setContext("") // until the context of the cluster is written

		return false, nil, nil // the file has only another cluster's context, and this one is added
	case wanted != "" && wanted != server:
		other := otherServerError(c.KubeconfigOut, &clientcmdapi.Cluster{Server: server}, c.File.Name,
			&clientcmdapi.Cluster{Server: wanted})
		if err == nil {
			return false, nil, other
		}

		return false, nil, c.askElsewhere(ctx, other)
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		c.answers = true
		return false, nil, nil // it has another management cluster
	}

	return false, fmt.Errorf(
		"cannot determine whether %s manages itself, because the server in %s is unreachable: %w; if the cluster "+
			"no longer exists, move or delete the file", c.File.Name, c.KubeconfigOut, err), nil
}

// checkRecorded fails if the cluster of the kubeconfig is not the one described by its Cluster object.
func (c *creation) checkRecorded(ctx context.Context) error {
	recorded := c.own.Annotations[mgmtcluster.IdentityAnnotation]
	if recorded == "" {
		return nil
	}

	id, err := c.workload.FetchIdentity(ctx)
	if err == nil && string(id) != recorded {
		err = fmt.Errorf("%s is not the kubeconfig of %s, but of another cluster with a Cluster of the same name: "+
			"the UID of its namespace kube-system is %s, not %s; specify another file with --kubeconfig-out",
			c.KubeconfigOut, c.File.Name, id, recorded)
	}

	return err
}

// elsewhere describes a kubeconfig with a server other than the manifests' server. The kubeconfig leads to the cluster
// through a tunnel, or to another cluster. The identity of the cluster tells both cases apart.
type elsewhere struct {
	id    types.UID
	other error
}

// askElsewhere asks the cluster of the kubeconfig for its identity. If it does not answer, it counts as another
// cluster.
func (c *creation) askElsewhere(ctx context.Context, other error) error {
	id, err := c.workload.FetchIdentity(ctx)
	if err != nil {
		return other
	}

	c.elsewhere = &elsewhere{id, other}

	return nil
}

// checkElsewhere fails unless the management cluster has recorded the identity of the kubeconfig's cluster.
func (c *creation) checkElsewhere(ctx context.Context) error {
	if c.management.Cluster == nil { // nobody knows it
		return c.elsewhere.other
	}

	cluster, err := c.management.GetCluster(ctx, c.File.Name)
	if err != nil || cluster.Annotations[mgmtcluster.IdentityAnnotation] != string(c.elsewhere.id) {
		return c.elsewhere.other
	}

	return nil
}

// wantedServer returns the server in the infrastructure object of the manifests, or "".
func wantedServer(objects []*unstructured.Unstructured) string {
	for _, object := range objects {
		host, _, _ := unstructured.NestedString(object.Object, "spec", "controlPlaneEndpoint", "host")
		port, _, _ := unstructured.NestedInt64(object.Object, "spec", "controlPlaneEndpoint", "port")
		if host != "" && port != 0 {
			return "https://" + clusterv1.APIEndpoint{Host: host, Port: int32(port)}.String()
		}
	}

	return ""
}

// shouldPivot reports whether to move the cluster into itself.
func (c *creation) shouldPivot() bool { return c.SelfManaged && !c.managesItself }

// moveToItself moves the cluster into itself.
func (c *creation) moveToItself(ctx context.Context) error {
	if c.vm != nil {
		return c.moveOut(ctx, c.vm, c.management, c.workload)
	}

	return c.moveClusters(ctx, c.management, c.workload)
}

// pivotSteps returns the steps to install the providers in the cluster, and to move its objects there.
func (c *creation) pivotSteps() []Step {
	from := c.management // findOwn changes it only if the cluster does not pivot
	name := c.File.Name

	out := []Step{
		// Another cluster may have appeared meanwhile.
		{name: "Looking again for other clusters in the namespace", quiet: true, run: c.checkAlone},
		ensureProviders(&c.Common, c.workload, c.clusterProviders),
		{name: movingName, run: c.moveToItself},
		{
			name: "Waiting for the cluster to manage itself",
			run: c.waitFor(func(ctx context.Context) error {
				return checkReady(ctx, c.workload.Cluster, name)
			}),
		},
	}
	out = append(out, from.removalSteps(&c.Common)...)
	out = append(out, Step{
		name:  "Switching to the new management cluster",
		quiet: true,
		run: func(context.Context) error {
			c.management = c.workload
			return nil
		},
	})

	return withCondition(c.shouldPivot, out...)
}
