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
	// commands run once the network is up, in this order. Each is shell text of one or more lines.
	commands []string
	// image is the original image.
	image image
	// units are the payload's units by name. started holds the units started or stopped by commands.
	units   map[string]unit
	started map[string]bool
	// warnings are non-fatal messages of cloud-init or Ignition.
	warnings []string
}

// file is a file written by the user data.
type file struct {
	content string
	// mode holds the permission bits.
	mode uint32
	// owner is the user owning the file.
	owner string
}

// root owns all files of the payload without another owner.
const root = "root"

// defaultMode is the mode of cloud-init and Ignition for files without a mode.
const defaultMode = 0o644

func newSystem() *system {
	return &system{
		files: map[string]file{}, image: images[""], units: map[string]unit{}, started: map[string]bool{},
	}
}

// write replaces a file of root.
func (s *system) write(path, content string, mode uint32) {
	s.writeAs(root, path, content, mode, false)
}

// writeAs replaces or extends a file of a user.
func (s *system) writeAs(owner, path, content string, mode uint32, extend bool) {
	if extend {
		content = s.files[path].content + content
	}

	s.files[path] = file{content: content, mode: mode, owner: owner}
}

// read returns the content of a file, or "" if there is none.
func (s *system) read(path string) string { return s.files[path].content }

// provisionSystem simulates the first boot: it reads the user data, but does not run commands. With cloud-init, it
// returns a system even for invalid user data, because the guest still comes up.
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

// hostName returns the guest's host name. Ignition guests prefer the file to the engine's name. cloud-init sets the
// engine's name, and the file is only a fallback.
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
