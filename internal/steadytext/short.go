package steadytext

import "unicode/utf8"

// cutMark is the end of a shortened text.
const cutMark = " ..."

// Shorten shortens a text for a condition or an event to a length in bytes, and adds cutMark. It first removes the
// parts that vary between retries, such as times, because these would move the cut.
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

// FitLength shortens a text to a length in bytes. Unlike in Shorten, the length includes cutMark, so that the result
// fits a field with a maximum length.
func FitLength(text string, length int) string {
	if len(text) <= length {
		return text
	}

	return Shorten(text, max(length-len(cutMark), 0))
}
