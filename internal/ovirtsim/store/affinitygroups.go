package store

import (
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// ApplyRequest applies the elements of a request to the rule. As in the engine, the element positive also enables the
// rule.
func (r *Rule) ApplyRequest(in *wire.Element) {
	if in.Has("enforcing") {
		r.Enforcing = in.IsTrue("enforcing")
	}

	if in.Has("positive") {
		r.Positive, r.Enabled = in.IsTrue("positive"), true
	}

	if in.Has("enabled") {
		r.Enabled = in.IsTrue("enabled")
	}
}
