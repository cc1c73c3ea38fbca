package addon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/registry"
	releasecommon "helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage/driver"
	"sigs.k8s.io/yaml"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
)

// listEntry is an entry in a list of add-ons: manifests or a chart.
type listEntry struct {
	Name string `json:"name"`
	// Manifests are files, folders and https URLs.
	Manifests []string `json:"manifests,omitempty"`
	// Chart is a folder, an archive, an oci:// reference, or the name of a chart in Repository. Namespace is the
	// namespace of its release.
	Chart      string         `json:"chart,omitempty"`
	Repository string         `json:"repository,omitempty"`
	Version    string         `json:"version,omitempty"`
	Namespace  string         `json:"namespace,omitempty"`
	Values     map[string]any `json:"values,omitempty"`
}

// readList reads a list of add-ons. Paths in the list are relative to its folder.
func readList(path string) ([]listEntry, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}

	var list []listEntry
	if err := yaml.UnmarshalStrict(content, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	from := func(name string) string {
		if name == "" || filepath.IsAbs(name) || strings.Contains(name, "://") {
			return name
		}

		beside := filepath.Join(filepath.Dir(path), name)
		if _, err := os.Stat(beside); err != nil {
			return name
		}

		return beside
	}

	for i := range list {
		entry := &list[i]
		switch {
		case entry.Name == "":
			return nil, fmt.Errorf("%s: entry %d: name: required", path, i+1)
		case (entry.Chart == "") == (len(entry.Manifests) == 0):
			return nil, fmt.Errorf("%s: %s: set either manifests or chart", path, entry.Name)
		case entry.Chart == "" &&
			(entry.Repository != "" || entry.Version != "" || entry.Namespace != "" || len(entry.Values) > 0):
			return nil, fmt.Errorf("%s: %s: repository, version, namespace and values require chart", path, entry.Name)
		}

		for j, name := range entry.Manifests {
			entry.Manifests[j] = from(name)
		}

		if entry.Repository == "" {
			entry.Chart = from(entry.Chart)
		}

		if entry.Namespace == "" {
			entry.Namespace = "default"
		}
	}

	return list, nil
}

// chart is a loaded chart, ready for a release.
type chart struct {
	listEntry
	content *chartv2.Chart
}

// chartNames reports whether the templates or values of a chart, or of its dependencies, contain a text.
func chartNames(content *chartv2.Chart, text string) bool {
	has := func(file *common.File) bool { return bytes.Contains(file.Data, []byte(text)) }

	return slices.ContainsFunc(content.Templates, has) || slices.ContainsFunc(content.Raw, has) ||
		slices.ContainsFunc(content.Dependencies(), func(d *chartv2.Chart) bool { return chartNames(d, text) })
}

// loadChart loads a chart. If necessary, it downloads the chart from its repository or registry.
func loadChart(entry listEntry) (*chart, error) {
	for field, text := range map[string]string{"repository": entry.Repository, "chart": entry.Chart} {
		if err := checkURL(text); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
	}

	settings := cli.New()
	client, err := registry.NewClient(registry.ClientOptWriter(io.Discard))
	if err != nil {
		return nil, fmt.Errorf("failed to create a client of registries: %w", err)
	}

	configuration := action.NewConfiguration()
	configuration.RegistryClient = client
	find := action.NewInstall(configuration)
	find.RepoURL, find.Version = entry.Repository, entry.Version
	name := entry.Chart
	if registry.IsOCI(entry.Repository) { // a registry has no index; each chart has its own reference
		find.RepoURL, name = "", strings.TrimRight(entry.Repository, "/")+"/"+entry.Chart
	}

	path, err := find.LocateChart(name, settings)
	if err != nil {
		return nil, err
	}

	content, err := loader.Load(path)
	if err != nil {
		return nil, err
	}

	if content.Metadata.Type == "library" {
		return nil, errors.New("cannot install a library chart")
	}

	return &chart{entry, content}, nil
}

// checkURL rejects malformed URLs before Helm does, because Helm would print them with their password. A text without
// :// is not a URL.
func checkURL(text string) error {
	if !strings.Contains(text, "://") {
		return nil
	}

	parsed, err := url.Parse(text)
	if err != nil {
		return errors.New("invalid URL; use for example https://charts.example.com")
	}

	return clusterfile.CheckUser(parsed)
}

// settingsOf returns Helm's settings for the target. They ignore Helm's environment variables, because HELM_KUBECONTEXT
// and others would select another cluster.
func settingsOf(to Target, namespace string) *cli.EnvSettings {
	settings := cli.New()
	settings.KubeConfig, settings.KubeContext = to.Kubeconfig, to.Context
	settings.KubeAPIServer, settings.KubeToken, settings.KubeCaFile, settings.KubeTLSServerName = "", "", "", ""
	settings.KubeAsUser, settings.KubeAsGroups, settings.KubeInsecureSkipTLSVerify = "", nil, false
	settings.SetNamespace(namespace)

	return settings
}

// installRelease installs the chart as a release in the target. If the release already has the same chart and values,
// it does not change.
func (c *chart) installRelease(
	ctx context.Context, to Target, timeout time.Duration, say func(format string, args ...any),
) error {
	settings := settingsOf(to, c.Namespace)
	configuration := action.NewConfiguration()
	configuration.SetLogger(slog.DiscardHandler)
	if err := configuration.Init(settings.RESTClientGetter(), c.Namespace, "secret"); err != nil {
		return fmt.Errorf("failed to reach the cluster: %w", err)
	}

	found, err := action.NewGet(configuration).Run(c.Name)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		install := action.NewInstall(configuration)
		install.ReleaseName, install.Namespace, install.CreateNamespace = c.Name, c.Namespace, true
		install.WaitStrategy, install.Timeout = kube.HookOnlyStrategy, timeout
		_, err := install.RunWithContext(ctx, c.content, maps.Clone(c.Values))

		return err
	}

	if err != nil {
		return fmt.Errorf("failed to get the release %s: %w", c.Name, err)
	}

	there, ok := found.(*releasev1.Release)
	if ok && there.Info.Status == releasecommon.StatusDeployed &&
		there.Chart.Metadata.Name == c.content.Metadata.Name &&
		there.Chart.Metadata.Version == c.content.Metadata.Version && sameValues(there.Config, c.Values) {
		say("release %s is already installed", c.Name)
		return nil
	}

	upgrade := action.NewUpgrade(configuration)
	upgrade.Namespace, upgrade.WaitStrategy, upgrade.Timeout = c.Namespace, kube.HookOnlyStrategy, timeout
	_, err = upgrade.RunWithContext(ctx, c.Name, c.content, maps.Clone(c.Values))

	return err
}

// sameValues reports whether two sets of values are equal. Both come from YAML, so their numbers have the same types.
func sameValues(a, b map[string]any) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}
