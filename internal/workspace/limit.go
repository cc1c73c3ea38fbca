package workspace

// The API server refuses a whole status if one list or text exceeds the limits of its CRD. A long list from an engine,
// a guest or a plan must not prevent the update of a condition.

// LimitList returns the first items of a list, at most most of them, and the length of the whole list.
func LimitList[T any](list []T, most int) (kept []T, total int32) {
	end := min(len(list), most)

	return list[:end:end], int32(min(len(list), 1<<30)) //nolint:gosec // it is limited
}
