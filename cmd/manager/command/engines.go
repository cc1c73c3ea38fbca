package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
)

const (
	enginesCheck = "engines"
	// enginesTimeout bounds a check: the kubelet waits one second by default.
	enginesTimeout = 500 * time.Millisecond
	// maxEnginesNamed is the maximum number of objects named in the answer of a check.
	maxEnginesNamed = 10
)

// checkEngines returns the check of /readyz/engines. It fails if the engine of an OLVMCluster or OLVMInventory is
// unavailable. /readyz then fails only if required is set, because an unready manager cannot serve clusters on other
// engines.
func checkEngines(reader client.Reader, required bool) func(*http.Request) error {
	return func(req *http.Request) error {
		alone := strings.HasSuffix(req.URL.Path, "/"+enginesCheck)
		if !alone && !required {
			return nil
		}

		ctx, cancel := context.WithTimeout(req.Context(), enginesTimeout)
		defer cancel()

		return unavailableEngines(ctx, reader)
	}
}

// unavailableEngines returns an error with the names of the objects whose engine is unavailable, or nil. It omits the
// messages of conditions, because anyone with access to the port can read the answer.
func unavailableEngines(ctx context.Context, reader client.Reader) error {
	var (
		clusters    infrav1.OLVMClusterList
		inventories infrav1alpha1.OLVMInventoryList
		names       []string
	)

	add := func(kind string, object metav1.Object, conditions []metav1.Condition) {
		condition := meta.FindStatusCondition(conditions, infrav1.EngineAvailableCondition)
		if condition != nil && condition.Status == metav1.ConditionFalse && object.GetDeletionTimestamp() == nil {
			names = append(names, fmt.Sprintf("%s %s/%s: %s",
				kind, object.GetNamespace(), object.GetName(), condition.Reason))
		}
	}

	if err := errors.Join(reader.List(ctx, &clusters), reader.List(ctx, &inventories)); err != nil {
		return fmt.Errorf("failed to list OLVMClusters and OLVMInventories: %w", err)
	}

	for i := range clusters.Items {
		add("OLVMCluster", &clusters.Items[i], clusters.Items[i].Status.Conditions)
	}

	for i := range inventories.Items {
		add("OLVMInventory", &inventories.Items[i], inventories.Items[i].Status.Conditions)
	}

	if len(names) == 0 {
		return nil
	}

	slices.Sort(names)
	if more := len(names) - maxEnginesNamed; more > 0 {
		names = append(names[:maxEnginesNamed], fmt.Sprintf("and %d more", more))
	}

	return fmt.Errorf("engines are not available: %s", strings.Join(names, ", "))
}
