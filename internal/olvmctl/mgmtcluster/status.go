package mgmtcluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// Status says of one that runs how old it is, which versions it has, and how large it is. now is the time.
func (l Local) Status(ctx context.Context, now time.Time) ([]string, error) {
	c, err := Connect(Options{Kubeconfig: l.Kubeconfig()})
	if err != nil {
		return nil, err
	}

	var system corev1.Namespace
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return nil, fmt.Errorf("failed to ask the local management cluster: %w", err)
	}

	age := "made " + humanize.RelTime(system.CreationTimestamp.Time, now, "ago", "from now")
	if info, err := os.Stat(l.readyFile()); err == nil {
		age += ", started " + humanize.RelTime(info.ModTime(), now, "ago", "from now")
	}

	versions, err := c.versions(ctx)
	if err != nil {
		return nil, err
	}

	data, err := sizeOf(l.data(), "")
	if err != nil {
		return nil, err
	}

	logs, err := sizeOf(l.dir, ".log")
	if err != nil {
		return nil, err
	}

	return []string{
		age,
		"versions: " + strings.Join(versions, ", "),
		fmt.Sprintf("%s of data in %s, %s of logs", humanize.IBytes(data), l.data(), humanize.IBytes(logs)),
	}, nil
}

// versions are those of this program, of the API server, and of the providers.
func (c *Cluster) versions(ctx context.Context) ([]string, error) {
	discoverer, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("failed to make a client of the management cluster: %w", err)
	}

	server, err := discoverer.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("failed to ask the management cluster for its version: %w", err)
	}

	out := []string{"olvmctl " + version.Version, "Kubernetes " + server.GitVersion}

	providers := &unstructured.UnstructuredList{}
	providers.SetGroupVersionKind(clusterctlv1.GroupVersion.WithKind("ProviderList"))
	if err := c.List(ctx, providers); err != nil {
		return nil, fmt.Errorf("failed to list the providers: %w", err)
	}

	var others []string

	for i := range providers.Items {
		has, _, _ := unstructured.NestedString(providers.Items[i].Object, "version")
		others = append(others, providers.Items[i].GetName()+" "+has)
	}

	slices.Sort(others)

	return append(out, others...), nil
}

// sizeOf is the size of the files of a folder whose names end so.
func sizeOf(folder, ending string) (uint64, error) {
	var out uint64

	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // etcd removes files
			return nil
		}

		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ending) {
			return err
		}

		if info, err := entry.Info(); err == nil {
			out += uint64(info.Size())
		}

		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("failed to measure %s: %w", folder, err)
	}

	return out, nil
}
