package command

import (
	"fmt"

	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/cluster-api/feature"
)

// features are the features of this manager. Users can enable or disable them. Cluster API's own set has other
// features, known only to Cluster API's managers, and other defaults.
var features = map[featuregate.Feature]featuregate.FeatureSpec{
	feature.PriorityQueue: {Default: true, PreRelease: featuregate.Beta},
	// This feature reconciles an object at most once a second. The creation of a machine needs more reconciliations,
	// and each step waits for an event, not for time.
	feature.ReconcilerRateLimiting: {Default: false, PreRelease: featuregate.Beta},
}

func newGates() featuregate.MutableFeatureGate {
	gates := featuregate.NewFeatureGate()
	if err := gates.Add(features); err != nil {
		panic(err) // a feature with two specifications
	}

	return gates
}

// applyGates copies the gates of this manager to Cluster API's own set, because Cluster API's library reads that set.
func applyGates(gates featuregate.FeatureGate) error {
	chosen := map[string]bool{}
	for name := range features {
		chosen[string(name)] = gates.Enabled(name)
	}

	if err := feature.MutableGates.SetFromMap(chosen); err != nil {
		return fmt.Errorf("failed to set feature gates: %w", err)
	}

	return nil
}
