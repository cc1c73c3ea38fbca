package addon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// plugin is a network plugin that users can select by its name.
type plugin struct {
	// version is the default version.
	version string
	// url returns the URL of the manifests for a version.
	url func(version string) string
}

// plugins are the network plugins in clusterfile.NetworkPlugins, by name.
var plugins = map[string]plugin{
	"flannel": {"v0.27.0", func(version string) string {
		return "https://github.com/flannel-io/flannel/releases/download/" + version + "/kube-flannel.yml"
	}},
	"calico": {"v3.30.2", func(version string) string {
		return "https://raw.githubusercontent.com/projectcalico/calico/" + version + "/manifests/calico.yaml"
	}},
}

// readNetworkPlugin reads the manifests of a network plugin. asked is a known name, optionally with @VERSION, or a
// file, a folder or an https URL. pods are the pod networks of the cluster. For "none", it returns no add-on. For an
// empty name, it returns the default plugin, to be installed only if the cluster has no other plugin.
func readNetworkPlugin(ctx context.Context, asked string, pods []string) ([]AddOn, error) {
	if asked == clusterfile.NoNetworkPlugin {
		return nil, nil
	}

	isDefault := asked == ""
	asked = cmp.Or(asked, clusterfile.DefaultNetworkPlugin)
	from := asked
	name, version, _ := strings.Cut(asked, "@")

	if known, ok := plugins[name]; ok {
		if version == "" {
			version = known.version
		}

		from, asked = known.url(version), name+" "+version
	} else if !strings.ContainsAny(asked, "./") {
		return nil, fmt.Errorf(
			"%q is not supported; use %s, optionally with @VERSION, a file or an https URL, or %s",
			asked, strings.Join(clusterfile.NetworkPlugins, ", "), clusterfile.NoNetworkPlugin,
		)
	}

	objects, err := readManifests(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; without internet access, specify a file with the manifests, or %s", from, err,
			clusterfile.NoNetworkPlugin)
	}

	if err := setPodNetworks(objects, pods); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}

	return []AddOn{{Name: withoutUsers(asked), objects: objects, fallback: isDefault}}, nil
}

// pluginFolders are the folder with the plugin configurations of the container runtime, and its parent.
var pluginFolders = []string{"/etc/cni/net.d", "/etc/cni"}

// writesPluginFolder reports whether an object is the DaemonSet of a network plugin. Such a DaemonSet mounts the hosts'
// folder of plugin configurations.
func writesPluginFolder(object *unstructured.Unstructured) bool {
	if object.GetKind() != "DaemonSet" {
		return false
	}

	volumes, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "volumes")

	return slices.ContainsFunc(volumes, func(volume any) bool {
		fields, _ := volume.(map[string]any)
		folder, _, _ := unstructured.NestedString(fields, "hostPath", "path")

		return slices.Contains(pluginFolders, strings.TrimSuffix(folder, "/"))
	})
}

// isNetworkPlugin reports whether an add-on is a network plugin, judging by its DaemonSet. A chart that is not rendered
// yet is one if it names this folder.
func (a AddOn) isNetworkPlugin() bool {
	return slices.ContainsFunc(a.objects, writesPluginFolder) ||
		a.chart != nil && chartNames(a.chart.content, pluginFolders[0])
}

// isApplied reports whether olvmctl has applied an object.
func isApplied(object *unstructured.Unstructured) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == string(manifest.FieldOwner)
	})
}

// findOtherPlugin returns the name of a network plugin in the cluster that is not from this add-on, or "".
func (a AddOn) findOtherPlugin(ctx context.Context, c client.Client) (string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSetList"})

	if err := c.List(ctx, list); err != nil {
		return "", fmt.Errorf("failed to check for a network plugin: %w", err)
	}

	for i := range list.Items {
		found := &list.Items[i]
		own := isApplied(found) && slices.ContainsFunc(a.objects, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == found.GetKind() && o.GetName() == found.GetName() &&
				o.GetNamespace() == found.GetNamespace()
		})

		if !own && writesPluginFolder(found) {
			return found.GetNamespace() + "/" + found.GetName(), nil
		}
	}

	return "", nil
}

// setPodNetworks sets the pod networks of flannel, because its manifests have those in kubeadm's examples. Calico finds
// the pod networks by itself.
func setPodNetworks(objects []*unstructured.Unstructured, pods []string) error {
	for _, object := range objects {
		if object.GetKind() != "ConfigMap" || object.GetName() != "kube-flannel-cfg" {
			continue
		}

		fields := []string{"data", "net-conf.json"}
		text, _, _ := unstructured.NestedString(object.Object, fields...)

		var config map[string]any
		if err := json.Unmarshal([]byte(text), &config); err != nil {
			return fmt.Errorf("invalid configuration in its ConfigMap kube-flannel-cfg: %w", err)
		}

		config["EnableIPv4"] = false

		for _, pod := range pods {
			prefix, err := netip.ParsePrefix(pod)
			if err != nil {
				return fmt.Errorf("%q is not a CIDR block: %w", pod, err)
			}

			if prefix.Addr().Is4() {
				config["EnableIPv4"], config["Network"] = true, pod
			} else {
				config["EnableIPv6"], config["IPv6Network"] = true, pod
			}
		}

		changed, err := json.MarshalIndent(config, "", "  ")
		if err != nil {
			return fmt.Errorf("failed to encode its configuration: %w", err)
		}

		if err := unstructured.SetNestedField(object.Object, string(changed), fields...); err != nil {
			return fmt.Errorf("failed to set its configuration: %w", err)
		}
	}

	return nil
}
