package main

import (
	"bytes"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"
)

// marks are placeholders in an object for parts decided by values. Each is a line of its YAML, and becomes lines of a
// template with the same indentation.
type marks map[string]func(indent string) string

// entry replaces a field with a mark for the value, if any.
func (m marks) entry(of map[string]any, field, value string) {
	m.add(value, func(mark string) { of[field] = mark }, func(indent string) string {
		return fmt.Sprintf("{{- with .Values.%s }}\n%s%s:\n%s  {{- toYaml . | nindent %d }}\n{{- end }}\n",
			value, indent, field, indent, len(indent)+2)
	})
}

// items adds a mark to a list for the items of a value.
func (m marks) items(of map[string]any, field, value string) {
	m.add(value, func(mark string) {
		list, _ := of[field].([]any)
		of[field] = append(list, mark)
	}, func(indent string) string {
		return fmt.Sprintf("{{- with .Values.%s }}\n%s{{- toYaml . | nindent %d }}\n{{- end }}\n", value, indent,
			len(indent))
	})
}

// entries adds a mark to a mapping for the entries of a value.
func (m marks) entries(of map[string]any, value string) {
	m.add(value, func(mark string) { of[mark] = "" }, func(indent string) string {
		return fmt.Sprintf("{{- with .Values.%s }}\n%s{{- toYaml . | nindent %d }}\n{{- end }}\n", value, indent,
			len(indent))
	})
}

