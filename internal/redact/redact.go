// Package redact removes secrets from texts that users see: output of the executor, errors of engines, conditions,
// events and logs.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Mark replaces a secret in a text.
const Mark = "(redacted)"

const (
	// shortest is the minimum length of a secret that is replaced. Replacing "a" would hide nothing, and would make any
	// text unreadable.
	shortest = 6
	// longWord is the minimum length of a word in a secret that is replaced by itself, such as a token, a hash or a
	// key.
	longWord = 16
)

// Redactor replaces secrets in texts. It finds a whole secret, each line of a secret with several lines, and each long
// word. It finds them as plain text, and encoded in JSON, URLs, HTML, XML, base64 and hexadecimal digits.
type Redactor struct{ plain *strings.Replacer }

// New returns a Redactor for the given secrets. Texts may contain the names, even if these are words of a secret. For
// example, the name of a VM is a word of its user data.
func New(secrets []string, names ...string) *Redactor {
	isName := func(part string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, part) })
	}
	var pairs, words []string

	for _, secret := range secrets {
		for _, part := range append([]string{secret}, strings.Split(secret, "\n")...) {
			if part = strings.TrimSpace(part); len(part) >= shortest && (part == secret || !isName(part)) {
				pairs = append(pairs, part, Mark)
			}
		}

		if !strings.Contains(secret, "\n") && len(secret) >= shortest { // even with spaces it is replaced
			for _, form := range encodeForms(secret) {
				pairs = append(pairs, form, Mark)
			}
		}

		for _, word := range strings.FieldsFunc(secret, isSeparator) {
			if len(word) >= longWord && !isName(word) {
				words = append(words, word, Mark)
			}
		}
	}

	pairs = append(pairs, words...) // whole lines come first, because the first match wins

	return &Redactor{strings.NewReplacer(pairs...)}
}

// encodeForms returns a text in the forms of JSON (with and without escapes for HTML), URLs, HTML and XML.
func encodeForms(text string) []string {
	numbered := html.EscapeString(text)
	out := []string{
		url.QueryEscape(text), url.PathEscape(text), numbered,
		strings.NewReplacer("&#34;", "&quot;", "&#39;", "&apos;").Replace(numbered),
	}

	var escaped bytes.Buffer
	if err := xml.EscapeText(&escaped, []byte(text)); err == nil {
		out = append(out, escaped.String())
	}

	for _, forHTML := range []bool{false, true} {
		var buffer bytes.Buffer
		encoder := json.NewEncoder(&buffer)
		encoder.SetEscapeHTML(forHTML)
		if err := encoder.Encode(text); err == nil {
			out = append(out, strings.Trim(strings.TrimSpace(buffer.String()), `"`))
		}
	}

	return out
}

func isSeparator(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`,;<>(){}[]", r) }

var (
	// escaped matches a word that contains a backslash, a percent sign or an entity, as in JSON, URLs, HTML and XML.
	escaped = regexp.MustCompile(`[^\s]*(?:\\|%[0-9A-Fa-f]{2}|&(?:[A-Za-z]+|#[0-9]+|#[xX][0-9A-Fa-f]+);)[^\s]*`)
	// encoded matches a word that may be base64 or hexadecimal digits.
	encoded = regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}={0,2}`)
)

// RemoveSecrets returns the text without the secrets.
func (r *Redactor) RemoveSecrets(text string) string {
	text = r.plain.Replace(text)
	text = escaped.ReplaceAllStringFunc(
		text, func(word string) string { return r.markIfSecret(word, decodeEscapes(word)) },
	)

	return encoded.ReplaceAllStringFunc(
		text, func(word string) string { return r.markIfSecret(word, decodeBinary(word)) },
	)
}

// markIfSecret returns the word. If one of the word's meanings contains a secret, it returns Mark instead.
func (r *Redactor) markIfSecret(word string, meanings []string) string {
	for _, meaning := range meanings {
		if r.plain.Replace(meaning) != meaning {
			return Mark
		}
	}

	return word
}

// decodeEscapes decodes a word as JSON, as a part of a URL, and as HTML or XML.
func decodeEscapes(word string) []string {
	var out []string
	inner := strings.Trim(word, `",:{}[]`)
	text, err := strconv.Unquote(`"` + strings.ReplaceAll(strings.ReplaceAll(inner, `\"`, `"`), `"`, `\"`) + `"`)
	if err == nil {
		out = append(out, text)
	}

	if text, err := url.QueryUnescape(word); err == nil {
		out = append(out, text)
	}

	if text, err := url.PathUnescape(word); err == nil {
		out = append(out, text)
	}

	return append(out, html.UnescapeString(word))
}

// decodeBinary decodes a word as base64 and as hexadecimal digits. The word may be cut off at both ends.
func decodeBinary(word string) []string {
	word = strings.TrimRight(word, "=")
	var out []string

	for skip := range min(2, len(word)) {
		part := word[skip:]
		if text, err := hex.DecodeString(part[:len(part)/2*2]); err == nil {
			out = append(out, string(text))
		}
	}

	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for skip := range min(4, len(word)) {
			part := word[skip:]
			if len(part)%4 == 1 {
				part = part[:len(part)-1]
			}

			if text, err := encoding.DecodeString(part); err == nil {
				out = append(out, string(text))
			}
		}
	}

	return out
}
