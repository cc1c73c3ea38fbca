package workspace

import "unicode/utf8"

// A status with a list that is longer than its CRD takes is refused as a whole, and so is one with such a text: what an
// engine, a guest or a plan has a lot of must not keep a condition from being written.

// Limited is the beginning of a list that a status takes at most that many items of, and the length of the whole list.
func Limited[T any](list []T, most int) (kept []T, total int32) {
	end := min(len(list), most)

	return list[:end:end], int32(min(len(list), 1<<30)) //nolint:gosec // it is limited
}

// Shortened cuts a text to a length in bytes, and marks the cut.
func Shortened(text string, length int) string {
	const mark = " ..."
	if len(text) <= length {
		return text
	}

	length = max(length-len(mark), 0)
	for length > 0 && !utf8.RuneStart(text[length]) {
		length--
	}

	return text[:length] + mark
}
