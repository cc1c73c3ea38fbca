package tfprovider_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// provider writes a configuration with these attributes in the provider block.
func (w *workspace) provider(attributes, resources string) *workspace {
	w.t.Helper()
	w.config(resources)

	content, err := os.ReadFile(filepath.Join(w.dir, "main.tf"))
	must(w.t, err)
	before, rest, _ := strings.Cut(string(content), "provider \"ovirt\" {\n")
	_, after, _ := strings.Cut(rest, "\n}\n")
	whole := before + "provider \"ovirt\" {\n" + attributes + "\n}\n" + after
	must(w.t, os.WriteFile(filepath.Join(w.dir, "main.tf"), []byte(whole), 0o600))

	return w
}

func TestAUserWithoutTheRoleOfAnAdministrator(t *testing.T) {
	t.Parallel()
	user := ovirtsim.User{Name: "builder@internal", Password: "secret1", Role: "PowerUserRole"}
	s := newSiteWith(t, ovirtsim.Options{Timings: quick}, func(inventory *ovirtsim.Inventory) {
		inventory.Users = append(inventory.Users, user)
	})
	everything := machine + disk + `
resource "ovirt_disk_attachment" "d" {
  vm_id          = ovirt_vm.a.id
  disk_id        = ovirt_disk.d.id
  disk_interface = "virtio_scsi"
  active         = true
}
resource "ovirt_vm_graphics_consoles" "a" { vm_id = ovirt_vm.a.id }
data "ovirt_templates" "t" { name = "ol9-k8s" }
`
	block := "  url = \"" + s.sim.URL() + "\"\n  username = \"" + user.Name + "\"\n  password = \"" + user.Password +
		"\"\n  tls_ca_bundle = <<E\n" + string(s.sim.CA()) + "\nE\n"

	for name, filter := range map[string]string{
		"by the attribute": "  filter = true",
		"by the header":    "  extra_headers = { Filter = \"true\" }",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkspace(t, s).provider(block+filter, everything)
			w.apply()
			w.settled()
			w.provider(block+filter, strings.Replace(everything, "cpu_cores   = 2", "cpu_cores   = 4", 1))
			w.wants("ovirt_vm.a", "update")
			w.apply()
			w.settled()
			w.destroy()
		})
	}

	refused := newWorkspace(t, s).provider(block, everything).fail()
	check.Contains(t, "the message", refused, "insufficient permissions")
}

func TestTheEnvironmentHasWhatTheProviderBlockLeavesOut(t *testing.T) {
	s := newSite(t, quick)
	file := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(file, s.sim.CA(), 0o600))
	t.Setenv("OVIRT_URL", s.sim.URL())
	t.Setenv("OVIRT_USERNAME", s.sim.Username())
	t.Setenv("OVIRT_PASSWORD", s.sim.Password())
	t.Setenv("OVIRT_TLS_CA_FILES", file)
	w := newWorkspace(t, s).provider("", plainVM)
	w.apply()
	w.settled()

	t.Setenv("OVIRT_URL", "https://nowhere.invalid/ovirt-engine")
	t.Setenv("OVIRT_TLS_INSECURE", "true") // and the block has TLS settings
	w.config(plainVM).settled()

	t.Setenv("OVIRT_TLS_INSECURE", "perhaps")
	check.Contains(t, "the message", w.provider("", plainVM).fail(), "OVIRT_TLS_INSECURE is neither true nor false")
	t.Setenv("OVIRT_PASSWORD", "")
	check.Contains(t, "the message", w.fail(), "OVIRT_PASSWORD")
}

func TestExtraHeadersAreSent(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	var mu sync.Mutex
	seen := map[string]int{}
	proxy := between(t, s, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(r.URL.Path, "/api") {
			seen[r.Header.Get("X-Ticket")]++
		}
	}, nil)
	w := newWorkspace(t, s).through(proxy).config(plainVM)
	content, err := os.ReadFile(filepath.Join(w.dir, "main.tf"))
	must(t, err)
	with := func(headers string) {
		must(t, os.WriteFile(filepath.Join(w.dir, "main.tf"), []byte(strings.Replace(string(content),
			"provider \"ovirt\" {\n", "provider \"ovirt\" {\n  extra_headers = { "+headers+" }\n", 1)), 0o600))
	}
	with(`"X-Ticket" = "CHG-1"`)
	w.apply()
	mu.Lock()
	check.Equal(t, "requests without the header", seen[""], 0)
	mu.Unlock()

	for headers, want := range map[string]string{
		`"authorization" = "Basic x"`: "the client's own",
		`"a b" = "x"`:                 "not the name of a header",
		`"X-A" = "a\nb"`:              "no header can carry",
		`"Filter" = "x"`:              "the client's own",
	} {
		with(headers)
		check.Contains(t, headers, w.fail(), want)
	}
}

func TestAProviderBlockThatIsNotKnownYetNamesTheValue(t *testing.T) {
	t.Parallel()
	s := newSite(t, quick)
	w := newWorkspace(t, s).provider("  url = terraform_data.later.output\n  username = \"a@internal\"\n"+
		"  password = \"x\"\n  tls_system = true", plainVM+"resource \"terraform_data\" \"later\" { input = timestamp() }\n")
	check.Contains(t, "the message", w.fail(), "url is not known yet")
}

func TestHeadersMakeAnotherSession(t *testing.T) {
	t.Parallel()
	sessions := &engine.Sessions{}
	config := engine.Config{URL: "https://engine.example.com/ovirt-engine", Username: "a@internal", Password: "x"}
	first, err := sessions.Get(config)
	must(t, err)
	config.Headers = map[string]string{"X-A": "b"}
	second, err := sessions.Get(config)
	must(t, err)
	check.Equal(t, "one session", first == second, false)
}
