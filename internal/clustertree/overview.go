package clustertree

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Overview is a Cluster in a list.
type Overview struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase"`
	// Endpoint of the API server; empty where it is not known yet.
	Endpoint     string   `json:"endpoint,omitempty"`
	ControlPlane Replicas `json:"controlPlane"`
	Workers      Replicas `json:"workers"`
	// Problem is why the Cluster is not available; empty where it is.
	Problem string    `json:"problem,omitempty"`
	Created time.Time `json:"created"`
}

// Replicas are numbers of machines.
type Replicas struct {
	Ready   int32 `json:"ready"`
	Desired int32 `json:"desired"`
}

func (r Replicas) String() string { return fmt.Sprintf("%d/%d", r.Ready, r.Desired) }

// List reads the Clusters of a namespace, or of all for "", by namespace and name.
func List(ctx context.Context, reader client.Reader, namespace string) ([]Overview, error) {
	var clusters clusterv1.ClusterList
	if err := reader.List(ctx, &clusters, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("failed to list the Clusters: %w", err)
	}

	out := []Overview{}

	for i := range clusters.Items {
		c := &clusters.Items[i]
		next := Overview{
			Namespace: c.Namespace,
			Name:      c.Name,
			Phase:     c.Status.Phase,
			Problem:   problem(c, clusterv1.ClusterAvailableCondition),
			Created:   c.CreationTimestamp.Time,
		}
		if c.Spec.ControlPlaneEndpoint.IsValid() {
			next.Endpoint = c.Spec.ControlPlaneEndpoint.String()
		}

		if s := c.Status.ControlPlane; s != nil {
			next.ControlPlane = Replicas{ptr.Deref(s.ReadyReplicas, 0), ptr.Deref(s.DesiredReplicas, 0)}
		}

		if s := c.Status.Workers; s != nil {
			next.Workers = Replicas{ptr.Deref(s.ReadyReplicas, 0), ptr.Deref(s.DesiredReplicas, 0)}
		}

		out = append(out, next)
	}

	slices.SortFunc(out, func(a, b Overview) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})

	return out, nil
}

// PrintList writes a table for a terminal; now is when ages end.
func PrintList(out io.Writer, list []Overview, now time.Time) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "NAMESPACE\tNAME\tPHASE\tCONTROL PLANE\tWORKERS\tAVAILABLE\tENDPOINT\tAGE")

	for _, c := range list {
		available := "yes"
		if c.Problem != "" {
			available = "no"
		}

		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Namespace, c.Name, c.Phase, c.ControlPlane,
			c.Workers, available, c.Endpoint, duration.HumanDuration(now.Sub(c.Created)))
	}

	return table.Flush()
}
