package engine

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// CleanLogin returns a user name and a password as they are meant: without the line break that echo and editors leave
// at the end of a file, and without the mark (BOM) that editors on Windows leave at its beginning. Blanks around a
// user name mean nothing; those of a password are part of it.
func CleanLogin(username, password string) (cleanUsername, cleanPassword string) {
	clean := func(text string) string { return strings.TrimRight(strings.TrimPrefix(text, "\ufeff"), "\r\n") }

	return strings.TrimSpace(clean(username)), clean(password)
}

// CheckLogin refuses a user name or a password that is not text: what is sent to the engine would be another one than
// what Terraform gets. The error repeats neither.
func CheckLogin(username, password string) error {
	for _, part := range []struct{ name, text string }{{"user name", username}, {"password", password}} {
		if !utf8.ValidString(part.text) || strings.ContainsRune(part.text, 0) {
			return errors.New("the " + part.name + " is not text in UTF-8; save it in that encoding")
		}
	}

	return nil
}
