// Package addon reads add-ons (manifests and Helm charts), and installs them in a cluster whose API server is running.
package addon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
)

// downloadLimit is the maximum size in bytes of manifests from the network.
const downloadLimit = 32 << 20

// AddOn is a loaded add-on: manifests or a chart.
type AddOn struct {
	// Name is the name shown to users.
	Name    string
	objects []*unstructured.Unstructured
	chart   *chart
	// fallback marks a network plugin that is installed only if the cluster has no other plugin.
	fallback bool
}

// FromManifests returns an add-on with the given manifests.
func FromManifests(name string, objects []*unstructured.Unstructured) AddOn {
	return AddOn{Name: name, objects: objects}
}

// Objects returns the manifests of the add-on, or none for a chart.
func (a AddOn) Objects() []*unstructured.Unstructured { return a.objects }

// Target is the cluster to install add-ons in.
type Target struct {
	Client client.Client
	// Kubeconfig is a file for the same cluster, and Context is a context in this file. Both are needed because Helm
	// creates its own client. If Context is empty, it is the current context.
	Kubeconfig, Context string
}

// Sources are the sources of add-ons.
type Sources struct {
	// CNI is the network plugin. It is a name (flannel or calico, optionally with @VERSION), a source of manifests as
	// in Manifests, or "none". If empty, the default plugin is installed, unless another add-on or the cluster already
	// has a plugin. Pods are the pod networks of the cluster.
	CNI  string
	Pods []string
	// Manifests are files, folders and https URLs.
	Manifests []string
	// List is an optional file with additional add-ons, including charts.
	List string
}

// Load reads all add-ons, and the applications of a cluster file. It runs before anything is created, so mistakes in
// add-ons are reported early. Its errors omit the users and passwords in URLs.
func (s Sources) Load(ctx context.Context, applications []clusterfile.Chart) ([]AddOn, error) {
	out, err := s.loadAll(ctx, applications)
	if err != nil && withoutUsers(err.Error()) != err.Error() {
		return nil, errors.New(withoutUsers(err.Error()))
	}

	return out, err
}

// user matches the user and the password in a URL.
var user = regexp.MustCompile(`://[^/\n]*@`)

// withoutUsers removes users and passwords from the URLs in a text.
func withoutUsers(text string) string { return user.ReplaceAllLiteralString(text, "://") }

func (s Sources) loadAll(ctx context.Context, applications []clusterfile.Chart) ([]AddOn, error) {
	out, err := s.readManifestsAndList(ctx)
	if err != nil {
		return nil, err
	}

	for _, one := range applications {
		loaded, err := loadChart(listEntry{
			Name:       one.Release,
			Chart:      one.Name,
			Repository: one.Repository,
			Version:    one.Version,
			Namespace:  one.Namespace,
			Values:     one.Values,
		})
		if err != nil {
			return nil, fmt.Errorf("applications: %s: %w", one.Name, err)
		}

		out = append(out, AddOn{Name: one.Release, chart: loaded})
	}

	return s.withNetwork(ctx, out)
}

// withNetwork adds the network plugin before the other add-ons, because their hooks may wait for pods. It adds no
// default plugin if another add-on is a network plugin.
func (s Sources) withNetwork(ctx context.Context, others []AddOn) ([]AddOn, error) {
	if s.CNI == "" && slices.ContainsFunc(others, AddOn.isNetworkPlugin) {
		return others, nil
	}

	plugin, err := readNetworkPlugin(ctx, s.CNI, s.Pods)
	if err != nil {
		return nil, fmt.Errorf("--cni: %w", err)
	}

	return append(plugin, others...), nil
}

// readManifestsAndList reads the manifests and the list.
func (s Sources) readManifestsAndList(ctx context.Context) ([]AddOn, error) {
	var out []AddOn

	for _, from := range s.Manifests {
		objects, err := readManifests(ctx, from)
		if err != nil {
			return nil, fmt.Errorf("--add-on %s: %w", from, err)
		}

		out = append(out, FromManifests(withoutUsers(from), objects))
	}

	if s.List == "" {
		return out, nil
	}

	list, err := readList(s.List)
	if err != nil {
		return nil, fmt.Errorf("--add-ons: %w", err)
	}

	for _, entry := range list {
		next := AddOn{Name: entry.Name}
		for _, from := range entry.Manifests {
			objects, err := readManifests(ctx, from)
			if err != nil {
				return nil, fmt.Errorf("--add-ons: %s: %s: %w", entry.Name, from, err)
			}

			next.objects = append(next.objects, objects...)
		}

		if entry.Chart != "" {
			if next.chart, err = loadChart(entry); err != nil {
				return nil, fmt.Errorf("--add-ons: %s: %s: %w", entry.Name, entry.Chart, err)
			}
		}

		out = append(out, next)
	}

	return out, nil
}

// readManifests reads the manifests of a file, a folder or a URL.
func readManifests(ctx context.Context, from string) (objects []*unstructured.Unstructured, err error) {
	switch {
	case strings.HasPrefix(from, "https://"):
		var content []byte
		if content, err = downloadFile(ctx, from); err == nil {
			objects, err = manifest.Read(content)
		}
	case strings.Contains(from, "://"):
		err = errors.New("unsupported URL scheme; use https")
	default:
		objects, err = manifest.ReadFiles(from)
	}

	if err == nil && len(objects) == 0 {
		err = errors.New("no manifests found")
	}

	return objects, err
}

func downloadFile(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}

	content, err := io.ReadAll(io.LimitReader(response.Body, downloadLimit+1))
	if err == nil && len(content) > downloadLimit {
		err = fmt.Errorf("larger than %d MiB", downloadLimit>>20)
	}

	return content, err
}

// Install installs the add-on, and waits until the API server has accepted it.
func (a AddOn) Install(ctx context.Context, to Target, timeout time.Duration, display *progress.Display) error {
	if a.chart != nil {
		return a.chart.installRelease(ctx, to, timeout, display.PrintLine)
	}

	if a.fallback {
		other, err := a.findOtherPlugin(ctx, to.Client)
		if err != nil {
			return err
		}

		if other != "" {
			display.PrintLine("skipping %s: the cluster already has a network plugin, %s", a.Name, other)
			return nil
		}
	}

	manifest.KindsFirst(a.objects, "Namespace", "CustomResourceDefinition") // other objects need these

	// The API server may not serve the add-on's own kinds at once.
	return display.WaitFor(ctx, timeout, func(ctx context.Context) error {
		return manifest.Apply(ctx, to.Client, inNamespace(to.Client, a.objects), manifest.FieldOwner,
			client.ForceOwnership)
	})
}

// inNamespace puts objects without a namespace into the namespace default, as kubectl does.
func inNamespace(c client.Client, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, object := range objects {
		if object.GetNamespace() != "" {
			continue
		}

		mapping, err := c.RESTMapper().RESTMapping(object.GroupVersionKind().GroupKind(),
			object.GroupVersionKind().Version)
		if err == nil && mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			object.SetNamespace("default")
		}
	}

	return objects
}
