package steadytext

import "unicode/utf8"

// cutMark is at the end of a text that was cut.
const cutMark = " ..."

// Shorten cuts a text for a condition or an event to a length in bytes, and adds a mark of the cut. What differs from
// try to try is taken out first: it would move the cut.
func Shorten(text string, length int) string {
	if len(text) <= length {
		return text
	}

	if text = RemoveVarying(text); len(text) <= length {
		return text
	}

	for length > 0 && !utf8.RuneStart(text[length]) {
		length--
	}

	return text[:length] + cutMark
}

// FitLength cuts a text to a length in bytes that has room for the mark of the cut, too, as the limit of a field needs
// it.
func FitLength(text string, length int) string {
	if len(text) <= length {
		return text
	}

	return Shorten(text, max(length-len(cutMark), 0))
}
