package config_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
)

// alertRules are the rules of a PrometheusRule, in the format of a Prometheus file.
type alertRules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			For         string            `json:"for,omitempty"`
			Labels      map[string]string `json:"labels,omitempty"`
			Annotations map[string]string `json:"annotations,omitempty"`
		} `json:"rules"`
	} `json:"groups"`
}

// TestEachAlertFiresWhenItShouldAndOnlyThen has Prometheus's own promtool evaluate the alerts. It expects exactly the
// listed alerts, with their labels and summaries. Each alert has a firing and a quiet case.
func TestEachAlertFiresWhenItShouldAndOnlyThen(t *testing.T) {
	t.Parallel()
	rules := shippedAlerts(t)
	dir := t.TempDir()
	writeYAML(t, filepath.Join(dir, "complete.yaml"), rules)
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", filepath.Join(dir, "complete.yaml"))

	for _, rule := range rules.Groups[0].Rules {
		delete(rule.Annotations, "description")
	}

	cases, err := os.ReadFile("monitoring/tests/alerts.yaml")
	check.Error(t, err, "")
	writeYAML(t, filepath.Join(dir, "rules.yaml"), rules)
	check.Error(t, os.WriteFile(filepath.Join(dir, "alerts.yaml"), cases, 0o600), "")
	promtool(t, "test", "rules", filepath.Join(dir, "alerts.yaml"))

	fires, isQuiet := casesOfAlerts(t, cases)
	for _, rule := range rules.Groups[0].Rules {
		check.Equal(t, rule.Alert+": a case in which it fires", fires[rule.Alert], true)
		check.Equal(t, rule.Alert+": a case in which it does not fire", isQuiet[rule.Alert], true)
	}
}

func shippedAlerts(t *testing.T) *alertRules {
	t.Helper()
	content, err := os.ReadFile("monitoring/alerts.yaml")
	check.Error(t, err, "")

	var resource struct {
		Spec alertRules `json:"spec"`
	}

	check.Error(t, yaml.Unmarshal(content, &resource), "")
	check.Equal(t, "groups of alerts", len(resource.Spec.Groups), 1)

	return &resource.Spec
}

func writeYAML(t *testing.T, path string, object any) {
	t.Helper()
	content, err := yaml.Marshal(object)
	check.Error(t, err, "")
	check.Error(t, os.WriteFile(path, content, 0o600), "")
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	tools := testenv.Toolchain(t)
	check.Error(t, tools.Build(t.Context(), "prometheus"), "")
	program, err := tools.Path("prometheus", "promtool")
	check.Error(t, err, "")

	if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

// casesOfAlerts returns the alerts expected to fire in some case, and those expected to be quiet in some case.
func casesOfAlerts(t *testing.T, content []byte) (fires, isQuiet map[string]bool) {
	t.Helper()

	var file struct {
		Tests []struct {
			Alerts []struct {
				Name     string `json:"alertname"`
				Expected []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}

	check.Error(t, yaml.Unmarshal(content, &file), "")
	fires, isQuiet = map[string]bool{}, map[string]bool{}

	for _, test := range file.Tests {
		for _, alert := range test.Alerts {
			if len(alert.Expected) > 0 {
				fires[alert.Name] = true
			} else {
				isQuiet[alert.Name] = true
			}
		}
	}

	return fires, isQuiet
}

// TestTheNamespaceOfAPoolIsNotTheManagers reads the PodMonitor. Only the Prometheus operator turns it into a
// configuration; the meaning of honorLabels comes from Prometheus's documentation.
func TestTheNamespaceOfAPoolIsNotTheManagers(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("monitoring/podmonitor.yaml")
	check.Error(t, err, "")

	var monitor struct {
		Spec struct {
			PodMetricsEndpoints []struct {
				HonorLabels bool `json:"honorLabels"`
			} `json:"podMetricsEndpoints"`
		} `json:"spec"`
	}

	check.Error(t, yaml.Unmarshal(content, &monitor), "")
	check.Equal(t, "endpoints", len(monitor.Spec.PodMetricsEndpoints), 1)
	check.Equal(t, "labels of the manager stay", monitor.Spec.PodMetricsEndpoints[0].HonorLabels, true)
}
