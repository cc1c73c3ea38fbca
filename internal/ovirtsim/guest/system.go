package guest

import (
	"context"
	"fmt"
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/api"
)

// system is the disk of a VM after its first boot, as far as the user data decides it.
type system struct {
	files map[string]file
	// commands run once the network is up, in this order. Each is shell text of one or more lines.
	commands []string
	// image is what there was before.
	image image
	// units of the payload by their names, and those that commands have started or stopped.
	units   map[string]unit
	started map[string]bool
	// warnings are what cloud-init or Ignition would have logged without failing.
	warnings []string
}

// file is one that the user data wrote.
type file struct {
	content string
	// mode are the permission bits.
	mode uint32
	// owner is the user that has it.
	owner string
}

// root owns what the payload gives to nobody else.
const root = "root"

// defaultMode is what cloud-init and Ignition give a file that names no mode.
const defaultMode = 0o644

func newSystem() *system {
	return &system{
		files: map[string]file{}, image: images[""], units: map[string]unit{}, started: map[string]bool{},
	}
}

// write replaces a file of root's.
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

// read returns the content of a file, empty where there is none.
func (s *system) read(path string) string { return s.files[path].content }

// provision is the first boot: it reads the user data, and runs none of it. A system comes back even where the user
// data is bad and the guest comes up all the same, which is so with cloud-init.
func provision(ctx context.Context, machine api.GuestVM) (*system, error) {
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

// hostName is what the guest calls itself. Ignition guests take the file before what the engine offers; cloud-init sets
// what the engine says, and the file is only what the image is left with.
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
