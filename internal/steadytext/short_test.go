package steadytext

import (
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestATextIsCutBetweenItsCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"12345678":                "12345678",
		"123456789":               "1234 ...",
		"ääääää":                  "ää ...",
		"aäääää":                  "aä ...",
		strings.Repeat("x", 2000): "xxxx ...",
	} {
		check.Equal(t, text, FitLength(text, 8), want)
	}
}
