package guest

import (
	"context"
	"fmt"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
)

// system is the disk of a VM after its first boot, as far as the user data determines it.
type system struct {
	files map[string]file
	// commands run after the network is up, in this order. Each command is shell text of one or more lines.
	commands []string
	// image is the image of the VM's disk.
	image image
	// units are the payload's units by name. started records whether a command started or stopped a unit.
	units   map[string]unit
	started map[string]bool
	// warnings are messages of cloud-init or Ignition about problems that are not fatal.
	warnings []string
}

// file is a file written by the user data.
type file struct {
	content string
	// mode holds the permission bits.
	mode uint32
	// owner is the user who owns the file.
	owner string
}

// root owns the files of the payload without an explicit owner.
const root = "root"

// defaultMode is the mode that cloud-init and Ignition give to files without a mode.
const defaultMode = 0o644

func newSystem() *system {
	return &system{
		files: map[string]file{}, image: images[""], units: map[string]unit{}, started: map[string]bool{},
	}
}

// write replaces a file owned by root.
func (s *system) write(path, content string, mode uint32) {
	s.writeAs(root, path, content, mode, false)
}

// writeAs replaces a file of a user, or extends it.
func (s *system) writeAs(owner, path, content string, mode uint32, extend bool) {
	if extend {
		content = s.files[path].content + content
	}

	s.files[path] = file{content: content, mode: mode, owner: owner}
}

// read returns the content of a file, or "" for a missing file.
func (s *system) read(path string) string { return s.files[path].content }

// provisionSystem simulates the first boot: it reads the user data, but runs no commands. With cloud-init, it returns a
// system even for invalid user data, because the guest still comes up.
func provisionSystem(ctx context.Context, machine api.GuestVM) (*system, error) {
	found, known := images[machine.Image]
	if !known {
		return nil, fmt.Errorf("the simulator knows no image %q", machine.Image)
	}

	if machine.Ignition {
		return readIgnition(machine.UserData, machine.IgnitionVersion, &initramfs{
			ctx:        ctx,
			interfaces: machine.Interfaces,
			image:      found,
		})
	}

	out, err := readCloudInit(machine.UserData)
	out.image = found

	return out, err
}

// hostName returns the guest's host name. Ignition guests prefer the name in their file to the engine's name.
// cloud-init sets the engine's name, so the file is only a fallback.
func (s *system) hostName(machine api.GuestVM) string {
	fromFile := strings.TrimSpace(s.read("/etc/hostname"))
	first, second := machine.HostName, fromFile
	if machine.Ignition {
		first, second = fromFile, machine.HostName
	}

	if first == "" {
		first = second
	}

	return strings.ToLower(strings.TrimSpace(first))
}
