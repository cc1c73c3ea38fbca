package workspace

// A status with a list that is longer than its CRD takes is refused as a whole, and so is one with such a text: what an
// engine, a guest or a plan has a lot of must not keep a condition from being written.

// Limited is the beginning of a list that a status takes at most that many items of, and the length of the whole list.
func Limited[T any](list []T, most int) (kept []T, total int32) {
	end := min(len(list), most)

	return list[:end:end], int32(min(len(list), 1<<30)) //nolint:gosec // it is limited
}
