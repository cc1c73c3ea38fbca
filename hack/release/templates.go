package main

import (
	"bytes"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"
)

// marks are placeholders in an object for parts that depend on values. Each mark is a line of the object's YAML. It
// becomes lines of a template with the same indentation.
type marks map[string]func(indent string) string

// markField replaces a field with a mark for the given value, if the value is set.
func (m marks) markField(of map[string]any, field, value string) {
	m.addMark(value, func(mark string) { of[field] = mark }, func(indent string) string {
		return fmt.Sprintf("{{- with .Values.%s }}\n%s%s:\n%s  {{- toYaml . | nindent %d }}\n{{- end }}\n",
			value, indent, field, indent, len(indent)+2)
	})
}

// markItems adds a mark to a list for the items of the given value.
func (m marks) markItems(of map[string]any, field, value string) {
	m.addMark(value, func(mark string) {
		list, _ := of[field].([]any)
		of[field] = append(list, mark)
	}, func(indent string) string {
		return fmt.Sprintf("{{- with .Values.%s }}\n%s{{- toYaml . | nindent %d }}\n{{- end }}\n", value, indent,
			len(indent))
	})
}

// markEntries adds a mark to a mapping for the entries of the given value.
func (m marks) markEntries(of map[string]any, value string) {
	m.addMark(value, func(mark string) { of[mark] = "" }, func(indent string) string {
		return fmt.Sprintf("{{- with .Values.%s }}\n%s{{- toYaml . | nindent %d }}\n{{- end }}\n", value, indent,
			len(indent))
	})
}

// markLines lets place insert a mark into the object. The lines of the template replace the mark.
func (m marks) markLines(name string, place func(mark string), template ...string) {
	m.addMark(name, place, func(indent string) string {
		text := ""

		for _, line := range template {
			if !strings.HasPrefix(line, "{{-") {
				line = indent + line
			}

			text += line + "\n"
		}

		return text
	})
}

func (m marks) addMark(name string, place func(mark string), text func(indent string) string) {
	mark := "MARK-" + strings.ReplaceAll(name, ".", "-") + "-HERE"
	m[mark] = text
	place(mark)
}

// fillMarks replaces the line of each mark in a text.
func (m marks) fillMarks(text string) (string, error) {
	var filled strings.Builder

	used := 0

	for line := range strings.Lines(text) {
		replaced := false

		for mark, template := range m {
			if strings.Contains(line, mark) {
				indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
				filled.WriteString(template(indent))
				used++
				replaced = true
			}
		}

		if !replaced {
			filled.WriteString(line)
		}
	}

	if used != len(m) {
		return "", fmt.Errorf("%d of %d marks stand in it once", used, len(m))
	}

	return filled.String(), nil
}

// templateOf returns the template of an object.
func templateOf(object *unstructured.Unstructured) (string, error) {
	m := marks{}

	switch object.GetKind() {
	case "Deployment":
		if err := m.markDeployment(object); err != nil {
			return "", err
		}
	case "CustomResourceDefinition":
		annotations := object.GetAnnotations()
		annotations["helm.sh/resource-policy"] = "keep"
		object.SetAnnotations(annotations)
	case "ServiceAccount":
		if object.GetName() == "capolvm-manager" {
			m.markField(ensureMapping(object.Object, "metadata"), "annotations", "serviceAccount.annotations")
		}
	case "ClusterRole", "ClusterRoleBinding":
		if object.GetName() == "capolvm-manager" {
			m.markOneNamespace(object)
		}
	case "NetworkPolicy":
		m.markNetworkPolicy(object)
	case "PodMonitor":
		m.markField(ensureMapping(object.Object, "metadata"), "labels", "monitoring.podMonitor.labels")
	case "PrometheusRule":
		m.markField(ensureMapping(object.Object, "metadata"), "labels", "monitoring.rules.labels")
	}

	text, err := helmTemplate(object)
	if err != nil {
		return "", err
	}

	return m.fillMarks(text)
}

// helmTemplate returns an object as a Helm template, in the namespace of the release.
func helmTemplate(object *unstructured.Unstructured) (string, error) {
	content, err := yaml.Marshal(object.Object)
	if err != nil {
		return "", err
	}

	content = bytes.ReplaceAll(content, []byte("{{"), []byte(`{{ "{{" }}`))

	return strings.ReplaceAll(string(content), namespace, "{{ .Release.Namespace }}"), nil
}

// ensureMapping returns a mapping nested in an object, and creates missing mappings.
func ensureMapping(of map[string]any, fields ...string) map[string]any {
	for _, field := range fields {
		inner, isMapping := of[field].(map[string]any)
		if !isMapping {
			inner = map[string]any{}
			of[field] = inner
		}

		of = inner
	}

	return of
}

