package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	chartcommon "helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// chartTime is the time of all files in the chart, so that a version always has the same checksum.
var chartTime = time.Unix(0, 0)

const (
	chartName = "cluster-api-provider-olvm"
	// namespace is the namespace in config/default. The chart replaces it with the namespace of the Helm release.
	namespace = "capolvm-system"
)

// helmChart is a chart that is being made from kustomize's output.
type helmChart struct{ made *chartv2.Chart }

// digestAnnotation is the annotation of the chart that contains the digest of the image. The digest is not a value,
// because values outlive upgrades.
const digestAnnotation = "infrastructure.cluster.x-k8s.io/image-digest"

// writeChart writes a Helm chart from config/default. The objects are the same unless values change them. It has no
// Namespace, because Helm provides one. CRDs stay when the release is removed. Otherwise, the removal would delete all
// machines.
func writeChart(ctx context.Context, tools *toolchain.Toolchain, components []byte, r release) error {
	config := filepath.Join(tools.Root(), "config")
	monitoring, err := runKustomize(ctx, tools, filepath.Join(config, "monitoring"))
	if err != nil {
		return err
	}

	roles, err := os.ReadFile(filepath.Join(config, "namespaced", "roles.yaml"))
	if err != nil {
		return fmt.Errorf("failed to read the roles of one namespace: %w", err)
	}

	h := &helmChart{made: &chartv2.Chart{ModTime: chartTime, Metadata: chartMetadata(r.version)}}
	h.made.Metadata.Annotations = map[string]string{digestAnnotation: r.imageDigest}

	for _, part := range []struct {
		manifests []byte
		condition func(object *unstructured.Unstructured) string
	}{
		{components, conditionOfComponent},
		{monitoring, conditionOfMonitoring},
		{roles, func(*unstructured.Unstructured) string { return ".Values.watchNamespace" }},
	} {
		if err := h.addManifests(part.manifests, part.condition); err != nil {
			return err
		}
	}

	if err := h.addFiles(filepath.Join(config, "chart")); err != nil {
		return err
	}

	if _, err := chartutil.Save(h.made, r.out); err != nil {
		return fmt.Errorf("failed to write the chart: %w", err)
	}

	logProgress("a chart with %d templates", len(h.made.Templates))

	return nil
}

func chartMetadata(version string) *chartv2.Metadata {
	return &chartv2.Metadata{
		APIVersion:  chartv2.APIVersionV2,
		Name:        chartName,
		Version:     strings.TrimPrefix(version, "v"),
		AppVersion:  version,
		Type:        "application",
		Description: "Cluster API Provider OLVM: Kubernetes nodes on Oracle Linux Virtualization Manager and oVirt",
		Home:        "https://github.com/capolvm/cluster-api-provider-olvm",
		Sources:     []string{"https://github.com/capolvm/cluster-api-provider-olvm"},
		Keywords:    []string{"cluster-api", "olvm", "ovirt"},
		KubeVersion: ">= 1.31.0-0",
	}
}

// conditionOfComponent returns the condition on values under which the chart contains an object, or "".
func conditionOfComponent(object *unstructured.Unstructured) string {
	if object.GetKind() == "NetworkPolicy" {
		return ".Values.networkPolicy.enabled"
	}

	return ""
}

func conditionOfMonitoring(object *unstructured.Unstructured) string {
	switch object.GetKind() {
	case "PrometheusRule":
		return ".Values.monitoring.rules.enabled"
	case "ConfigMap":
		return ".Values.monitoring.dashboard.enabled"
	}

	return ".Values.monitoring.podMonitor.enabled" // also for the scrapers
}

// addManifests converts manifests to templates.
func (h *helmChart) addManifests(manifests []byte, condition func(*unstructured.Unstructured) string) error {
	objects, err := manifest.Read(manifests)
	if err != nil {
		return fmt.Errorf("failed to read what kustomize rendered: %w", err)
	}

	for _, object := range objects {
		if object.GetKind() == "Namespace" {
			continue
		}

		// This line comes first, because marks change the object.
		kind, name, condition := object.GetKind(), object.GetName(), condition(object)
		text, err := templateOf(object)
		if err != nil {
			return fmt.Errorf("the chart's %s %s: %w", kind, name, err)
		}

		if kind == "Deployment" {
			text = "{{- range $shard := .Values.shards | default (list \"\") }}\n---\n{{- with $ }}\n" + text +
				"{{- end }}\n{{- end }}\n"
		}

		if condition != "" {
			text = "{{- if " + condition + " }}\n" + text + "{{- end }}\n"
		}

		h.addTemplate(strings.ToLower(kind)+"-"+name+".yaml", []byte(text))
	}

	return nil
}

func (h *helmChart) addTemplate(name string, content []byte) {
	h.made.Templates = append(h.made.Templates, &chartcommon.File{
		Name: "templates/" + name, ModTime: chartTime, Data: content,
	})
}

// addFiles adds the handwritten files: the templates, the values, their schema, and the README.
func (h *helmChart) addFiles(folder string) error {
	files := map[string][]byte{}

	for _, name := range []string{
		"values.yaml", "values.schema.json", "README.md", "templates/NOTES.txt", "templates/poddisruptionbudget.yaml",
	} {
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return fmt.Errorf("failed to read a file of the chart: %w", err)
		}

		files[name] = content
	}

	h.made.Raw = []*chartcommon.File{{Name: "values.yaml", ModTime: chartTime, Data: files["values.yaml"]}}
	h.made.Schema, h.made.SchemaModTime = files["values.schema.json"], chartTime
	h.made.Files = []*chartcommon.File{{Name: "README.md", ModTime: chartTime, Data: files["README.md"]}}

	for _, name := range slices.Sorted(maps.Keys(files)) {
		if base, isTemplate := strings.CutPrefix(name, "templates/"); isTemplate {
			h.addTemplate(base, files[name])
		}
	}

	return nil
}
