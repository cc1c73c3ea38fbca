package clusterfile

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"
)

// helm is the protocol of catalogs that are repositories of charts.
const helm = "helm"

// Chart is an application that can be installed: a chart of a repository, and its release.
type Chart struct {
	// Name of the chart in the Repository, whose URL it is. Empty Version means the newest.
	Name, Repository, Version string
	// Release and Namespace are what it becomes.
	Release, Namespace string
	Values             map[string]any
}

// Charts are the applications whose catalog is a repository of charts, in their order. The others are warnings of Problems.
func (s *Source) Charts() ([]Chart, error) {
	var out []Chart
	for i := range s.Applications {
		a := &s.Applications[i]
		repository, problem := s.repository(a)
		if problem != "" {
			continue
		}
		values, err := s.values(a)
		if err != nil {
			return nil, fmt.Errorf("applications: %s: %w", a.Name, err)
		}
		out = append(out, Chart{
			Name: a.Name, Repository: repository, Version: a.Version, Release: cmp.Or(a.Release, a.Name), Namespace: cmp.Or(a.Namespace, "default"), Values: values,
		})
	}
	return out, nil
}

// repository is where the chart of an application is, or why it cannot be had.
func (s *Source) repository(a *Application) (url, problem string) {
	for i := range s.Catalogs {
		if c := &s.Catalogs[i]; a.Catalog != "" && c.Name == a.Catalog {
			if cmp.Or(c.Protocol, helm) != helm || c.URI == "" {
				return "", fmt.Sprintf("its catalog %s is no repository of charts, with protocol: %s and a uri", c.Name, helm)
			}
			return c.URI, ""
		}
	}
	return "", fmt.Sprintf("its catalog %q is not one of catalogs", a.Catalog)
}

// values are those of an application's chart, with numbers as Helm reads them.
func (s *Source) values(a *Application) (map[string]any, error) {
	var text []byte
	var err error
	from := "config"
	switch {
	case !a.Config.IsZero() && a.ConfigFrom != "":
		return nil, errors.New("config and configFrom are there; remove one of them")
	case a.ConfigFrom != "":
		from = "configFrom"
		text, err = os.ReadFile(s.path(a.ConfigFrom))
	case a.Config.Kind == yaml.ScalarNode:
		text = []byte(a.Config.Value)
	case !a.Config.IsZero():
		text, err = yaml.Marshal(&a.Config)
	}
	var out map[string]any
	if err == nil {
		err = kyaml.Unmarshal(text, &out)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return out, nil
}

// checkApplications names those that cannot be installed.
func (s *Source) checkApplications() {
	for i := range s.Applications {
		a := &s.Applications[i]
		switch _, problem := s.repository(a); {
		case a.Name == "":
			s.note(false, "applications", "entry %d: name: it is needed", i+1)
		case problem != "":
			s.note(true, "applications", "%s is not installed: %s; give it to olvmctl start with --add-ons", a.Name, problem)
		default:
			if _, err := s.values(a); err != nil {
				s.note(false, "applications", "%s: %v", a.Name, err)
			}
		}
	}
	if s.CNI != "" && s.CNI != "none" {
		s.note(true, "cni", "it is not installed; give its manifests to olvmctl start with --add-on, or its chart with --add-ons")
	}
}
