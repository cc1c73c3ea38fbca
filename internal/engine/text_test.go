package engine

import (
	"encoding/xml"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestNamesAndCommentsOfAnEngineArePlain has possible names and descriptions of a VM, and their form after the client
// has read them.
func TestNamesAndCommentsOfAnEngineArePlain(t *testing.T) {
	long := strings.Repeat("ä", maxName)

	tests := map[string]struct{ text, name, comment string }{
		"a usual one":             {"lab vm-3 (Müller)", "lab vm-3 (Müller)", "lab vm-3 (Müller)"},
		"a line break":            {"a\nresource", "a�resource", "a\nresource"},
		"a line break by number":  {"a&#10;b&#xd;c&#9;d", "a�b�c�d", "a\nb\rc\td"},
		"CDATA":                   {"a<![CDATA[\n]]>b", "a�b", "a\nb"},
		"other ends of lines":     {"a\u2028b\u2029c\u0085d", "a�b�c�d", "a�b�c�d"},
		"a control character":     {"a\u007fb\u009bc", "a�b�c", "a�b�c"},
		"another direction":       {"a\u202eb\u2066c\u200bd", "a�b�c�d", "a�b�c�d"},
		"as long as can be":       {long, long, long},
		"longer than can be":      {long + "x", long, long + "x"},
		"longer, in two parts":    {long + "<!-- -->x<![CDATA[y]]>", long, long + "xy"},
		"several spaces are kept": {" a  b ", " a  b ", " a  b "},
		"other spaces are kept":   {"a\u00a0b\u3000c", "a\u00a0b\u3000c", "a\u00a0b\u3000c"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var vm VM
			answer := "<vm><name>" + test.text + "</name><comment>" + test.text + "</comment><description>" + test.text +
				"</description><initialization><custom_script>a\n\u2028b</custom_script></initialization></vm>"
			check.Error(t, decodeAnswer(t.Context(), "GET", "/vms/x", strings.NewReader(answer), &vm), "")
			check.Equal(t, "name", vm.Name, test.name)
			check.Equal(t, "comment", vm.CommentText(), test.comment)
			check.Equal(t, "description", vm.DescriptionText(), test.comment)
			check.Equal(t, "user data", vm.Initialization.CustomScript, "a\n\u2028b")
		})
	}
}

// TestACommentHasAnEnd has an overlong comment.
func TestACommentHasAnEnd(t *testing.T) {
	text := newTextFilter("comment")
	got := text.filterText(xml.CharData(strings.Repeat("x", maxText+1)))
	check.Equal(t, "length", len(got), maxText)
	check.Equal(t, "more", string(text.filterText(xml.CharData("y"))), "")
}