// markDeployment marks the parts of the manager that depend on values.
func (m marks) markDeployment(object *unstructured.Unstructured) error {
	pod := ensureMapping(object.Object, "spec", "template", "spec")
	containers, _ := pod["containers"].([]any)
	if len(containers) != 1 {
		return fmt.Errorf("%d containers", len(containers))
	}

	container, _ := containers[0].(map[string]any)
	m.markContainer(container)

	for _, field := range []string{
		"nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "imagePullSecrets", "priorityClassName",
	} {
		m.markField(pod, field, field)
	}

	spec := ensureMapping(object.Object, "spec")
	m.markLines("replicas", func(mark string) { spec["replicas"] = mark }, "replicas: {{ .Values.replicas }}")
	m.markField(ensureMapping(spec, "template", "metadata"), "annotations", "podAnnotations")
	m.markEntries(ensureMapping(spec, "template", "metadata", "labels"), "podLabels")
	m.markShards(object)

	return nil
}

// markShards marks the differences between the Deployments of shards. Each shard works on the objects with its label.
func (m marks) markShards(object *unstructured.Unstructured) {
	m.markLines("name", func(mark string) { ensureMapping(object.Object, "metadata")["name"] = mark },
		"name: "+object.GetName()+"{{ with $shard }}-{{ . }}{{ end }}")

	for name, of := range map[string]map[string]any{
		"shardSelector": ensureMapping(object.Object, "spec", "selector", "matchLabels"),
		"shardLabel":    ensureMapping(object.Object, "spec", "template", "metadata", "labels"),
	} {
		m.markLines(name, func(mark string) { of[mark] = "" },
			`{{- with $shard }}`, clusterv1.WatchLabel+`: {{ . }}`, `{{- end }}`)
	}
}

func (m marks) markContainer(container map[string]any) {
	m.markLines("image", func(mark string) { container["image"] = mark },
		`image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}`+
			`{{ with .Values.image.digest | default (ternary (index .Chart.Annotations "`+digestAnnotation+`") "" `+
			`(empty .Values.image.tag)) }}@{{ . }}{{ end }}"`)
	m.markField(container, "imagePullPolicy", "image.pullPolicy")
	m.markField(container, "resources", "resources")
	m.markItems(container, "args", "extraArgs")

	args, _ := container["args"].([]any)
	m.markLines("watchNamespace", func(mark string) { container["args"] = append([]any{mark}, args...) },
		`{{- with .Values.watchNamespace }}`, `- --namespace={{ . }}`, `{{- end }}`,
		`{{- with $shard }}`, `- --watch-filter={{ . }}`, `{{- end }}`)

	// Without a memory request, GOMEMLIMIT would refer to 0.
	m.markLines("GOMEMLIMIT", func(mark string) { container["env"] = []any{mark} },
		`{{- if ((.Values.resources).requests).memory }}`,
		`- name: GOMEMLIMIT`,
		`  valueFrom: {resourceFieldRef: {containerName: manager, resource: requests.memory}}`,
		`{{- end }}`,
		`{{- range $name, $value := .Values.proxy }}`,
		`{{- with $value }}`,
		`- {name: {{ snakecase $name | upper }}, value: {{ quote . }}}`,
		`{{- end }}`,
		`{{- end }}`)
	m.markItems(container, "env", "env")
}

// markOneNamespace replaces the manager's rights in all namespaces with a Role and its binding.
func (m marks) markOneNamespace(object *unstructured.Unstructured) {
	kind := object.GetKind()
	role := strings.TrimPrefix(kind, "Cluster")
	choice := `{{ if .Values.watchNamespace }}` + role + `{{ else }}` + kind + `{{ end }}`

	m.markLines("kind", func(mark string) { object.Object["kind"] = mark }, "kind: "+choice)
	m.markLines("namespace", func(mark string) { ensureMapping(object.Object, "metadata")["namespace"] = mark },
		`{{- with .Values.watchNamespace }}`, `namespace: {{ . }}`, `{{- end }}`)

	if ref, isBinding := object.Object["roleRef"].(map[string]any); isBinding {
		m.markLines("roleRef", func(mark string) { ref["kind"] = mark },
			`kind: {{ if .Values.watchNamespace }}Role{{ else }}ClusterRole{{ end }}`)
	}
}

// markNetworkPolicy marks the ports that are open to every address.
func (m marks) markNetworkPolicy(object *unstructured.Unstructured) {
	rules, _, _ := unstructured.NestedSlice(object.Object, "spec", "egress")
	egress := make([]any, 0, len(rules))

	for _, rule := range rules {
		ports, _ := rule.(map[string]any)["ports"].([]any)
		if len(ports) == 1 && fmt.Sprint(ports[0]) == "map[port:6443 protocol:TCP]" {
			m.markLines("networkPolicy", func(mark string) { egress = append(egress, mark) },
				`{{- with .Values.networkPolicy.apiServerPorts }}`, `- ports:`, `{{- range . }}`,
				`  - {protocol: TCP, port: {{ . }}}`, `{{- end }}`, `{{- end }}`)

			continue
		}

		egress = append(egress, rule)
	}

	ensureMapping(object.Object, "spec")["egress"] = egress
}
