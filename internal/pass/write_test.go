package pass

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capolvm/cluster-api-provider-olvm/api"
	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
)

// TestWriteOfAnObjectThatIsGone deletes an object between its pass and its write, as clusterctl move and users do.
func TestWriteOfAnObjectThatIsGone(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}

	machine := &infrav1.OLVMMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m"}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(machine).WithStatusSubresource(machine).Build()
	passes := &Tracker{}
	this, err := passes.BeginPass(t.Context(), c, client.ObjectKeyFromObject(machine), machine)
	if err != nil {
		t.Fatal(err)
	}

	machine.Labels = map[string]string{"changed": "too"}
	if err := c.Delete(t.Context(), machine.DeepCopy()); err != nil {
		t.Fatal(err)
	}

	recorder := events.NewFakeRecorder(1)
	fail := func() {
		conditions.Set(machine, metav1.Condition{
			Type: infrav1.InfrastructureAppliedCondition, Status: "False", Reason: infrav1.VMTemplateNotFoundReason,
			Message: "m",
		})
	}
	err = writeStatus(t.Context(), this, recorder, machine, fail, nil)
	if err == nil || IgnoreGone(err) != nil {
		t.Errorf("got %v, want an error that is ignored", err)
	}

	select {
	case event := <-recorder.Events:
		t.Errorf("an object that is gone has the event %s", event)
	default:
	}

	if other := errors.New("no"); !errors.Is(IgnoreGone(other), other) {
		t.Error("another error is ignored, too")
	}
}
