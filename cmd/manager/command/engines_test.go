package command

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// engineCondition returns EngineAvailable with a message that the probes must not show.
func engineCondition(status metav1.ConditionStatus, reason string) []metav1.Condition {
	return []metav1.Condition{{
		Type: infrav1.EngineAvailableCondition, Status: status, Reason: reason, Message: "https://engine.example.com",
	}}
}

// answer returns the answer of the probe at a path, through controller-runtime's handler.
func answer(t *testing.T, path string, required bool, objects ...client.Object) (code int, body string) {
	t.Helper()

	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	handler := http.StripPrefix("/readyz", &healthz.Handler{
		Checks: map[string]healthz.Checker{enginesCheck: checkEngines(reader, required)},
	})
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))

	return recorder.Code, recorder.Body.String()
}

func TestTheProbesTellOfEnginesThatAreNotAvailable(t *testing.T) {
	t.Parallel()

	here := metav1.ObjectMeta{Namespace: "team-a", Name: "prod"}
	up := &infrav1.OLVMCluster{ObjectMeta: here}
	up.Status.Conditions = engineCondition(metav1.ConditionTrue, infrav1.EngineAvailableReason)
	down := &infrav1.OLVMCluster{ObjectMeta: here}
	down.Status.Conditions = engineCondition(metav1.ConditionFalse, infrav1.EngineUnreachableReason)
	pool := &infrav1alpha1.OLVMInventory{ObjectMeta: here}
	pool.Status.Conditions = engineCondition(metav1.ConditionFalse, infrav1.AuthenticationFailedReason)
	leaving := down.DeepCopy()
	leaving.Finalizers, leaving.DeletionTimestamp = []string{"x/y"}, &metav1.Time{Time: metav1.Now().Time}

	tests := map[string]struct {
		path     string
		required bool
		objects  []client.Object
		code     int
		text     string
	}{
		"all are available": {
			"/readyz/engines", true, []client.Object{up}, 200,
			"ok",
		},
		"no cluster uses an engine": {
			"/readyz/engines", true, nil, 200,
			"ok",
		},
		"an engine is down": {
			"/readyz/engines", false, []client.Object{down}, 500,
			"OLVMCluster team-a/prod: EngineUnreachable",
		},
		"the engine of a pool": {
			"/readyz/engines", false, []client.Object{pool}, 500,
			"OLVMInventory team-a/prod: AuthenticationFailed",
		},
		"the manager is ready all the same": {
			"/readyz/", false, []client.Object{down}, 200,
			"ok",
		},
		"unless engines are required": {
			"/readyz/", true, []client.Object{down}, 500,
			"engines failed",
		},
		"a cluster that is being deleted": {
			"/readyz/engines", true, []client.Object{leaving}, 200,
			"ok",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			code, body := answer(t, test.path, test.required, test.objects...)
			check.Equal(t, "code", code, test.code)
			check.Contains(t, "body", body, test.text)
			check.Lacks(t, "body", body, "https://")
		})
	}
}

func TestTheProbeNamesTenObjectsAtMost(t *testing.T) {
	t.Parallel()

	var objects []client.Object

	for i := range 30 {
		down := &infrav1.OLVMCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("c%02d", i)}}
		down.Status.Conditions = engineCondition(metav1.ConditionFalse, infrav1.EngineUnreachableReason)
		objects = append(objects, down)
	}

	_, body := answer(t, "/readyz/engines", false, objects...)
	check.Contains(t, "body", body, "a/c09: EngineUnreachable, and 20 more")
}
