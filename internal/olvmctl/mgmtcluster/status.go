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

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/shellword"
	"github.com/capolvm/cluster-api-provider-olvm/internal/version"
)

// These are the states of a local management cluster.
const (
	LocalAbsent  = "absent"
	LocalBusy    = "starting or stopping"
	LocalEnded   = "ended"
	LocalStopped = "stopped"
	LocalRunning = "running"
)

// LocalStatus is the status of the local management cluster.
type LocalStatus struct {
	// State is absent, "starting or stopping", ended, stopped or running. A cluster in state ended was not stopped by a
	// user.
	State      string `json:"state"`
	PID        int    `json:"pid,omitempty"`
	Kubeconfig string `json:"kubeconfig,omitempty"`
	LogFile    string `json:"logFile,omitempty"`
	// EndedAt is the time when an ended cluster was last seen. Why is the reason of its end.
	EndedAt time.Time `json:"endedAt,omitzero"`
	Why     string    `json:"why,omitempty"`
	// The following fields are set only if the cluster is running.
	*Uses
	Created   time.Time `json:"created,omitzero"`
	Started   time.Time `json:"started,omitzero"`
	Versions  []string  `json:"versions,omitempty"`
	Data      string    `json:"data,omitempty"`
	DataBytes uint64    `json:"dataBytes,omitempty"`
	LogBytes  uint64    `json:"logBytes,omitempty"`
}

// FetchStatus returns the state of the local management cluster. If the cluster is running, it also returns its age,
// versions and sizes.
func (l Local) FetchStatus(ctx context.Context) (LocalStatus, error) {
	if !l.Exists() {
		return LocalStatus{State: LocalAbsent}, nil
	}

	out := LocalStatus{State: LocalRunning, PID: l.PID(), Kubeconfig: l.Kubeconfig(), LogFile: l.LogFile()}

	switch end := l.DetectEnd(); {
	case end != nil:
		out.State, out.EndedAt, out.Why = LocalEnded, end.At, end.Why
		return out, nil
	case out.PID != 0 && !l.IsRunning():
		out.State = LocalBusy
		return out, nil
	case out.PID == 0:
		out.State = LocalStopped
		return out, nil
	}

	err := l.completeStatus(ctx, &out)

	return out, err
}

// completeStatus adds the fields for a running cluster.
func (l Local) completeStatus(ctx context.Context, out *LocalStatus) error {
	uses, err := l.CountUses(ctx)
	if err != nil {
		return err
	}

	out.Uses = &uses

	c, err := Connect(Options{Kubeconfig: l.Kubeconfig()})
	if err != nil {
		return err
	}

	var system corev1.Namespace
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system); err != nil {
		return fmt.Errorf("failed to reach the local management cluster: %w", err)
	}

	out.Created = system.CreationTimestamp.Time
	if info, err := os.Stat(l.readyFile()); err == nil {
		out.Started = info.ModTime()
	}

	if out.Versions, err = c.fetchVersions(ctx); err != nil {
		return err
	}

	out.Data = l.dataDir()
	if out.DataBytes, err = sizeOf(l.dataDir(), ""); err != nil {
		return err
	}

	out.LogBytes, err = sizeOf(l.dir, ".log")

	return err
}

// Text returns the status for users. now is the current time.
func (s *LocalStatus) Text(now time.Time) string {
	switch s.State {
	case LocalAbsent:
		return "no local management cluster; to create one, run olvmctl local start"
	case LocalBusy:
		return fmt.Sprintf("the local management cluster is starting or stopping as process %d; see %s", s.PID,
			s.LogFile)
	case LocalEnded:
		return fmt.Sprintf("the local management cluster %s\nto start it again with its data, run olvmctl local "+
			"start", &End{At: s.EndedAt, Why: s.Why})
	case LocalStopped:
		return "the local management cluster is stopped; to start it, run olvmctl local start"
	}

	age := "created " + humanize.RelTime(s.Created, now, "ago", "from now")
	if !s.Started.IsZero() {
		age += ", started " + humanize.RelTime(s.Started, now, "ago", "from now")
	}

	return strings.Join([]string{
		fmt.Sprintf("the local management cluster is running as process %d, with %s", s.PID, s.Uses),
		age,
		"versions: " + strings.Join(s.Versions, ", "),
		fmt.Sprintf("%s of data in %s, %s of logs", humanize.IBytes(s.DataBytes), s.Data, humanize.IBytes(s.LogBytes)),
		"export KUBECONFIG=" + shellword.QuoteWord(s.Kubeconfig),
	}, "\n  ")
}

// fetchVersions returns the versions of olvmctl, of the API server and of the providers.
func (c *Cluster) fetchVersions(ctx context.Context) ([]string, error) {
	discoverer, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return nil, fmt.Errorf("failed to create a client of the management cluster: %w", err)
	}

	server, err := discoverer.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("failed to get the version of the management cluster: %w", err)
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

// sizeOf returns the total size in bytes of the files in a folder with the given ending.
func sizeOf(folder, ending string) (uint64, error) {
	var out uint64

	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // etcd removes files at any time
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
