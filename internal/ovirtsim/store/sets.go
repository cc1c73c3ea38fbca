package store

import "slices"

// SetMember adds an ID to a set or removes it, and reports whether the set changed.
func SetMember(set *[]string, id string, in bool) bool {
	at := slices.Index(*set, id)
	switch {
	case in && at < 0:
		*set = append(*set, id)
	case !in && at >= 0:
		*set = slices.Delete(*set, at, at+1)
	default:
		return false
	}

	return true
}
