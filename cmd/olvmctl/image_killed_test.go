package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// templateOf returns arguments for creating the template "t29" from a file.
func (s *site) templateOf(path string) []string {
	return []string{"image", "template", "--file", path, "--name", "t29", "--cluster", "Default",
		"--storage-domain", "olvm-data", "--server", s.sim.URL(), "--ca-file", s.caFile}
}

// endAt starts the command as a separate process, and signals it once the engine has a request matching the fault. It
// returns the output of the process.
func (s *site) endAt(signal syscall.Signal, fault ovirtsim.Fault, args []string) string {
	s.t.Helper()
	check.Error(s.t, s.sim.Inject(fault), "")

	executable, err := os.Executable()
	check.Error(s.t, err, "")

	var said bytes.Buffer
	process := exec.CommandContext(s.t.Context(), executable, args...)
	process.Env, process.Stderr = append(os.Environ(), asOlvmctl+"=1"), &said
	check.Error(s.t, process.Start(), "")
	wait.Until(s.t, "the command asks for "+fault.Path, func() bool { return s.sim.Hits() == 1 })
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

// requestsOfATemplate are requests at which to end the creation of a template.
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
			check.Contains(t, "said", said, "to go on, run it again: olvmctl image template --file "+image)
			check.Equal(t, "left", s.leftovers(), "")

			_, out, _ := s.run("", "image", "list", "--server", s.sim.URL(), "--ca-file", s.caFile)
			check.Lacks(t, "templates", out, "t29")
		})
	}
}

func TestWhatAKilledTemplateLeavesGoesWithTheNextRun(t *testing.T) {
	for name, path := range requestsOfATemplate {
		if name == "the upload" { // it resumes, see TestAnUploadThatWasKilledGoesOn
			continue
		}

		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			t.Setenv("OCNE_DEFAULTS", "")
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			image, _ := rawImage(t)

			s.endAt(syscall.SIGKILL, ovirtsim.Fault{Method: "POST", Path: path, Action: "hold", Count: 1},
				s.templateOf(image))
			wait.Until(t, "the engine has the VM", func() bool { return len(s.sim.VMs()) == 1 })

			code, _, problems := s.run("", s.templateOf(image)...)
			check.Equal(t, "left", s.leftovers(), "")
			check.Contains(t, "said", problems, "which a run that was killed has left")

			if code != 0 { // the engine had made it
				check.Contains(t, "said", problems, `there is a template "t29" already`)
			}

			_, out, _ := s.run("", "image", "list", "--server", s.sim.URL(), "--ca-file", s.caFile)
			check.Equal(t, "templates", strings.Count(out, "t29"), 1)
		})
	}
}

// TestWhatARunElsewhereLeavesIsNamed simulates another machine without the killed run's file.
func TestWhatARunElsewhereLeavesIsNamed(t *testing.T) {
	s := newSite(t)
	t.Setenv("OCNE_DEFAULTS", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	image, _ := rawImage(t)

	s.endAt(syscall.SIGKILL, ovirtsim.Fault{Method: "POST", Path: "/api/vms$", Action: "hold", Count: 1},
		s.templateOf(image))
	wait.Until(t, "the engine has the VM", func() bool { return len(s.sim.VMs()) == 1 })
	t.Setenv("XDG_CACHE_HOME", t.TempDir())

	left := s.leftovers()
	_, _, problems := s.run("", s.templateOf(image)...)
	check.Contains(t, "said", problems, "VM "+s.sim.VMs()[0].Name+" is of another run for this template")
	check.Contains(t, "said", problems, "disk t29 ("+s.sim.Disks()[0].ID+") is of another run for this template")
	check.Contains(t, "said", problems, "delete it in the engine")
	check.Equal(t, "left", s.leftovers(), left)
}
