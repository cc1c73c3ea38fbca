package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/manifest"
)

// addOnLimit bounds how large manifests from the network may be.
const addOnLimit = 32 << 20

// addOns are what is installed in a cluster once it has an API server.
type addOns struct {
	// from are files, folders and URLs of manifests; list is a file with more, and with charts.
	from []string
	list string
}

// addOn is one of them.
type addOn struct {
	name    string
	objects []*unstructured.Unstructured
	// chart is one in place of objects.
	chart *chart
}

func (a *addOns) addFlags(command *cobra.Command) {
	command.Flags().StringSliceVar(&a.from, "add-on", nil,
		"manifests to apply to the cluster, such as those of a CNI: a file, a folder or an https URL; can be repeated")
	command.Flags().
		StringVar(&a.list, "add-ons", "", "file with a list of add-ons: manifests and Helm charts with their values")
}

// load reads all of them, before anything is made: those of the flags, then the applications of the cluster file.
// Errors have no users and passwords of URLs.
func (a *addOns) load(ctx context.Context, applications []clusterfile.Chart) ([]addOn, error) {
	out, err := a.loadAll(ctx, applications)
	if err != nil && withoutUsers(err.Error()) != err.Error() {
		return nil, errors.New(withoutUsers(err.Error()))
	}

	return out, err
}

// user of a URL, with its password.
var user = regexp.MustCompile(`://[^/\n]*@`)

// withoutUsers is a text without users and passwords of URLs in it.
func withoutUsers(text string) string { return user.ReplaceAllLiteralString(text, "://") }

func (a *addOns) loadAll(ctx context.Context, applications []clusterfile.Chart) ([]addOn, error) {
	out, err := a.read(ctx)
	if err != nil {
		return nil, err
	}

	for _, one := range applications {
		loaded, err := loadChart(listedAddOn{
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

		out = append(out, addOn{name: one.Release, chart: loaded})
	}

	return out, nil
}

// read reads those of the flags.
func (a *addOns) read(ctx context.Context) ([]addOn, error) {
	var out []addOn

	for _, from := range a.from {
		objects, err := readManifests(ctx, from)
		if err != nil {
			return nil, fmt.Errorf("--add-on %s: %w", from, err)
		}

		out = append(out, addOn{name: withoutUsers(from), objects: objects})
	}

	if a.list == "" {
		return out, nil
	}

	list, err := readList(a.list)
	if err != nil {
		return nil, fmt.Errorf("--add-ons: %w", err)
	}

	for _, entry := range list {
		next := addOn{name: entry.Name}
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

// readManifests reads those of a file, a folder or a URL.
func readManifests(ctx context.Context, from string) (objects []*unstructured.Unstructured, err error) {
	switch {
	case strings.HasPrefix(from, "https://"):
		var content []byte
		if content, err = download(ctx, from); err == nil {
			objects, err = manifest.Read(content)
		}
	case strings.Contains(from, "://"):
		err = errors.New("only https is known")
	default:
		objects, err = manifest.ReadFiles(from)
	}

	if err == nil && len(objects) == 0 {
		err = errors.New("there are no manifests in it")
	}

	return objects, err
}

func download(ctx context.Context, url string) ([]byte, error) {
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

	content, err := io.ReadAll(io.LimitReader(response.Body, addOnLimit+1))
	if err == nil && len(content) > addOnLimit {
		err = fmt.Errorf("it has more than %d MiB", addOnLimit>>20)
	}

	return content, err
}

// install applies them. Kinds that one of them brings may not be served at once.
func install(ctx context.Context, s *steps, workload *management, list []addOn, timeout time.Duration) error {
	c := workload.Client

	for _, one := range list {
		if one.chart != nil {
			err := s.do("Installing "+one.name, func() error {
				return one.chart.install(ctx, workload.kubeconfig, timeout, s.say)
			})
			if err != nil {
				return err
			}

			continue
		}

		manifest.KindsFirst(one.objects, "Namespace", "CustomResourceDefinition") // others need them
		err := s.do("Installing "+one.name, func() error {
			return s.until(ctx, timeout, func(ctx context.Context) error {
				return manifest.Apply(ctx, c, inNamespace(c, one.objects), fieldOwner, client.ForceOwnership)
			})
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// inNamespace puts objects that say none into the namespace default, as kubectl does.
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
