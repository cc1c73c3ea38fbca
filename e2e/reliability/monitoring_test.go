package reliability

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/poolvm"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testsite"
)

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{suite.Tools.Root()}, path...)...))
	if err != nil {
		t.Fatal(err)
	}

	return content
}

// query is a query of our metrics, and the place that contains it.
type query struct{ where, text string }

// queries returns the queries of the alert rules and of the dashboard, and the names of the rules and panels.
func queries(t *testing.T) (out []query, names []string) {
	t.Helper()
	var rules struct {
		Spec struct {
			Groups []struct {
				Rules []struct{ Alert, Expr string }
			}
		}
	}
	if err := yaml.Unmarshal(read(t, "config", "monitoring", "alerts.yaml"), &rules); err != nil {
		t.Fatal(err)
	}

	for _, group := range rules.Spec.Groups {
		for _, rule := range group.Rules {
			out, names = append(out, query{"alert " + rule.Alert, rule.Expr}), append(names, rule.Alert)
		}
	}

	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(read(t, "config", "monitoring", "dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}

	for _, panel := range dashboard.Panels {
		names = append(names, panel.Title)
		for _, target := range panel.Targets {
			out = append(out, query{"panel " + panel.Title, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")})
		}
	}

	return out, names
}

// matches reports whether any series of the family matches the filter.
func matches(family *dto.MetricFamily, filter metricsql.LabelFilter) bool {
	return slices.ContainsFunc(family.Metric, func(m *dto.Metric) bool {
		return slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool {
			switch {
			case l.GetName() != filter.Label:
				return false
			case filter.IsNegative || filter.Label == "code": // there may be no failures
				return true
			case filter.IsRegexp:
				return regexp.MustCompile("^(?:" + filter.Value + ")$").MatchString(l.GetValue())
			}

			return l.GetValue() == filter.Value
		})
	})
}

// familyOf returns the family that contains a series with this name. A histogram contains the series of its buckets,
// its sum and its count.
func familyOf(families map[string]*dto.MetricFamily, name string) *dto.MetricFamily {
	if family := families[name]; family != nil {
		return family
	}

	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && families[base].GetType() == dto.MetricType_HISTOGRAM {
			return families[base]
		}
	}

	return nil
}

// TestAlertsAndDashboardAskForWhatThereIs compares the queries in config/monitoring with the metrics of a manager. This
// manager has created, changed and deleted a machine. It compares docs/operate/metrics.md with both.
func TestAlertsAndDashboardAskForWhatThereIs(t *testing.T) {
	t.Parallel()
	b := newBench(t, withoutGroups, electing...)
	b.site.Create(poolvm.NewInventory(b.site.OLVM, "lab"))
	m := b.site.CreateMachine("one", full)
	b.expectReady(b.site, m)
	testsite.UpdateObject(b.site, m, func(m *infrav1.OLVMMachine) { m.Spec.VirtualMachine.Description = "second" })
	b.expectDescription(b.site, m, "second")
	b.end(b.site, m)
	families := b.ScrapeMetrics(t)
	asked, names := queries(t)
	if len(asked) < 20 {
		t.Errorf("only %d queries were found", len(asked))
	}

	used := map[string]bool{}

	for _, q := range asked {
		expression, err := metricsql.Parse(q.text)
		if err != nil {
			t.Errorf("%s: %v", q.where, err)
			continue
		}

		// Prometheus adds the namespace of the manager's Pod. It renames our own label unless honorLabels is set.
		known := map[string]bool{"le": true, "namespace": true, "exported_namespace": true}
		var by []string
		metricsql.VisitAll(expression, func(e metricsql.Expr) {
			switch e := e.(type) {
			case *metricsql.AggrFuncExpr:
				by = append(by, e.Modifier.Args...)
			case *metricsql.MetricExpr:
				for _, filters := range e.LabelFilterss {
					name := filters[0].Value
					family := familyOf(families, name)
					if family == nil || len(family.Metric) == 0 {
						t.Errorf("%s asks for %s, which the manager does not have", q.where, name)
						continue
					}

					used[family.GetName()] = true
					for _, label := range family.Metric[0].Label {
						known[label.GetName()] = true
					}

					for _, filter := range filters[1:] {
						if filter.Label != "job" && !matches(family, filter) {
							t.Errorf("%s asks for %s with %s, and no series has that", q.where, name,
								string(filter.AppendString(nil)))
						}
					}
				}
			}
		})

		for _, label := range by {
			if !known[label] {
				t.Errorf("%s groups by %s, which no series has", q.where, label)
			}
		}
	}

	text := string(read(t, "docs", "operate", "metrics.md"))
	for _, name := range names {
		if !strings.Contains(text, "**"+name+"**") && !strings.Contains(text, "`"+name+"`") {
			t.Errorf("docs/operate/metrics.md says nothing of %s", name)
		}
	}

	for name, family := range families {
		if !strings.HasPrefix(name, "capolvm_") {
			continue
		}

		if !used[name] {
			t.Errorf("nobody looks at %s", name)
		}

		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("docs/operate/metrics.md says nothing of %s: %s", name, family.GetHelp())
		}
	}
}
