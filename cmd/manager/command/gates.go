package command

import (
	"fmt"

	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/cluster-api/feature"
)

// features are the features users of this manager can turn on and off. Cluster API's own set has others, known only to
// its own managers, and other defaults.
var features = map[featuregate.Feature]featuregate.FeatureSpec{
	feature.PriorityQueue: {Default: true, PreRelease: featuregate.Beta},
	// It reconciles an object at most once a second. The creation of a machine needs more, and each step waits for
	// something other than time.
	feature.ReconcilerRateLimiting: {Default: false, PreRelease: featuregate.Beta},
}

func newGates() featuregate.MutableFeatureGate {
	gates := featuregate.NewFeatureGate()
	if err := gates.Add(features); err != nil {
		panic(err) // a feature with two specifications
	}

	return gates
}

// applyGates copies our gates to Cluster API's own set, because its library reads that.
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
