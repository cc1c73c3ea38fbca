package cluster

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
)

func TestSetEngineCondition(t *testing.T) {
	tests := map[string]struct {
		err        error
		dataCenter *engine.DataCenter
		want       metav1.ConditionStatus
	}{
		"the engine answered":                {nil, &engine.DataCenter{}, metav1.ConditionTrue},
		"the engine did not answer":          {errors.New("no route to host"), nil, metav1.ConditionFalse},
		"the engine was not asked this time": {nil, nil, metav1.ConditionUnknown}, // as before
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			scope := &clusterScope{
				olvmCluster: &infrav1.OLVMCluster{}, engine: engineFacts{err: test.err, dataCenter: test.dataCenter},
			}
			conditions.Set(scope.olvmCluster, metav1.Condition{
				Type:   infrav1.EngineAvailableCondition,
				Status: metav1.ConditionUnknown,
				Reason: "Before",
			})
			setEngineCondition(scope)

			got := conditions.Get(scope.olvmCluster, infrav1.EngineAvailableCondition)
			if got.Status != test.want {
				t.Errorf("the condition is %+v", got)
			}
		})
	}
}
