package guest

import (
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

// These constants are the services of nodes.
const (
	ocneService       = "ocne.service"
	crioService       = "crio.service"
	containerdService = "containerd.service"
	kubeletService    = "kubelet.service"
	keepalivedService = "keepalived.service"
	haproxyService    = "haproxy.service"
	nginxService      = "capolvm-nginx.service"
)

// image describes the contents of an image, and its behavior at boot.
type image struct {
	// units has the image's systemd units. The value is true if the image's presets enable the unit. A complete image
	// also contains every other unit.
	units    map[string]bool
	complete bool
	// enforcing reports whether SELinux enforces its policy.
	enforcing bool
}

// images maps names to images. The behavior of Oracle's images comes from their sources. A preset of oracle-cne/ock
// enables ocne.service, but neither CRI-O nor the kubelet. No recording of a real machine confirms this preset.
var images = map[string]image{
	"": {complete: true, units: map[string]bool{crioService: true, containerdService: true, kubeletService: true}},
	store.ImageOCK: {enforcing: true, units: map[string]bool{
		ocneService: true, crioService: false, kubeletService: false, keepalivedService: false,
	}},
	store.ImageOracleLinux: {
		complete: true, enforcing: true, units: map[string]bool{containerdService: true, kubeletService: true},
	},
}

// hasUnit reports whether the image or the payload contains a unit.
func (s *system) hasUnit(name string) bool {
	if _, known := s.image.units[name]; known || s.image.complete {
		return true
	}

	return s.units[name].contents != "" || s.read(unitFolder+name) != ""
}

// isEnabled reports whether a unit starts at boot. The payload overrides the image's presets.
func (s *system) isEnabled(name string) bool {
	switch u := s.units[name]; {
	case u.masked || u.disabled:
		return false
	case u.enabled:
		return s.hasUnit(name)
	}

	return s.image.units[name]
}

// isRunning reports whether a unit has started, at this boot or by a command.
func (s *system) isRunning(name string) bool {
	if started, told := s.started[name]; told {
		return started
	}

	return s.isEnabled(name)
}

// homes maps folders to the SELinux labels of their files. These labels are for users or for temporary files, so
// systemd may not execute the files.
var homes = map[string]string{
	"/root/": "admin_home_t", "/home/": "user_home_t", "/tmp/": "user_tmp_t", "/var/tmp/": "user_tmp_t",
}

// deniedLabel returns the SELinux label that prevents systemd from executing a file, or "" if systemd may execute it.
func (s *system) deniedLabel(path string) string {
	if !s.image.enforcing {
		return ""
	}

	for folder, label := range homes {
		if strings.HasPrefix(path, folder) {
			return label
		}
	}

	return ""
}