// lines inserts a mark at every position set by place, for a given template.
func (m marks) lines(name string, place func(mark string), template ...string) {
	m.add(name, place, func(indent string) string {
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

func (m marks) add(name string, place func(mark string), text func(indent string) string) {
	mark := "MARK-" + strings.ReplaceAll(name, ".", "-") + "-HERE"
	m[mark] = text
	place(mark)
}

// fill replaces the line of each mark.
func (m marks) fill(text string) (string, error) {
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
		if err := m.deployment(object); err != nil {
			return "", err
		}
	case "CustomResourceDefinition":
		annotations := object.GetAnnotations()
		annotations["helm.sh/resource-policy"] = "keep"
		object.SetAnnotations(annotations)
	case "ServiceAccount":
		if object.GetName() == "capolvm-manager" {
			m.entry(nested(object.Object, "metadata"), "annotations", "serviceAccount.annotations")
		}
	case "ClusterRole", "ClusterRoleBinding":
		if object.GetName() == "capolvm-manager" {
			m.oneNamespace(object)
		}
	case "NetworkPolicy":
		m.networkPolicy(object)
	case "PodMonitor":
		m.entry(nested(object.Object, "metadata"), "labels", "monitoring.podMonitor.labels")
	case "PrometheusRule":
		m.entry(nested(object.Object, "metadata"), "labels", "monitoring.rules.labels")
	}

	text, err := template(object)
	if err != nil {
		return "", err
	}

	return m.fill(text)
}

// template returns an object as a Helm template, in the namespace of the release.
func template(object *unstructured.Unstructured) (string, error) {
	content, err := yaml.Marshal(object.Object)
	if err != nil {
		return "", err
	}

	content = bytes.ReplaceAll(content, []byte("{{"), []byte(`{{ "{{" }}`))

	return strings.ReplaceAll(string(content), namespace, "{{ .Release.Namespace }}"), nil
}

// nested returns a mapping nested in an object, and creates it if it is missing.
func nested(of map[string]any, fields ...string) map[string]any {
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

// deployment marks the parts of the manager decided by values.
func (m marks) deployment(object *unstructured.Unstructured) error {
	pod := nested(object.Object, "spec", "template", "spec")
	containers, _ := pod["containers"].([]any)
	if len(containers) != 1 {
		return fmt.Errorf("%d containers", len(containers))
	}

	container, _ := containers[0].(map[string]any)
	m.container(container)

	for _, field := range []string{
		"nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "imagePullSecrets", "priorityClassName",
	} {
		m.entry(pod, field, field)
	}

	spec := nested(object.Object, "spec")
	m.lines("replicas", func(mark string) { spec["replicas"] = mark }, "replicas: {{ .Values.replicas }}")
	m.entry(nested(spec, "template", "metadata"), "annotations", "podAnnotations")
	m.entries(nested(spec, "template", "metadata", "labels"), "podLabels")
	m.shard(object)

	return nil
}

// shard marks the differences between the Deployments of shards. Each works on the objects with its label.
func (m marks) shard(object *unstructured.Unstructured) {
	m.lines("name", func(mark string) { nested(object.Object, "metadata")["name"] = mark },
		"name: "+object.GetName()+"{{ with $shard }}-{{ . }}{{ end }}")

	for name, of := range map[string]map[string]any{
		"shardSelector": nested(object.Object, "spec", "selector", "matchLabels"),
		"shardLabel":    nested(object.Object, "spec", "template", "metadata", "labels"),
	} {
		m.lines(name, func(mark string) { of[mark] = "" },
			`{{- with $shard }}`, clusterv1.WatchLabel+`: {{ . }}`, `{{- end }}`)
	}
}

func (m marks) container(container map[string]any) {
	m.lines("image", func(mark string) { container["image"] = mark },
		`image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}`+
			`{{ with .Values.image.digest | default (ternary (index .Chart.Annotations "`+digestAnnotation+`") "" `+
			`(empty .Values.image.tag)) }}@{{ . }}{{ end }}"`)
	m.entry(container, "imagePullPolicy", "image.pullPolicy")
	m.entry(container, "resources", "resources")
	m.items(container, "args", "extraArgs")

	args, _ := container["args"].([]any)
	m.lines("watchNamespace", func(mark string) { container["args"] = append([]any{mark}, args...) },
		`{{- with .Values.watchNamespace }}`, `- --namespace={{ . }}`, `{{- end }}`,
		`{{- with $shard }}`, `- --watch-filter={{ . }}`, `{{- end }}`)

	// Without a request, GOMEMLIMIT would refer to 0.
	m.lines("GOMEMLIMIT", func(mark string) { container["env"] = []any{mark} },
		`{{- if ((.Values.resources).requests).memory }}`,
		`- name: GOMEMLIMIT`,
		`  valueFrom: {resourceFieldRef: {containerName: manager, resource: requests.memory}}`,
		`{{- end }}`,
		`{{- range $name, $value := .Values.proxy }}`,
		`{{- with $value }}`,
		`- {name: {{ snakecase $name | upper }}, value: {{ quote . }}}`,
		`{{- end }}`,
		`{{- end }}`)
	m.items(container, "env", "env")
}

// oneNamespace replaces the manager's rights in all namespaces with a Role and its binding.
func (m marks) oneNamespace(object *unstructured.Unstructured) {
	kind := object.GetKind()
	role := strings.TrimPrefix(kind, "Cluster")
	choice := `{{ if .Values.watchNamespace }}` + role + `{{ else }}` + kind + `{{ end }}`

	m.lines("kind", func(mark string) { object.Object["kind"] = mark }, "kind: "+choice)
	m.lines("namespace", func(mark string) { nested(object.Object, "metadata")["namespace"] = mark },
		`{{- with .Values.watchNamespace }}`, `namespace: {{ . }}`, `{{- end }}`)

	if ref, isBinding := object.Object["roleRef"].(map[string]any); isBinding {
		m.lines("roleRef", func(mark string) { ref["kind"] = mark },
			`kind: {{ if .Values.watchNamespace }}Role{{ else }}ClusterRole{{ end }}`)
	}
}

// networkPolicy marks the ports open to every address.
func (m marks) networkPolicy(object *unstructured.Unstructured) {
	rules, _, _ := unstructured.NestedSlice(object.Object, "spec", "egress")
	egress := make([]any, 0, len(rules))

	for _, rule := range rules {
		ports, _ := rule.(map[string]any)["ports"].([]any)
		if len(ports) == 1 && fmt.Sprint(ports[0]) == "map[port:6443 protocol:TCP]" {
			m.lines("networkPolicy", func(mark string) { egress = append(egress, mark) },
				`{{- with .Values.networkPolicy.apiServerPorts }}`, `- ports:`, `{{- range . }}`,
				`  - {protocol: TCP, port: {{ . }}}`, `{{- end }}`, `{{- end }}`)

			continue
		}

		egress = append(egress, rule)
	}

	nested(object.Object, "spec")["egress"] = egress
}
