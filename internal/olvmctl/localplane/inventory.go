package localplane

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
)

// provider is a provider that runs in a plane, as in clusterctl's inventory.
type provider struct {
	name, kind, namespace, version string
}

// addToInventory records the providers of a plane, as clusterctl init does. clusterctl moves clusters only to a
// management cluster with the same providers, in the same or a newer version.
func (p *Plane) addToInventory(ctx context.Context, providers ...provider) error {
	var problems []error

	for _, one := range providers {
		label := clusterctlv1.ManifestLabel(one.name, clusterctlv1.ProviderType(one.kind))
		namespace := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": one.namespace},
		}}
		entry := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": clusterctlv1.GroupVersion.String(),
			"kind":       "Provider",
			"metadata": map[string]any{
				"namespace": one.namespace,
				"name":      label,
				"labels": map[string]any{
					clusterctlv1.ClusterctlLabel:     "",
					clusterctlv1.ClusterctlCoreLabel: clusterctlv1.ClusterctlCoreLabelInventoryValue,
					clusterv1.ProviderNameLabel:      label,
				},
			},
			"providerName": one.name,
			"type":         one.kind,
			"version":      one.version,
		}}
		problems = append(problems, Apply(ctx, p.Client, namespace, entry))
	}

	return errors.Join(problems...)
}

// clusterAPI returns the providers of Cluster API itself.
func (p *Plane) clusterAPI() []provider {
	version := p.options.Tools.Version("plane", "sigs.k8s.io/cluster-api")

	return []provider{
		{"cluster-api", string(clusterctlv1.CoreProviderType), "capi-system", version},
		{"kubeadm", string(clusterctlv1.BootstrapProviderType), "capi-kubeadm-bootstrap-system", version},
		{"kubeadm", string(clusterctlv1.ControlPlaneProviderType), "capi-kubeadm-control-plane-system", version},
	}
}
