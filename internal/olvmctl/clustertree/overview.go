package clustertree

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Overview describes a Cluster in a list.
type Overview struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase"`
	// Version is the Kubernetes version of the control plane, or the desired version until it is known. It is "" if
	// neither is known.
	Version string `json:"version,omitempty"`
	// DesiredVersion is the desired version of the control plane.
	DesiredVersion string `json:"desiredVersion,omitempty"`
	// Endpoint is the endpoint of the API server, or "" until it is known.
	Endpoint     string   `json:"endpoint,omitempty"`
	ControlPlane Replicas `json:"controlPlane"`
	Workers      Replicas `json:"workers"`
	Available    bool     `json:"available"`
	// Updating reports whether machines are being replaced because of another version or template.
	Updating bool `json:"updating"`
	// Problem explains why the Cluster is not available, or is "".
	Problem string            `json:"problem,omitempty"`
	Created time.Time         `json:"created"`
	Labels  map[string]string `json:"-"`
}

// Replicas are numbers of machines.
type Replicas struct {
	Ready   int32 `json:"ready"`
	Desired int32 `json:"desired"`
}

func (r Replicas) String() string { return fmt.Sprintf("%d/%d", r.Ready, r.Desired) }

// List returns the Clusters selected by the options, sorted by namespace and name.
func List(ctx context.Context, reader client.Reader, of ...client.ListOption) ([]Overview, error) {
	var clusters clusterv1.ClusterList
	if err := reader.List(ctx, &clusters, of...); err != nil {
		return nil, fmt.Errorf("failed to list the Clusters: %w", err)
	}

	planes, err := listControlPlanes(ctx, reader, clusters.Items)
	if err != nil {
		return nil, err
	}

	out := []Overview{}

	for i := range clusters.Items {
		c := &clusters.Items[i]
		plane := client.ObjectKey{Namespace: c.Namespace, Name: c.Spec.ControlPlaneRef.Name}
		out = append(out, newOverview(c, planes[plane]))
	}

	slices.SortFunc(out, func(a, b Overview) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})

	return out, nil
}

// listControlPlanes returns the KubeadmControlPlanes of Clusters. It returns none if the API server does not serve this
// kind.
func listControlPlanes(
	ctx context.Context, reader client.Reader, clusters []clusterv1.Cluster,
) (map[client.ObjectKey]*controlplanev1.KubeadmControlPlane, error) {
	out := map[client.ObjectKey]*controlplanev1.KubeadmControlPlane{}
	namespaces := map[string]bool{}

	for i := range clusters {
		if clusters[i].Spec.ControlPlaneRef.Kind == "KubeadmControlPlane" {
			namespaces[clusters[i].Namespace] = true
		}
	}

	var where []client.ListOption // nil means all namespaces
	for namespace := range namespaces {
		where = append(where, client.InNamespace(namespace))
	}

	switch {
	case len(namespaces) == 0:
		return out, nil
	case len(namespaces) > 1:
		where = nil
	}

	var list controlplanev1.KubeadmControlPlaneList
	if err := reader.List(ctx, &list, where...); apimeta.IsNoMatchError(err) {
		return out, nil
	} else if err != nil {
		return nil, fmt.Errorf("failed to list the KubeadmControlPlanes: %w", err)
	}

	for i := range list.Items {
		out[client.ObjectKeyFromObject(&list.Items[i])] = &list.Items[i]
	}

	return out, nil
}

// newOverview returns the Overview of a Cluster. plane is nil if the Cluster has no KubeadmControlPlane.
func newOverview(c *clusterv1.Cluster, plane *controlplanev1.KubeadmControlPlane) Overview {
	out := Overview{
		Namespace:      c.Namespace,
		Name:           c.Name,
		Phase:          c.Status.Phase,
		Problem:        conditionProblem(c, clusterv1.ClusterAvailableCondition),
		Created:        c.CreationTimestamp.Time,
		Labels:         c.Labels,
		DesiredVersion: c.Spec.Topology.Version,
		Updating:       conditions.IsTrue(c, clusterv1.ClusterRollingOutCondition),
	}
	out.Available = out.Problem == ""

	if c.Spec.ControlPlaneEndpoint.IsValid() {
		out.Endpoint = c.Spec.ControlPlaneEndpoint.String()
	}

	if s := c.Status.ControlPlane; s != nil {
		out.ControlPlane = Replicas{ptr.Deref(s.ReadyReplicas, 0), ptr.Deref(s.DesiredReplicas, 0)}
	}

	if s := c.Status.Workers; s != nil {
		out.Workers = Replicas{ptr.Deref(s.ReadyReplicas, 0), ptr.Deref(s.DesiredReplicas, 0)}
	}

	if plane != nil {
		out.Version = plane.Status.Version //nolint:staticcheck // the only one of Cluster API before 1.14
		if out.DesiredVersion == "" {
			out.DesiredVersion = plane.Spec.Version
		}
	}

	if out.Version == "" {
		out.Version = out.DesiredVersion
	}

	out.Updating = out.Updating || out.Version != out.DesiredVersion

	return out
}

