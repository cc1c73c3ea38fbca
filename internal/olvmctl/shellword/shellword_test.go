package shellword

import (
	"os/exec"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestAShellTakesAQuotedWordAsItIs(t *testing.T) {
	for _, word := range []string{
		"", "prod", "/home/me/.kube/config", "it's mine", "'", "a b", "$HOME", "`id`", "$(id)", "a;b", "a&b", "*", "~", "#x",
		"=ls", "a\nb", `\`, `"`, "!!", "{a,b}", "(x)", "<x>", "ü",
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf '<%s>' "+QuoteWord(word)).Output()
		check.Error(t, err, "")
		check.Equal(t, word, string(out), "<"+word+">")
	}

	check.Equal(t, "a plain word", QuoteWord("/home/me/.kube/config"), "/home/me/.kube/config")
}
