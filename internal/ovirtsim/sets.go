package ovirtsim

import "slices"

// This file has sets of IDs, in objects and in documents.

// refs is a list of references.
func refs(name, item, collection string, ids []string) *element {
	out := el(name)
	for _, id := range ids {
		out.items(ref(item, collection, id))
	}
	return out
}

// member adds an ID to a set or takes it out, and says whether that changed anything.
func member(set *[]string, id string, in bool) bool {
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
