// Package check compares actual values with wanted values in tests. It compares one field at a time, so a failure names
// the field.
package check

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unexported makes cmp compare unexported fields, too.
var unexported = cmp.Exporter(func(reflect.Type) bool { return true })

// Equal fails the test if a field differs from the wanted value.
func Equal[T any](t testing.TB, field string, got, want T) {
	t.Helper()

	if diff := cmp.Diff(want, got, unexported); diff != "" {
		t.Errorf("%s (-want +got):\n%s", field, diff)
	}
}

// Set fails the test if a field has its zero value.
func Set[T comparable](t testing.TB, field string, got T) {
	t.Helper()

	var zero T
	if got == zero {
		t.Errorf("%s is not set", field)
	}
}

// Length ends the test if a list does not have the wanted length. Otherwise, later code that reads the items would
// panic.
func Length[T any](t testing.TB, field string, got []T, want int) {
	t.Helper()

	if len(got) != want {
		t.Fatalf("%s has %d items, want %d: %+v", field, len(got), want, got)
	}
}

// Contains fails the test if a text does not contain a part.
func Contains(t testing.TB, field, text, part string) {
	t.Helper()

	if !strings.Contains(text, part) {
		t.Errorf("%s lacks %q:\n%s", field, part, text)
	}
}

// Lacks fails the test if a text contains a part.
func Lacks(t testing.TB, field, text, part string) {
	t.Helper()

	if strings.Contains(text, part) {
		t.Errorf("%s has %q:\n%s", field, part, text)
	}
}

// Error ends the test if the error does not contain a text. With an empty text, it ends the test if there is an error.
func Error(t testing.TB, err error, text string) {
	t.Helper()

	switch {
	case err == nil && text != "":
		t.Fatalf("there is no error, want %q", text)
	case err != nil && (text == "" || !strings.Contains(err.Error(), text)):
		t.Fatalf("got the error %q, want %q", err, text)
	}
}
