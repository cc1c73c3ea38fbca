package store

import (
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/wire"
)

// Change applies what a request says of a rule. To say whether it is positive enables it, as the engine has it.
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