// ListedMachine describes a Machine in a list.
type ListedMachine struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Cluster   string `json:"cluster"`
	// Role is control-plane or worker.
	Role string `json:"role"`
	Machine
	Ready bool `json:"ready"`
	// Problem explains why the Machine is not ready, or is "".
	Problem string            `json:"problem,omitempty"`
	Created time.Time         `json:"created"`
	Labels  map[string]string `json:"-"`
}

// ListMachines returns the Machines selected by the options, sorted by namespace and name. If the namespace is empty,
// it returns those of all namespaces.
func ListMachines(
	ctx context.Context, reader client.Reader, namespace string, of ...client.ListOption,
) ([]ListedMachine, error) {
	var machines clusterv1.MachineList
	if err := reader.List(ctx, &machines, append(of, client.InNamespace(namespace))...); err != nil {
		return nil, fmt.Errorf("failed to list the Machines: %w", err)
	}

	infra, err := listOLVMMachines(ctx, reader, client.InNamespace(namespace))
	if err != nil && !apimeta.IsNoMatchError(err) { // a management cluster for OCI only
		return nil, err
	}

	out := []ListedMachine{}

	for i := range machines.Items {
		m := &machines.Items[i]
		node := describeMachine(m, infra[client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.InfrastructureRef.Name}],
			m.Spec.Version)
		next := ListedMachine{
			Namespace: m.Namespace, Name: m.Name, Cluster: m.Spec.ClusterName, Role: "worker", Machine: *node.Machine,
			Ready: node.Problem == "", Problem: node.Problem, Created: m.CreationTimestamp.Time, Labels: m.Labels,
		}
		if _, control := m.Labels[clusterv1.MachineControlPlaneLabel]; control {
			next.Role = "control-plane"
		}

		out = append(out, next)
	}

	slices.SortFunc(out, func(a, b ListedMachine) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})

	return out, nil
}

// These are the kinds of list entries, as in kubectl.
var (
	ClusterKind = clusterv1.GroupVersion.WithKind("Cluster")
	MachineKind = clusterv1.GroupVersion.WithKind("Machine")
)

// ClusterTable returns a list of clusters as a table for kubectl's printers. It computes the ages at the time now.
func ClusterTable(list []Overview, now time.Time) *metav1.Table {
	out := NewTable("Name", "Phase", "Available", "Control Plane", "Workers", "Version", "Age", "+Endpoint", "+Problem")

	for i := range list {
		c := &list[i]
		version := c.Version

		switch {
		case c.DesiredVersion != c.Version:
			version += " -> " + c.DesiredVersion
		case c.Updating:
			version += " (updating)"
		}

		AddRow(out, ClusterKind, c.Namespace, c.Name, c.Labels, c.Name, c.Phase, yesOrNo(c.Available),
			c.ControlPlane.String(), c.Workers.String(), version, duration.HumanDuration(now.Sub(c.Created)),
			c.Endpoint, OneLine(c.Problem))
	}

	return out
}

// MachineTable returns a list of machines as a table for kubectl's printers. It computes the ages at the time now.
func MachineTable(list []ListedMachine, now time.Time) *metav1.Table {
	out := NewTable("Name", "Cluster", "Node", "Ready", "Phase", "VM", "Age", "Version", "+Addresses", "+Host",
		"+VM ID",
		"+Problem")

	for i := range list {
		m := &list[i]
		AddRow(out, MachineKind, m.Namespace, m.Name, m.Labels, m.Name, m.Cluster, m.Node, yesOrNo(m.Ready), m.Phase,
			m.VMStatus, duration.HumanDuration(now.Sub(m.Created)), m.Version, strings.Join(m.Addresses, ","), m.Host,
			m.VMID, OneLine(m.Problem))
	}

	return out
}

// NewTable returns a table with these columns. A column with a leading + appears only with -o wide.
func NewTable(columns ...string) *metav1.Table {
	out := &metav1.Table{}

	for _, column := range columns {
		name, wide := strings.CutPrefix(column, "+")
		next := metav1.TableColumnDefinition{Name: name, Type: "string"}
		if wide {
			next.Priority = 1
		}

		out.ColumnDefinitions = append(out.ColumnDefinitions, next)
	}

	return out
}

// AddRow adds an object of a kind to a table.
func AddRow(
	table *metav1.Table, kind schema.GroupVersionKind, namespace, name string, labels map[string]string, cells ...any,
) {
	of := &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
	}
	of.SetGroupVersionKind(kind)
	table.Rows = append(table.Rows, metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: of}})
}

func yesOrNo(is bool) string {
	if is {
		return "yes"
	}

	return "no"
}

// OneLine returns a text in one line, for a table cell.
func OneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
