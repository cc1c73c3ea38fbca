package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestUserDataReachesTheEngineToTheByte sends texts valid in XML, and reads them back from a simulator. Its parser
// normalizes line breaks as XML requires: a raw carriage return would come back as a line feed. No recording of an
// engine has such texts.
func TestUserDataReachesTheEngineToTheByte(t *testing.T) {
	_, config := start(t, ovirtsim.Options{})
	c := client(t, config)
	_, cluster := home(t, c)

	number := 0

	for name, text := range map[string]string{
		"CRLF":               "#cloud-config\r\nruncmd:\r\n- echo hi\r\n",
		"a lone CR":          "#cloud-config\n# a\rb\n",
		"CR at both ends":    "\r#\r",
		"a BOM":              "\ufeff#cloud-config\n{}\n",
		"four bytes":         "#cloud-config\n# \U0001F642 ü € \u2028\n",
		"the end of a CDATA": "#cloud-config\n# ]]> <![CDATA[ &amp; &#10; &#27; <script> ' \"\n",
		"blanks at the ends": "  #cloud-config\n\n\truncmd: []   ",
		"NEL and NBSP":       "#cloud-config\n# \u0085 \u00a0 \u0090\n",
		"200 KB in one line": "#cloud-config\n# " + strings.Repeat("x", 200_000) + "\n",
		"the replacement":    "#cloud-config\n# \ufffd\n",
	} {
		t.Run(name, func(t *testing.T) {
			number++

			vm, err := c.CreateVM(t.Context(), &engine.VM{
				Name: fmt.Sprintf("carried-%d", number), Cluster: &engine.Ref{ID: cluster.ID}, Template: &engine.Ref{
					Name: "Blank",
				},
				Initialization: &engine.Initialization{CustomScript: text},
			}, nil)
			check.Error(t, err, "")

			read, err := c.FetchVM(t.Context(), vm.ID)
			check.Error(t, err, "")
			check.Equal(t, "user data", read.Initialization.CustomScript, text)
		})
	}
}

// TestATextThatXMLCannotCarryIsNotSent has texts the encoder would change silently, and texts the client would read
// back differently.
func TestATextThatXMLCannotCarryIsNotSent(t *testing.T) {
	sim, config := start(t, ovirtsim.Options{})
	c := client(t, config)
	_, cluster := home(t, c)
	before := len(sim.ListRequests())

	for name, test := range map[string]struct {
		change  func(*engine.VM)
		problem string
	}{
		"an escape in user data": {
			func(vm *engine.VM) { vm.Initialization = &engine.Initialization{CustomScript: "a\nb\x1b[0m"} },
			"initialization.custom_script: character 2 of line 2 is U+001B (escape), which XML cannot carry",
		},
		"a NUL": {
			func(vm *engine.VM) { vm.Comment = ptr.To("a\x00") }, "comment: character 2 of line 1 is U+0000 (NUL)",
		},
		"a form feed": {func(vm *engine.VM) { vm.Description = ptr.To("\f") }, "is U+000C (form feed)"},
		"U+FFFE":      {func(vm *engine.VM) { vm.Description = ptr.To("\ufffe") }, "is U+FFFE"},
		"U+FFFF":      {func(vm *engine.VM) { vm.Description = ptr.To("\uffff") }, "is U+FFFF"},
		"a byte of Latin-1": {
			func(vm *engine.VM) { vm.Comment = ptr.To("zo\xeb") }, "character 3 of line 1 is not UTF-8 (byte 0xEB)",
		},
		"half a pair": {func(vm *engine.VM) { vm.Comment = ptr.To("\xed\xa0\x80") }, "is not UTF-8 (byte 0xED)"},
		"a tab in a name": {
			func(vm *engine.VM) { vm.Name = "a\tb" },
			"name: character 2 of line 1 is U+0009 (tab), which cannot be printed",
		},
		"a direction mark": {
			func(vm *engine.VM) { vm.Description = ptr.To("a\u202e") }, "is U+202E, which cannot be printed",
		},
		"a name without end": {
			func(vm *engine.VM) { vm.Name = strings.Repeat("a", 256) }, "name: it has more than 255 characters",
		},
		"a C1 control, comment": {
			func(vm *engine.VM) { vm.Comment = ptr.To("\u0090") }, "is U+0090, which cannot be printed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			vm := &engine.VM{Name: "a", Cluster: &engine.Ref{ID: cluster.ID}, Template: &engine.Ref{Name: "Blank"}}
			test.change(vm)

			_, err := c.CreateVM(t.Context(), vm, nil)
			check.Error(t, err, test.problem)
		})
	}

	check.Equal(t, "requests", len(sim.ListRequests()), before)
}
