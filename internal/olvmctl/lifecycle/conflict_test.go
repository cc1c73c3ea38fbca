package lifecycle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/manifest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/mgmtcluster"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/progress"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// deployment returns a MachineDeployment with this number of replicas.
func deployment(replicas int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2",
		"kind":       "MachineDeployment",
		"metadata":   map[string]any{"namespace": "prod", "name": "prod-md-0"},
		"spec":       map[string]any{"replicas": replicas},
	}}
}

// refusing returns a management cluster with a MachineDeployment of 3 replicas. It rejects others' changes of fields
// written by these managers.
func refusing(managers map[string]string) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(deployment(3)).
		WithInterceptorFuncs(interceptor.Funcs{
			Apply: func(
				_ context.Context, _ client.WithWatch, object runtime.ApplyConfiguration, _ ...client.ApplyOption,
			) error {
				status := metav1.Status{
					Reason:  metav1.StatusReasonConflict,
					Code:    http.StatusConflict,
					Details: &metav1.StatusDetails{},
				}

				for _, field := range slices.Sorted(maps.Keys(managers)) {
					text, err := json.Marshal(object)
					if err != nil {
						return err
					}

					if field == ".spec.replicas" && !strings.Contains(string(text), "replicas") {
						continue
					}

					status.Details.Causes = append(status.Details.Causes, metav1.StatusCause{
						Type:    metav1.CauseTypeFieldManagerConflict,
						Message: fmt.Sprintf("conflict with %q using cluster.x-k8s.io/v1beta2", managers[field]),
						Field:   field,
					})
				}

				if len(status.Details.Causes) == 0 {
					return nil
				}

				return &apierrors.StatusError{ErrStatus: status}
			},
		}).Build()
}

func TestAConflictNamesWhoChangedWhich(t *testing.T) {
	api := refusing(map[string]string{".spec.replicas": "kubectl-edit", ".spec.template.spec.version": "argocd"})
	c := &creation{management: &management{Cluster: &mgmtcluster.Cluster{Client: api}}}
	c.File.Path = "cluster.yaml"
	err := manifest.Apply(t.Context(), api, []*unstructured.Unstructured{deployment(1)}, manifest.FieldOwner)

	check.Equal(t, "a number of others is kept", c.keepScale(t.Context(), err), false)
	check.Error(t, c.explainConflict(t.Context(), err), "failed to apply MachineDeployment prod/prod-md-0: another "+
		"field manager has changed it\n"+
		"spec.replicas: kubectl-edit has set it to 3, but cluster.yaml sets it to 1\n"+
		"spec.template.spec.version: argocd has set it to another value, but cluster.yaml sets it to another value\n"+
		"update cluster.yaml with the values to keep, or overwrite them with --force-conflicts")

	if other := errors.New("no route to host"); !errors.Is(c.explainConflict(t.Context(), other), other) {
		t.Error("another error is not itself")
	}
}

func TestStartKeepsTheNumberThatScaleHasWritten(t *testing.T) {
	api := refusing(map[string]string{".spec.replicas": string(fieldOwnerOfScale)})
	var said bytes.Buffer
	c := &creation{management: &management{Cluster: &mgmtcluster.Cluster{Client: api}}}
	c.File.Path, c.Display = "cluster.yaml", progress.NewDisplay(&said)
	objects := []*unstructured.Unstructured{deployment(1)}

	err := manifest.Apply(t.Context(), api, objects, manifest.FieldOwner)
	check.Equal(t, "it is kept", c.keepScale(t.Context(), err), true)
	check.Equal(t, "said", said.String(), "  MachineDeployment prod-md-0 keeps replicas: 3, set by olvmctl scale; "+
		"to apply replicas: 1 from cluster.yaml, use --force-conflicts\n")
	check.Error(t, manifest.Apply(t.Context(), api, objects, manifest.FieldOwner), "")
}
