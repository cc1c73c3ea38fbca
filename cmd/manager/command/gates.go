package command

import (
	"fmt"

	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/cluster-api/feature"
)

// features are those that users of this manager can turn on and off. Cluster API's own set has more, which only its own
// managers know, and other defaults.
var features = map[featuregate.Feature]featuregate.FeatureSpec{
	feature.PriorityQueue: {Default: true, PreRelease: featuregate.Beta},
	// One object at most once a second: a machine that is made has more to do, and each step waits for something else
	// than time.
	feature.ReconcilerRateLimiting: {Default: false, PreRelease: featuregate.Beta},
}

func newGates() featuregate.MutableFeatureGate {
	gates := featuregate.NewFeatureGate()
	if err := gates.Add(features); err != nil {
		panic(err) // a feature with two specifications
	}

	return gates
}

// applyGates hands our gates to the library of Cluster API, which asks its own set.
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
