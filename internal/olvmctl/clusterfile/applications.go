package clusterfile

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
	kyaml "sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
)

// helm is the catalog protocol of chart repositories.
const helm = "helm"

// Chart is an application to install: a chart in a repository, and the release to install it as.
type Chart struct {
	// Name is the name of the chart, and Repository the URL of its repository. If Version is empty, it is the newest
	// version.
	Name, Repository, Version string
	// Release and Namespace identify the installed release.
	Release, Namespace string
	Values             map[string]any
}

// Charts returns the charts of the applications, in their order in the file. Problems has warnings about the other
// applications.
func (s *Source) Charts() ([]Chart, error) {
	var out []Chart

	for i := range s.Applications {
		a := &s.Applications[i]
		repository, problem := s.chartRepository(a)
		if problem != "" {
			continue
		}

		values, err := s.chartValues(a)
		if err != nil {
			return nil, fmt.Errorf("applications: %s: %w", a.Name, err)
		}

		out = append(out, Chart{
			Name:       a.Name,
			Repository: repository,
			Version:    a.Version,
			Release:    cmp.Or(a.Release, a.Name),
			Namespace:  cmp.Or(a.Namespace, "default"),
			Values:     values,
		})
	}

	return out, nil
}

// chartRepository returns the URL of the repository of an application's chart, or the problem with it.
func (s *Source) chartRepository(a *Application) (url, problem string) {
	for i := range s.Catalogs {
		if c := &s.Catalogs[i]; a.Catalog != "" && c.Name == a.Catalog {
			if cmp.Or(c.Protocol, helm) != helm || c.URI == "" {
				return "", fmt.Sprintf("catalog %s is not a chart repository, with protocol: %s and a uri", c.Name,
					helm)
			}

			return c.URI, ""
		}
	}

	return "", fmt.Sprintf("no such catalog %q in catalogs", a.Catalog)
}

// chartValues returns the values for an application's chart. Numbers have Helm's types.
func (s *Source) chartValues(a *Application) (map[string]any, error) {
	var text []byte
	var err error
	from := "config"

	switch {
	case !a.Config.IsZero() && a.ConfigFrom != "":
		return nil, errors.New("config and configFrom cannot be set together; remove one of them")
	case a.ConfigFrom != "":
		from = "configFrom"
		text, err = manifest.ReadNamed(s.resolvePath(a.ConfigFrom))
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

// maxRelease is the maximum length of a release name in Helm.
const maxRelease = 53

// CheckUser rejects an oci URL of charts with a user name, because Helm does not accept one.
func CheckUser(of *url.URL) error {
	if of.Scheme == "oci" && of.User != nil {
		return errors.New("an oci URL cannot contain a user; remove it, and log in with helm registry login")
	}

	return nil
}

// checkCatalogs adds a problem for each unusable catalog. No problem repeats a URL, because the URL may contain a
// password.
func (s *Source) checkCatalogs() {
	seen := map[string]bool{}

	for i := range s.Catalogs {
		c := &s.Catalogs[i]
		if c.Name != "" && seen[c.Name] {
			s.noteEntry(
				false, "catalogs", i, "name",
				"%s: another catalog has the same name; rename or remove one of them", c.Name,
			)
		}

		seen[c.Name] = true
		if cmp.Or(c.Protocol, helm) != helm || c.URI == "" {
			continue // checkApplications reports it if an application needs it
		}

		switch uri, err := url.Parse(c.URI); {
		case err != nil || uri.Host == "" || !slices.Contains([]string{"http", "https", "oci"}, uri.Scheme):
			s.noteEntry(
				false, "catalogs", i, "uri",
				"%s: not an http, https or oci URL; use for example https://charts.example.com", c.Name,
			)
		default:
			if err := CheckUser(uri); err != nil {
				s.noteEntry(false, "catalogs", i, "uri", "%s: %v", c.Name, err)
			}
		}
	}
}

// checkApplications adds a problem for each application that cannot be installed.
func (s *Source) checkApplications() {
	s.checkCatalogs()
	releases := map[string]string{}

	for i := range s.Applications {
		a := &s.Applications[i]
		switch _, problem := s.chartRepository(a); {
		case a.Name == "":
			s.noteEntry(false, "applications", i, "", "name: required")
		case problem != "":
			s.noteEntry(true, "applications", i, "",
				"%s is not installed: %s; to install it, use olvmctl start --add-ons",
				a.Name, problem)
		default:
			if _, err := s.chartValues(a); err != nil {
				s.noteEntry(false, "applications", i, "", "%s: %v", a.Name, err)
			}

			s.checkRelease(i, releases)
		}
	}

	name, _, _ := strings.Cut(s.CNI, "@")
	if name != "" && name != NoNetworkPlugin && !slices.Contains(NetworkPlugins, name) {
		s.noteProblem(
			true, "cni",
			"%q is not installed: only %s are supported; to install it, use olvmctl start with its manifests in "+
				"--cni, or with its chart in --add-ons", s.CNI, strings.Join(NetworkPlugins, " and "),
		)
	}
}

// NetworkPlugins are the names of the plugins that olvmctl start can install.
var NetworkPlugins = []string{"calico", "flannel"}

// NoNetworkPlugin is the value in a cluster file for a plugin that the user installs. DefaultNetworkPlugin is the
// plugin if the file names none.
const (
	NoNetworkPlugin      = "none"
	DefaultNetworkPlugin = "flannel"
)

// NetworkPlugin returns the network plugin requested by the file. It returns "" if the file names none, and
// NoNetworkPlugin for an unknown plugin.
func (f *File) NetworkPlugin() string {
	name, _, _ := strings.Cut(f.CNI, "@")
	if name != "" && !slices.Contains(NetworkPlugins, name) {
		return NoNetworkPlugin
	}

	return f.CNI
}

// PodNetworks returns the pod networks as CIDRs.
func (f *File) PodNetworks() []string { return splitList(f.PodSubnet) }

// checkRelease checks the release of an application. releases maps the releases of earlier applications to their names.
func (s *Source) checkRelease(i int, releases map[string]string) {
	a := &s.Applications[i]
	release, namespace := cmp.Or(a.Release, a.Name), cmp.Or(a.Namespace, "default")
	if _, err := semver.NewConstraint(a.Version); a.Version != "" && err != nil {
		s.noteEntry(false, "applications", i, "version",
			"%s: %q is not a version or version constraint; use for example 1.2.3 or ^1.2", a.Name, a.Version)
	}

	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		s.noteEntry(false, "applications", i, "namespace", "%s: invalid namespace %q: %s", a.Name, namespace,
			strings.Join(problems, "; "))
	}

	problems := validation.IsDNS1123Subdomain(release)
	if len(release) > maxRelease {
		problems = append(problems, fmt.Sprintf("must be no more than %d characters", maxRelease))
	}

	if len(problems) > 0 {
		s.noteEntry(false, "applications", i, "release", "%s: invalid release name %q; use another name: %s", a.Name,
			release, strings.Join(problems, "; "))
	}

	key := namespace + "/" + release
	if other, ok := releases[key]; ok {
		s.noteEntry(false, "applications", i, "release",
			"%s: has the same release %s as %s; use another release or namespace", a.Name, key, other)
	}

	releases[key] = a.Name
}
