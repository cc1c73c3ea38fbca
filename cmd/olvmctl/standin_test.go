package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

type toolchainOf = *toolchain.Toolchain

// kindsOfClusters are the kinds in the default flavor, without the Cluster.
var kindsOfClusters = []schema.GroupVersionKind{
	{Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Kind: "OLVMCluster"},
	{Group: "infrastructure.cluster.x-k8s.io", Version: "v1", Kind: "OLVMMachineTemplate"},
	{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"},
	{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmConfigTemplate"},
	clusterv1.GroupVersion.WithKind("MachineDeployment"),
}

// standIn imitates the controllers of Cluster API. Its machines have no VMs.
type standIn struct {
	*stand
	kubeconfig []byte
}

func (s *standIn) run(ctx context.Context) {
	for {
		for _, server := range s.servers {
			_ = s.reconcileAll(ctx, server.Client) // it retries after errors
		}

		select {
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *standIn) reconcileAll(ctx context.Context, c client.Client) error {
	var list clusterv1.ClusterList
	if err := c.List(ctx, &list, client.InNamespace(s.namespace)); err != nil {
		return err
	}

	for i := range list.Items {
		cluster := &list.Items[i]
		reconcile := s.reconcile

		switch {
		case ptr.Deref(cluster.Spec.Paused, false):
			continue
		case !cluster.DeletionTimestamp.IsZero():
			reconcile = s.end
		}

		if err := reconcile(ctx, c, cluster); err != nil {
			return err
		}
	}

	return nil
}

// each calls do with all objects of the cluster.
func (s *standIn) each(ctx context.Context, c client.Client, do func(*unstructured.Unstructured) error) error {
	for _, kind := range kindsOfClusters {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := c.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
			return err
		}

		for i := range list.Items {
			if err := do(&list.Items[i]); err != nil {
				return err
			}
		}
	}

	return nil
}

// end deletes all objects of a cluster, and removes its finalizer.
func (s *standIn) end(ctx context.Context, c client.Client, cluster *clusterv1.Cluster) error {
	err := s.each(ctx, c, func(object *unstructured.Unstructured) error {
		return client.IgnoreNotFound(c.Delete(ctx, object))
	})
	if err != nil {
		return err
	}

	kubeconfig := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name + "-kubeconfig"}}
	if err := client.IgnoreNotFound(c.Delete(ctx, kubeconfig)); err != nil {
		return err
	}

	before := cluster.DeepCopy()
	controllerutil.RemoveFinalizer(cluster, clusterv1.ClusterFinalizer)

	return client.IgnoreNotFound(c.Patch(ctx, cluster, client.MergeFrom(before)))
}

// reconcile completes the objects of the cluster.
func (s *standIn) reconcile(ctx context.Context, c client.Client, cluster *clusterv1.Cluster) error {
	before := cluster.DeepCopy()
	if controllerutil.AddFinalizer(cluster, clusterv1.ClusterFinalizer) {
		if err := c.Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
			return err
		}
	}

	owner := metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
	}

	var err error

	hasEndpoint := cluster.Spec.ControlPlaneEndpoint.IsValid() // otherwise its infrastructure has not been applied yet
	if hasEndpoint {
		err = c.Create(ctx, s.kubeconfigSecret(owner))
	}

	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}

	credentials := &corev1.Secret{}
	credentials.Namespace, credentials.Name = s.namespace, s.name+"-ovirt-credentials"
	move := fmt.Appendf(nil, `{"metadata":{"labels":{%q:""}}}`, clusterctlv1.ClusterctlMoveLabel) // as controllers/access
	err = c.Patch(ctx, credentials, client.RawPatch(types.MergePatchType, move))
	if client.IgnoreNotFound(err) != nil {
		return err
	}

	err = s.each(ctx, c, func(object *unstructured.Unstructured) error {
		if object.GetKind() == "OLVMCluster" {
			if err := takeEndpoint(ctx, c, cluster, object); err != nil {
				return err
			}
		}

		return completeObject(ctx, c, object, owner)
	})
	if err != nil || ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) ||
		!hasEndpoint { // the kubeconfig comes before the endpoint
		return err
	}

	before = cluster.DeepCopy()
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	cluster.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized",
		LastTransitionTime: metav1.Now(),
	}}

	return c.Status().Patch(ctx, cluster, client.MergeFrom(before))
}

// kubeconfigSecret returns the Secret that Cluster API would create to connect to the cluster.
func (s *standIn) kubeconfigSecret(owner metav1.OwnerReference) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: s.name + "-kubeconfig", OwnerReferences: []metav1.OwnerReference{owner},
			Labels: map[string]string{clusterv1.ClusterNameLabel: s.name},
		},
		Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": s.kubeconfig},
	}
}

// takeEndpoint copies the endpoint of the infrastructure to a Cluster.
func takeEndpoint(
	ctx context.Context, c client.Client, cluster *clusterv1.Cluster, of *unstructured.Unstructured,
) error {
	host, _, _ := unstructured.NestedString(of.Object, "spec", "controlPlaneEndpoint", "host")
	port, _, _ := unstructured.NestedInt64(of.Object, "spec", "controlPlaneEndpoint", "port")
	before := cluster.DeepCopy()
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: host, Port: int32(port)}

	return c.Patch(ctx, cluster, client.MergeFrom(before))
}

// completeObject sets the owner of an object. If the object has machines, it completes them.
func completeObject(ctx context.Context, c client.Client, object *unstructured.Unstructured, owner metav1.OwnerReference) error {
	if len(object.GetOwnerReferences()) == 0 {
		before := object.DeepCopy()
		object.SetOwnerReferences([]metav1.OwnerReference{owner})
		if err := c.Patch(ctx, object, client.MergeFrom(before)); err != nil {
			return err
		}
	}

	replicas, found, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	if err != nil || !found || observed == object.GetGeneration() {
		return err
	}

	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"observedGeneration": object.GetGeneration(), "replicas": replicas, "readyReplicas": replicas,
		"upToDateReplicas": replicas, "availableReplicas": replicas,
	}})
	if err != nil {
		return err
	}

	return c.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
}

// installProviders creates the entries in clusterctl's inventory.
func installProviders(ctx context.Context, c client.Client) error {
	for label, kind := range map[string]string{
		"cluster-api": "CoreProvider", "bootstrap-kubeadm": "BootstrapProvider",
		"control-plane-kubeadm": "ControlPlaneProvider", "infrastructure-olvm": "InfrastructureProvider",
	} {
		namespace := label + "-system"
		err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		if err != nil {
			return err
		}

		entry := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
			"metadata": map[string]any{
				"namespace": namespace, "name": label,
				"labels": map[string]any{
					clusterv1.ProviderNameLabel: label, "clusterctl.cluster.x-k8s.io": "",
					"clusterctl.cluster.x-k8s.io/core": "inventory",
				},
			},
			"providerName": label, "type": kind, "version": "v1.14.2",
		}}

		for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) { // waits until the kind is served
			err := c.Create(ctx, entry)
			if err == nil {
				break
			}

			if time.Since(begin) > time.Minute {
				return fmt.Errorf("failed to make the inventory: %w", err)
			}
		}
	}

	return nil
}
