package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	chartcommon "helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/manifest"
)

// chartTime is that of all files of the chart, whose checksum is the same for the same version.
var chartTime = time.Unix(0, 0)

const (
	chartName = "cluster-api-provider-olvm"
	// namespace of config/default, whose place that of the Helm release takes.
	namespace = "capolvm-system"
)

// chart writes a Helm chart of what config/default makes, as kustomize has rendered it: the objects are the same, but
// for what values change. There is no Namespace, which is Helm's, and CRDs stay when the release is removed, for with
// them all machines would be deleted.
func chart(components []byte, version, out string) error {
	objects, err := manifest.Read(components)
	if err != nil {
		return fmt.Errorf("failed to read config/default: %w", err)
	}

	made := &chartv2.Chart{ModTime: chartTime, Metadata: chartMetadata(version)}
	values := map[string]any{}

	for _, object := range objects {
		if object.GetKind() == "Namespace" {
			continue
		}

		text, err := templateOf(object, values)
		if err != nil {
			return fmt.Errorf("the chart's %s %s: %w", object.GetKind(), object.GetName(), err)
		}

		made.Templates = append(made.Templates, &chartcommon.File{
			Name:    "templates/" + strings.ToLower(object.GetKind()) + "-" + object.GetName() + ".yaml",
			ModTime: chartTime,
			Data:    []byte(text),
		})
	}

	content, err := yaml.Marshal(values)
	if err != nil {
		return fmt.Errorf("failed to encode the chart's values: %w", err)
	}

	made.Raw = []*chartcommon.File{{
		Name: "values.yaml", ModTime: chartTime, Data: append([]byte(valuesHead), content...),
	}}
	if _, err := chartutil.Save(made, out); err != nil {
		return fmt.Errorf("failed to write the chart: %w", err)
	}

	say("a chart with %d templates", len(made.Templates))

	return nil
}

const valuesHead = `# Values of the manager's Deployment.
# extraArgs are flags of the manager, such as --terraform-concurrency=8.
`

func chartMetadata(version string) *chartv2.Metadata {
	return &chartv2.Metadata{
		APIVersion:  chartv2.APIVersionV2,
		Name:        chartName,
		Version:     strings.TrimPrefix(version, "v"),
		AppVersion:  version,
		Type:        "application",
		Description: "Cluster API Provider OLVM: Kubernetes nodes on Oracle Linux Virtualization Manager and oVirt",
		Home:        "https://github.com/capolvm/cluster-api-provider-olvm",
		KubeVersion: ">= 1.30.0-0",
	}
}

// templateOf is the template of an object. That of the Deployment says which values there are.
func templateOf(object *unstructured.Unstructured, values map[string]any) (string, error) {
	switch object.GetKind() {
	case "Deployment":
		return deployment(object, values)
	case "CustomResourceDefinition":
		annotations := object.GetAnnotations()
		annotations["helm.sh/resource-policy"] = "keep"
		object.SetAnnotations(annotations)
	}

	return template(object)
}

// template is an object as a template of Helm, in the namespace of the release.
func template(object *unstructured.Unstructured) (string, error) {
	content, err := yaml.Marshal(object.Object)
	if err != nil {
		return "", err
	}

	content = bytes.ReplaceAll(content, []byte("{{"), []byte(`{{ "{{" }}`))

	return strings.ReplaceAll(string(content), namespace, "{{ .Release.Namespace }}"), nil
}

// setting is a value of the chart, and what stands for it in the Deployment: an entry of a mapping, or one more of a
// list.
type setting struct {
	value  string
	fields []string
	// indent is that of the text below the field.
	indent int
	// more is added to the list that is there.
	more bool
}

// settings are those of the pods. Their defaults are what the Deployment has.
var settings = []setting{
	{value: "nodeSelector", fields: []string{"nodeSelector"}, indent: 8},
	{value: "affinity", fields: []string{"affinity"}, indent: 8},
	{value: "tolerations", fields: []string{"tolerations"}, indent: 6},
	{value: "imagePullSecrets", fields: []string{"imagePullSecrets"}, indent: 6},
	{value: "priorityClassName", fields: []string{"priorityClassName"}},
	{value: "resources", fields: []string{"containers", "resources"}, indent: 10},
	{value: "extraArgs", fields: []string{"containers", "args"}, indent: 8, more: true},
}

// deployment is the template of the Deployment; its values get their defaults.
func deployment(object *unstructured.Unstructured, values map[string]any) (string, error) {
	pod, _, err := unstructured.NestedMap(object.Object, "spec", "template", "spec")
	if err != nil {
		return "", err
	}

	containers, _, err := unstructured.NestedSlice(pod, "containers")
	if err != nil || len(containers) != 1 {
		return "", fmt.Errorf("%d containers: %w", len(containers), err)
	}

	container, _ := containers[0].(map[string]any)
	replaced := map[string]string{}

	for _, s := range settings {
		of := pod
		if len(s.fields) == 2 {
			of = container
		}

		s.apply(of, values, replaced)
	}

	repository, _, _ := strings.Cut(devImage, ":")
	values["image"] = map[string]any{"repository": repository, "tag": ""}
	container["image"] = "IMAGE"
	replaced["IMAGE"] = "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"

	values["replicas"], _, _ = unstructured.NestedInt64(object.Object, "spec", "replicas")
	replaced["replicas: "+fmt.Sprint(values["replicas"])] = "replicas: {{ .Values.replicas }}"

	pod["containers"] = []any{container}
	if err := unstructured.SetNestedMap(object.Object, pod, "spec", "template", "spec"); err != nil {
		return "", err
	}

	text, err := template(object)
	if err != nil {
		return "", err
	}

	for from, to := range replaced {
		if strings.Count(text, from) != 1 {
			return "", fmt.Errorf("%q stands in it %d times", from, strings.Count(text, from))
		}

		text = strings.Replace(text, from, to, 1)
	}

	return text, nil
}

// apply puts a mark in the place of a field, and says what the mark becomes.
func (s setting) apply(of, values map[string]any, replaced map[string]string) {
	field := s.fields[len(s.fields)-1]
	mark := "VALUE-" + s.value

	if s.more {
		list, _ := of[field].([]any)
		of[field] = append(list, mark)
		values[s.value] = []any{}
		replaced["        - "+mark+"\n"] = fmt.Sprintf("{{- with .Values.%s }}{{ toYaml . | nindent %d }}{{ end }}\n",
			s.value, s.indent)

		return
	}

	values[s.value] = of[field]
	line := strings.Repeat(" ", 6)
	if len(s.fields) == 2 {
		line = strings.Repeat(" ", 8)
	}

	inner := "{{ . }}"
	if s.indent > 0 {
		inner = fmt.Sprintf("{{ toYaml . | nindent %d }}", s.indent)
	}

	replaced[line+field+": "+mark+"\n"] = fmt.Sprintf("{{- with .Values.%s }}\n%s%s: %s\n{{- end }}\n", s.value, line,
		field, inner)
	of[field] = mark
}
