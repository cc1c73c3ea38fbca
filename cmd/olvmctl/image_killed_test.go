package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/engine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// templateOf returns the arguments to create the template "t29" from a file.
func (s *site) templateOf(path string) []string {
	return []string{"image", "template", "--file", path, "--name", "t29", "--cluster", "Default",
		"--storage-domain", "olvm-data", "--server", s.sim.URL(), "--ca-file", s.caFile}
}

// endAt starts the command as a separate process. It sends a signal to the process once the engine has a request that
// matches the fault. It returns the output of the process.
func (s *site) endAt(signal syscall.Signal, fault ovirtsim.Fault, args []string) string {
	s.t.Helper()
	check.Error(s.t, s.sim.Inject(fault), "")

	executable, err := os.Executable()
	check.Error(s.t, err, "")

	var said bytes.Buffer
	process := exec.CommandContext(s.t.Context(), executable, args...)
	process.Env, process.Stderr = append(os.Environ(), asOlvmctl+"=1"), &said
	check.Error(s.t, process.Start(), "")
	wait.Until(s.t, "the command asks for "+fault.Path, func() bool { return s.sim.CountHits() == 1 })
	check.Error(s.t, process.Process.Signal(signal), "")

	if signal == syscall.SIGKILL {
		_ = process.Wait()
		s.sim.ClearFaults() // the engine completes the request
	} else {
		s.sim.ClearFaults()
		_ = process.Wait()
	}

	return said.String()
}

// requestsOfATemplate are the requests at which to end the creation of a template.
var requestsOfATemplate = map[string]string{
	"the upload": "/api/imagetransfers$",
	"the VM":     "/api/vms$",
	"its disk":   "/diskattachments$",
	"template":   "/api/templates$",
}

func TestAnInterruptedTemplateLeavesNothing(t *testing.T) {
	for name, path := range requestsOfATemplate {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			t.Setenv("OCNE_DEFAULTS", "")
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			image, _ := rawImage(t)

			said := s.endAt(syscall.SIGINT, ovirtsim.Fault{Method: "POST", Path: path, Action: "hold", Count: 1},
				s.templateOf(image))
			t.Log(said)
			check.Contains(t, "said", said, "interrupted")
			check.Contains(t, "said", said, "to resume, run: olvmctl image template --file "+image)
			check.Equal(t, "left", s.leftovers(), "")

			_, out, _ := s.run("", "image", "list", "--server", s.sim.URL(), "--ca-file", s.caFile)
			check.Lacks(t, "templates", out, "t29")
		})
	}
}

func TestWhatAKilledTemplateLeavesGoesWithTheNextRun(t *testing.T) {
	for name, path := range requestsOfATemplate {
		if name == "the upload" { // an upload resumes, see TestAnUploadThatWasKilledGoesOn
			continue
		}

		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			t.Setenv("OCNE_DEFAULTS", "")
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			image, _ := rawImage(t)

			s.endAt(syscall.SIGKILL, ovirtsim.Fault{Method: "POST", Path: path, Action: "hold", Count: 1},
				s.templateOf(image))
			wait.Until(t, "the engine has the VM", func() bool { return len(s.sim.ListVMs()) == 1 })

			code, _, problems := s.run("", s.templateOf(image)...)
			check.Equal(t, "left", s.leftovers(), "")
			check.Contains(t, "said", problems, "left over from a killed run")

			if code != 0 { // the engine had already created it
				check.Contains(t, "said", problems, `template "t29" already exists`)
			}

			_, out, _ := s.run("", "image", "list", "--server", s.sim.URL(), "--ca-file", s.caFile)
			check.Equal(t, "templates", strings.Count(out, "t29"), 1)
		})
	}
}

