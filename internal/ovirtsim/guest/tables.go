package guest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tabular matches the requests that kubectl get sends for nodes and pods.
var tabular = regexp.MustCompile(`^/api/v1(?:/namespaces/([^/]+))?/(nodes|pods)(?:/([^/]+))?$`)

// none is kubectl's text for a missing value.
const none = "<none>"

// wide is the priority of columns that kubectl shows only with -o wide.
const wide = 1

var nodeColumns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name"},
	{Name: "Status", Type: "string"},
	{Name: "Roles", Type: "string"},
	{Name: "Age", Type: "string"},
	{Name: "Version", Type: "string"},
	{Name: "Internal-IP", Type: "string", Priority: wide},
	{Name: "OS-Image", Type: "string", Priority: wide},
}

var podColumns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name"},
	{Name: "Ready", Type: "string"},
	{Name: "Status", Type: "string"},
	{Name: "Age", Type: "string"},
	{Name: "Node", Type: "string", Priority: wide},
}

// serveTable answers a request of kubectl get for a table of nodes or pods. The in-memory server returns only the
// objects, so kubectl would show only their names and ages. It returns false for all other requests and for watches.
func (c *workloadCluster) serveTable(w http.ResponseWriter, r *http.Request) bool {
	path := tabular.FindStringSubmatch(r.URL.Path)
	if path == nil || r.Method != http.MethodGet || r.URL.Query().Has("watch") ||
		!strings.Contains(r.Header.Get("Accept"), "as=Table") {
		return false
	}

	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		err = apierrors.NewBadRequest(err.Error())
	}

	var table *metav1.Table
	if err == nil {
		table, err = c.buildTable(r.Context(), path[2], client.ObjectKey{Namespace: path[1], Name: path[3]}, selector)
	}

	if err != nil {
		writeStatus(w, err)
		return true
	}

	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(table)

	return true
}

// buildTable returns the table of the nodes or pods in a namespace, or of the single object named by the key.
func (c *workloadCluster) buildTable(
	ctx context.Context, resource string, key client.ObjectKey, selector labels.Selector,
) (*metav1.Table, error) {
	out := &metav1.Table{
		TypeMeta:          metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "Table"},
		ColumnDefinitions: podColumns,
		Rows:              []metav1.TableRow{},
	}
	add := func(object client.Object, cells ...any) {
		if key.Name != "" && object.GetName() != key.Name {
			return
		}

		about := &metav1.PartialObjectMetadata{
			TypeMeta: metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: "PartialObjectMetadata"},
			ObjectMeta: metav1.ObjectMeta{
				Name:              object.GetName(),
				Namespace:         object.GetNamespace(),
				UID:               object.GetUID(),
				Labels:            object.GetLabels(),
				CreationTimestamp: object.GetCreationTimestamp(),
			},
		}
		out.Rows = append(out.Rows, metav1.TableRow{Cells: cells, Object: runtime.RawExtension{Object: about}})
	}

	if resource == "nodes" {
		out.ColumnDefinitions = nodeColumns
		nodes, err := listOf[corev1.Node](ctx, c, "NodeList", selector)
		if err != nil {
			return nil, err
		}

		for i := range nodes {
			add(&nodes[i], nodeCells(&nodes[i])...)
		}
	} else {
		pods, err := listOf[corev1.Pod](ctx, c, "PodList", selector, client.InNamespace(key.Namespace))
		if err != nil {
			return nil, err
		}

		for i := range pods {
			add(&pods[i], podCells(&pods[i])...)
		}
	}

	if key.Name != "" && len(out.Rows) == 0 {
		return nil, apierrors.NewNotFound(corev1.Resource(resource), key.Name)
	}

	return out, nil
}

// listOf returns objects sorted by namespace and name. In memory, the objects of clients are maps, and those of guests
// are typed. Only an unstructured list accepts both types.
func listOf[T any](
	ctx context.Context, c *workloadCluster, kind string, selector labels.Selector, options ...client.ListOption,
) ([]T, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	options = append(options, client.MatchingLabelsSelector{Selector: selector})
	if err := c.client().List(ctx, list, options...); err != nil {
		return nil, err
	}

	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
		return slices.Compare([]string{a.GetNamespace(), a.GetName()}, []string{b.GetNamespace(), b.GetName()})
	})

	out := make([]T, len(list.Items))
	for i := range list.Items {
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &out[i])
		if err != nil {
			return nil, fmt.Errorf("failed to decode %s: %w", list.Items[i].GetName(), err)
		}
	}

	return out, nil
}

// nodeCells returns the cells for nodeColumns.
func nodeCells(n *corev1.Node) []any {
	status := "Unknown"

	for _, condition := range n.Status.Conditions {
		switch {
		case condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue:
			status = "Ready"
		case condition.Type == corev1.NodeReady:
			status = "NotReady"
		}
	}

	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}

	var roles []string

	for label := range n.Labels {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok {
			roles = append(roles, role)
		}
	}

	slices.Sort(roles)

	address := none

	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			address = a.Address
			break
		}
	}

	return []any{
		n.Name, status, cmp.Or(strings.Join(roles, ","), none), age(n), n.Status.NodeInfo.KubeletVersion, address,
		cmp.Or(n.Status.NodeInfo.OSImage, none),
	}
}

// podCells returns the cells for podColumns.
func podCells(p *corev1.Pod) []any {
	ready := 0

	for _, container := range p.Status.ContainerStatuses {
		if container.Ready {
			ready++
		}
	}

	// Pods in memory have no container statuses, so the pod's condition stands for all containers.
	count := max(1, len(p.Spec.Containers))
	for _, condition := range p.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			ready = count
		}
	}

	return []any{
		p.Name, fmt.Sprintf("%d/%d", ready, count), cmp.Or(string(p.Status.Phase), none), age(p),
		cmp.Or(p.Spec.NodeName, none),
	}
}

func age(object client.Object) string {
	return duration.HumanDuration(time.Since(object.GetCreationTimestamp().Time))
}

// writeStatus writes an error in the form of the API server.
func writeStatus(w http.ResponseWriter, err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}

	status := known.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}
