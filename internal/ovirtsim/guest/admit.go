package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// admitNode performs the checks of a joining node and of the cluster that the node joins. The caller must hold
// guests.mu.
func (c *workloadCluster) admitNode(ctx context.Context, n *node) error {
	for _, hash := range n.caHashes {
		if hash != c.clusterCA.publicKeyHash() {
			return errors.New("the cluster CA does not match discovery.bootstrapToken.caCertHashes")
		}
	}

	if n.controlPlane && !bytes.Equal(n.clusterCA.cert.Raw, c.clusterCA.cert.Raw) {
		return errors.New("/etc/kubernetes/pki/ca.crt is not the CA of this cluster")
	}

	id, secret, ok := strings.Cut(n.token, ".")
	if !ok {
		return errors.New("discovery.bootstrapToken.token is not ID.SECRET")
	}

	var token corev1.Secret
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id}
	if err := c.client().Get(ctx, key, &token); err != nil {
		return fmt.Errorf("%w: the cluster does not know the bootstrap token: %w", errNotYet, err)
	}

	if string(token.Data["token-secret"]) != secret {
		return errors.New("the bootstrap token is wrong")
	}

	expiration, err := time.Parse(time.RFC3339, string(token.Data["expiration"]))
	if err == nil && expiration.Before(time.Now()) {
		return fmt.Errorf("the bootstrap token expired at %s", expiration.Format(time.RFC3339))
	}

	if err := c.admitVersion(n.version); err != nil {
		return err
	}

	return c.admitName(ctx, n.name)
}

// admitVersion rejects a kubeadm version more than one minor version ahead of the control plane.
func (c *workloadCluster) admitVersion(joining string) error {
	kubeadm, err := version.ParseGeneric(joining)
	if err != nil {
		return fmt.Errorf("the version of kubeadm in the image is none: %w", err)
	}

	var newest *version.Version

	for _, m := range c.guests.members {
		if m.cluster != c || !m.node.controlPlane {
			continue
		}

		if v, err := version.ParseGeneric(m.node.version); err == nil && (newest == nil || newest.LessThan(v)) {
			newest = v
		}
	}

	if newest != nil && kubeadm.Minor() > newest.Minor()+1 {
		return fmt.Errorf(
			"this version of kubeadm (%s) only supports control plane versions from %d.%d on; the cluster has %s",
			joining, kubeadm.Major(),
			kubeadm.Minor()-1,
			newest,
		)
	}

	return nil
}

// admitName rejects a joining node if the cluster already has a ready Node of the same name.
func (c *workloadCluster) admitName(ctx context.Context, name string) error {
	var taken corev1.Node
	if err := c.client().Get(ctx, client.ObjectKey{Name: name}, &taken); err != nil {
		return client.IgnoreNotFound(err)
	}

	for _, condition := range taken.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return fmt.Errorf("a Node with name %q and status \"Ready\" already exists in the cluster", name)
		}
	}

	return nil
}
