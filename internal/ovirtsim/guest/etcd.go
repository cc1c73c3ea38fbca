package guest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudv1 "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/cloud/api/v1alpha1"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/attempt"
)

// addEtcdMember adds the pod of an etcd member. The in-memory etcd derives its members from annotations of these pods.
func (c *workloadCluster) addEtcdMember(ctx context.Context, n *node) error {
	name := "etcd-" + n.name

	names := certs.AltNames{DNSNames: []string{"localhost", name}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
	for _, address := range n.addresses {
		names.IPs = append(names.IPs, net.ParseIP(address))
	}

	cert, err := c.signCertificate(n.etcdCA, name, names)
	if err != nil {
		return err
	}

	c.certMu.Lock()
	c.etcdCert[name] = cert
	c.certMu.Unlock()

	var pods corev1.PodList
	err = c.client().List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{
		"component": "etcd",
		"tier":      "control-plane",
	})
	if err != nil {
		return fmt.Errorf("failed to list etcd members: %w", err)
	}

	clusterID, taken := "", map[string]bool{"0": true}

	for _, pod := range pods.Items {
		if _, removed := pod.Annotations[cloudv1.EtcdMemberRemoved]; removed {
			continue
		}

		if pod.Name == name {
			return nil // a restarted member still has its data
		}

		clusterID = pod.Annotations[cloudv1.EtcdClusterIDAnnotationName]
		taken[pod.Annotations[cloudv1.EtcdMemberIDAnnotationName]] = true
	}

	fresh := func() string {
		for {
			if id := fmt.Sprint(rand.Uint32()); !taken[id] { //nolint:gosec // an identity, not a secret
				return id
			}
		}
	}
	annotations := map[string]string{cloudv1.EtcdMemberIDAnnotationName: fresh()}
	if clusterID == "" {
		clusterID = fresh()
		annotations[cloudv1.EtcdLeaderFromAnnotationName] = time.Now().Format(time.RFC3339)
	}

	annotations[cloudv1.EtcdClusterIDAnnotationName] = clusterID

	return c.ensureObject(ctx, staticPod("etcd", n, annotations))
}

// electLeader transfers the leadership from a lost member to a running one, as a real etcd does by itself. The caller
// must hold guests.mu.
func (c *workloadCluster) electLeader(ctx context.Context, lost string) error {
	return attempt.OnConflict(func() error { return c.tryElectLeader(ctx, lost) })
}

func (c *workloadCluster) tryElectLeader(ctx context.Context, lost string) error {
	var pods corev1.PodList
	err := c.client().List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{
		"component": "etcd",
		"tier":      "control-plane",
	})
	if err != nil {
		return fmt.Errorf("failed to list etcd members: %w", err)
	}

	leader, since := "", time.Time{}
	var heir *corev1.Pod

	for i := range pods.Items {
		pod := &pods.Items[i]
		from, err := time.Parse(time.RFC3339, pod.Annotations[cloudv1.EtcdLeaderFromAnnotationName])
		if err == nil && !from.Before(since) {
			leader, since = pod.Name, from
		}

		_, removed := pod.Annotations[cloudv1.EtcdMemberRemoved]
		if !removed && c.apiServers[pod.Spec.NodeName] {
			heir = pod
		}
	}

	if leader != lost || heir == nil {
		return nil
	}

	now := time.Now()
	if !now.Truncate(time.Second).After(since) {
		now = since.Add(time.Second) // the newest leader wins, and these times are in seconds
	}

	crowned := heir.DeepCopy()
	crowned.Annotations[cloudv1.EtcdLeaderFromAnnotationName] = now.Format(time.RFC3339)
	if err := c.client().Patch(ctx, crowned, client.MergeFrom(heir)); err != nil {
		return fmt.Errorf("failed to make %s the leader: %w", heir.Name, err)
	}

	return nil
}