// TestWhatARunElsewhereLeavesIsNamed simulates a killed run on another machine: its file does not exist on this one.
func TestWhatARunElsewhereLeavesIsNamed(t *testing.T) {
	s := newSite(t)
	t.Setenv("OCNE_DEFAULTS", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	image, _ := rawImage(t)

	s.endAt(syscall.SIGKILL, ovirtsim.Fault{Method: "POST", Path: "/api/vms$", Action: "hold", Count: 1},
		s.templateOf(image))
	wait.Until(t, "the engine has the VM", func() bool { return len(s.sim.ListVMs()) == 1 })
	t.Setenv("XDG_CACHE_HOME", t.TempDir())

	left := s.leftovers()
	_, _, problems := s.run("", s.templateOf(image)...)
	check.Contains(t, "said", problems, "VM "+s.sim.ListVMs()[0].Name+" belongs to another run for this template")
	check.Contains(t, "said", problems, "disk t29 ("+s.sim.ListDisks()[0].ID+") belongs to another run for this template")
	check.Contains(t, "said", problems, "delete it in the engine")
	check.Equal(t, "left", s.leftovers(), left)
}

// imageCommands are the commands that send an image, and what they leave in the engine.
var imageCommands = map[string]struct {
	args func(s *site, path string) []string
	left string
	// isOver is what the second one says if the first one had come to its end.
	isOver string
	// sample is the request of the fast tier.
	sample int
}{
	"upload":   {(*site).uploadOf, "disk node", "", 3},
	"template": {(*site).templateOf, "", `template "t29" already exists`, 0},
}

// TestAnImageCommandThatIsInterruptedGoesOn kills commands before and after each of their requests to the engine and to
// the host of the upload, and runs them again. Afterwards, the image is there once, and nothing else. A disk whose upload
// ended while its transfer began or ended is named, for a person to delete.
func TestAnImageCommandThatIsInterruptedGoesOn(t *testing.T) {
	t.Setenv("OCNE_DEFAULTS", "")

	for name, one := range imageCommands {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && one.sample == 0 {
				testenv.SkipInShort(t, "repeats the requests of an upload")
			}

			first, last := one.sample, one.sample

			if !testing.Short() {
				whole := &writeGate{}
				s, path, sum := newImageStand(t)
				code, said := s.olvmctl(whole, one.args(s.site, path)...)
				check.Equal(t, "exit code, after "+said, code, 0)
				s.expectImage(one.left, sum)
				t.Logf("it writes %d times", whole.writes)
				first, last = 1, whole.writes
			}

			for at := first; at <= last; at++ {
				for number, g := range interruptionsAt(at) {
					if testing.Short() && number != at%6 {
						continue
					}

					t.Run(g.name(), func(t *testing.T) {
						s, path, sum := newImageStand(t)
						code, said := s.olvmctl(g, one.args(s.site, path)...)
						t.Logf("at %s: exit code %d\n%s", g.what, code, said)

						if code > 0 && g.signal == syscall.SIGINT && !g.again {
							check.Contains(t, "what it says", said, "to resume, run: olvmctl image "+name)
						}

						code, said = s.olvmctl(&writeGate{}, one.args(s.site, path)...)
						if code != 0 && s.deletesLeftDisk(said) {
							code, said = s.olvmctl(&writeGate{}, one.args(s.site, path)...)
						}

						if code != 0 && (one.isOver == "" || !strings.Contains(said, one.isOver)) {
							t.Errorf("again: exit code %d\n%s", code, said)
						}

						s.expectImage(one.left, sum)
					})
				}
			}
		})
	}
}

// leftDisk is the message about the disk of a killed upload. Another client may use it, so a person decides.
var leftDisk = regexp.MustCompile(`disk (\S+) is left over from an upload interrupted at its start or end; delete it`)

// deletesLeftDisk deletes the disk that a command asks to delete, and reports whether it does.
func (s *stand) deletesLeftDisk(said string) bool {
	s.t.Helper()

	found := leftDisk.FindStringSubmatch(said)
	if found == nil {
		return false
	}

	client, err := engine.New(engine.Config{
		URL: s.sim.URL(), Username: s.sim.Username(), Password: s.sim.Password(), CA: s.sim.CA(),
	})
	check.Error(s.t, err, "")
	check.Error(s.t, client.RemoveDisk(s.t.Context(), engine.ID(found[1]), nil), "")

	return true
}

// newImageStand returns a stand with an engine behind its gate, and an image.
func newImageStand(t *testing.T) (s *stand, path, sum string) {
	t.Helper()

	s = &stand{gate: &writeGate{}, dir: t.TempDir()}
	s.site = newSiteWith(t, ovirtsim.Options{Timings: ovirtsim.DefaultTimings().Faster(20), Gate: s.gate.wrap})
	t.Setenv("XDG_CACHE_HOME", filepath.Join(s.dir, "cache"))
	path, sum = rawImage(t)

	return s, path, sum
}

// expectImage expects the image once, as a disk or in a template, and nothing else.
func (s *stand) expectImage(left, sum string) {
	s.t.Helper()
	check.Equal(s.t, "disks and VMs", s.leftovers(), left)

	found, err := filepath.Glob(filepath.Join(s.tmp(), "*"))
	check.Error(s.t, err, "")
	check.Length(s.t, "temporary files", found, 0)

	if left != "" {
		check.Equal(s.t, "the image", s.sim.ListDisks()[0].SHA256, sum)
		return
	}

	code, said := s.olvmctl(&writeGate{}, "image", "list", "--server", s.sim.URL(), "--ca-file", s.caFile)
	check.Equal(s.t, "exit code", code, 0)
	check.Equal(s.t, "templates", strings.Count(said, "t29"), 1)
}
