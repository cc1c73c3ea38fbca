package localplane

import (
	"context"
	"encoding/base64"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// fieldOwner owns the fields applied by this package.
const fieldOwner = client.FieldOwner("capolvm-localplane")

// Apply applies objects with server-side apply.
func Apply(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	return manifest.Apply(ctx, c, objects, fieldOwner, client.ForceOwnership)
}

// redirectWebhooks makes the webhooks and conversions of a manager use its URL. Their Services do not exist in a plane.
func redirectWebhooks(objects []*unstructured.Unstructured, manager string, port int, ca []byte) {
	url := func(path string) map[string]any {
		return map[string]any{
			"url":      fmt.Sprintf("https://127.0.0.1:%d%s", port, path),
			"caBundle": base64.StdEncoding.EncodeToString(ca),
		}
	}

	for _, object := range objects {
		switch object.GetKind() {
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			object.SetName(manager + "-" + object.GetName()) // all providers use the same names

			hooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
			for _, hook := range hooks {
				fields := hook.(map[string]any)
				path, _, _ := unstructured.NestedString(fields, "clientConfig", "service", "path")
				fields["clientConfig"] = url(path)
			}

			_ = unstructured.SetNestedSlice(object.Object, hooks, "webhooks")
		case "CustomResourceDefinition":
			if versions, _, _ := unstructured.NestedSlice(object.Object, "spec", "versions"); len(versions) > 1 {
				_ = unstructured.SetNestedMap(object.Object, map[string]any{
					"strategy": "Webhook",
					"webhook": map[string]any{
						"conversionReviewVersions": []any{"v1"},
						"clientConfig":             url("/convert"),
					},
				}, "spec", "conversion")
			}
		}
	}
}

// labelOwnContract labels the CRDs of Cluster API as its kustomization does: each version serves the contract with the
// same name.
func labelOwnContract(crds []*unstructured.Unstructured) {
	for _, crd := range crds {
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, version := range versions {
			name, _ := version.(map[string]any)["name"].(string)
			if name == "v1beta1" || name == "v1beta2" {
				setLabel(crd, "cluster.x-k8s.io/"+name, name)
			}
		}
	}
}

func setLabel(object *unstructured.Unstructured, key, value string) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}

	labels[key] = value
	object.SetLabels(labels)
}
