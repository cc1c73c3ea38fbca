package manifest

import (
	"bytes"
	"errors"
	"unicode/utf8"
)

// DecodeText returns the content of a file without a byte order mark. If the content is not UTF-8, it returns an error.
// If possible, the error names the encoding.
func DecodeText(content []byte) ([]byte, error) {
	for _, known := range []struct{ begin, name string }{
		{"\xff\xfe\x00\x00", "UTF-32"},
		{"\x00\x00\xfe\xff", "UTF-32"},
		{"\xff\xfe", "UTF-16 (little endian), as PowerShell's > writes it"},
		{"\xfe\xff", "UTF-16 (big endian)"},
	} {
		if bytes.HasPrefix(content, []byte(known.begin)) {
			return nil, errors.New("encoded in " + known.name + "; save it as UTF-8")
		}
	}

	switch {
	case bytes.HasPrefix(content, []byte("\x00GITCRYPT")):
		return nil, errors.New("encrypted by git-crypt; unlock the repository")
	case bytes.IndexByte(content, 0) >= 0 && looksLikeUTF16(content):
		return nil, errors.New("encoded in UTF-16; save it as UTF-8")
	case bytes.IndexByte(content, 0) >= 0:
		return nil, errors.New("not a text file; use YAML or JSON in UTF-8")
	case !utf8.Valid(content):
		return nil, errors.New("not encoded in UTF-8, but maybe in Windows-1252 or ISO 8859-1; save it as UTF-8")
	}

	return bytes.TrimPrefix(content, []byte("\ufeff")), nil
}

// looksLikeUTF16 reports whether every other byte at the beginning is zero, as in UTF-16 without a byte order mark.
func looksLikeUTF16(content []byte) bool {
	begin := content[:min(len(content), 64)]
	var zeros [2]int

	for i, b := range begin {
		if b == 0 {
			zeros[i%2]++
		}
	}

	most := max(zeros[0], zeros[1])

	return len(content)%2 == 0 && most > len(begin)/4 && min(zeros[0], zeros[1]) == 0
}
