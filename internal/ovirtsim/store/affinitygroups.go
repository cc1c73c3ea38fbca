package store

import (
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// Change applies a request's fields to the rule. As in the engine, setting positive enables the rule.
func (r *Rule) Change(in *wire.Element) {
	if in.Has("enforcing") {
		r.Enforcing = in.Yes("enforcing")
	}

	if in.Has("positive") {
		r.Positive, r.Enabled = in.Yes("positive"), true
	}

	if in.Has("enabled") {
		r.Enabled = in.Yes("enabled")
	}
}
