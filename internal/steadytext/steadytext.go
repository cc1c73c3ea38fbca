// Package steadytext removes from a text what differs each time the same problem occurs: times, attempts, local ports,
// request IDs and pointers. A condition with such a text changes its object with every try, and each change starts the
// next try.
package steadytext

import (
	"reflect"
	"regexp"
	"strings"
)

// gap replaces a removed part of a text.
const gap = "…"

// rule replaces a match that contains a digit, because "request ID" alone is only a word.
type rule struct {
	pattern *regexp.Regexp
	with    string
}

const (
	clock  = `\d{1,2}:\d{2}:\d{2}(?:[.,]\d+)?`
	day    = `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*`
	month  = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*`
	zone   = `(?:\s*(?:Z\b|[AP]M\b|[+-]\d{2}:?\d{2}\b|UTC\b|GMT\b|CES?T\b|\(?[A-Z]{3,4}\)?\b))*`
	length = `(?:\d+(?:\.\d+)?(?:ns|µs|μs|us|ms|s|m|h))+\b`
)

// rules are the rules in the order of their use.
var rules = []rule{
	// This matches dates with a time in the forms of RFC 3339, Go, Java and HTTP.
	{regexp.MustCompile(`\b\d{4}[-/]\d{2}[-/]\d{2}[T ]` + clock + zone + `(?: m=[+-][\d.]+)?`), gap},
	{regexp.MustCompile(`\b(?:` + day + `,?\s+)?(?:` + month + `\s+\d{1,2}|\d{1,2}[ -]` + month + `),?` +
		`(?:[ -]\d{4})?,?\s+` + clock + zone + `(?:\s+\d{4}\b)?`), gap},
	// This matches a clock time alone. A MAC or IPv6 address has more parts.
	{regexp.MustCompile(`(^|[^:.\w])` + clock + zone + `($|[^:\w])`), "${1}" + gap + "${2}"},
	{regexp.MustCompile(`(?i)\b(timestamp|epoch)(["'\s:=]+)\d{9,}\b`), "${1}${2}" + gap},
	// This matches the local port of a connection.
	{regexp.MustCompile(`(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-fA-F:.]+(?:%\w+)?\]):\d+->`), ""},
	{regexp.MustCompile(`\b0x[0-9a-fA-F]{8,16}\b`), gap},
	{regexp.MustCompile(`(?i)\b((?:request|correlation|trace|span|transaction|incident|session|support|event|log|` +
		`error)[ _-]?(?:id|number|uuid))\b(["'\s:=#(]*)[0-9a-zA-Z][\w.:/+=-]*`), "${1}${2}" + gap},
	{regexp.MustCompile(`(?i)\b((?:request|incident|reference|ray)\s*#|(?:reference|ray id)\s*:)\s*#?[\w.-]+`),
		"${1}" + gap},
	// This matches the number of an attempt.
	{regexp.MustCompile(`(?i)\b(attempts?|try|tries|retry|retries)([\s#:=(]+)\d+(?:\s*(?:of|/)\s*\d+)?\b`),
		"${1}${2}" + gap},
	{regexp.MustCompile(`(?i)\b\d+(\s+(?:more\s+|failed\s+)?(?:times|attempts?|tries|retries)\b)`), gap + "${1}"},
	// This matches a duration in the past or in the future.
	{regexp.MustCompile(`(?i)\b(after|for|took|elapsed:?|in)(\s+)` + length), "${1}${2}" + gap},
	{regexp.MustCompile(`(?i)\b` + length + `(\s+(?:ago|elapsed|left)\b)`), gap + "${1}"},
	{regexp.MustCompile(`(?i)\b(after|took|in)(\s+)\d+(?:\.\d+)?(\s*(?:milliseconds|seconds|minutes|hours))\b`),
		"${1}${2}" + gap + "${3}"},
}

// SteadyMessages removes what differs from try to try from each field Message in a status, such as those of conditions.
// All code that writes a status calls it, so that authors of messages need not think of it. It does not change values
// in maps.
func SteadyMessages(object any) {
	status := reflect.Indirect(reflect.ValueOf(object)).FieldByName("Status")
	if status.IsValid() {
		steadyValue(status)
	}
}

// steadyValue is like SteadyMessages for any part of a status.
func steadyValue(value reflect.Value) {
	switch value.Kind() { //nolint:exhaustive // no other kind has fields
	case reflect.Pointer:
		if !value.IsNil() {
			steadyValue(value.Elem())
		}
	case reflect.Slice:
		for i := range value.Len() {
			steadyValue(value.Index(i))
		}
	case reflect.Struct:
		for i := range value.NumField() {
			field := value.Field(i)

			switch {
			case !field.CanSet():
			case field.Kind() == reflect.String && value.Type().Field(i).Name == "Message":
				field.SetString(RemoveVarying(field.String()))
			default:
				steadyValue(field)
			}
		}
	}
}

// RemoveVarying returns a text without what differs from try to try.
func RemoveVarying(text string) string {
	for _, r := range rules {
		text = r.pattern.ReplaceAllStringFunc(text, func(match string) string {
			if !strings.ContainsAny(match, "0123456789") {
				return match
			}

			return r.pattern.ReplaceAllString(match, r.with)
		})
	}

	return text
}
