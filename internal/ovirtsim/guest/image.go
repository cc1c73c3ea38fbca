package guest

import (
	"strings"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/store"
)

// The services of nodes.
const (
	ocneService       = "ocne.service"
	crioService       = "crio.service"
	containerdService = "containerd.service"
	kubeletService    = "kubelet.service"
	keepalivedService = "keepalived.service"
	haproxyService    = "haproxy.service"
	nginxService      = "capolvm-nginx.service"
)

// image is what is in an image and what it does by itself.
type image struct {
	// units that it has, and whether its presets enable them. In a complete image there is every other one, too.
	units    map[string]bool
	complete bool
	// enforcing reports that SELinux denies what its policy does not allow.
	enforcing bool
}

// images by their names. What those of Oracle's do is from their sources: oracle-cne/ock enables ocne.service with a
// preset, and neither CRI-O nor the kubelet. No recording of a machine confirms it.
var images = map[string]image{
	"": {complete: true, units: map[string]bool{crioService: true, containerdService: true, kubeletService: true}},
	store.ImageOCK: {enforcing: true, units: map[string]bool{
		ocneService: true, crioService: false, kubeletService: false, keepalivedService: false,
	}},
	store.ImageOracleLinux: {
		complete: true, enforcing: true, units: map[string]bool{containerdService: true, kubeletService: true},
	},
}

// has reports whether there is a unit: one of the image or of the payload.
func (s *system) has(name string) bool {
	if _, known := s.image.units[name]; known || s.image.complete {
		return true
	}

	return s.units[name].contents != "" || s.read(unitFolder+name) != ""
}

// enabled reports whether a unit starts at a boot: the payload goes before the presets of the image.
func (s *system) enabled(name string) bool {
	switch u := s.units[name]; {
	case u.masked || u.disabled:
		return false
	case u.enabled:
		return s.has(name)
	}

	return s.image.units[name]
}

// runs reports whether a unit was started, at this boot or by a command.
func (s *system) runs(name string) bool {
	if started, told := s.started[name]; told {
		return started
	}

	return s.enabled(name)
}

// homes are the folders whose files keep a label of users or of temporary files, which systemd may not execute.
var homes = map[string]string{
	"/root/": "admin_home_t", "/home/": "user_home_t", "/tmp/": "user_tmp_t", "/var/tmp/": "user_tmp_t",
}

// denied is the label for which SELinux keeps systemd from executing a file; empty where it does not.
func (s *system) denied(path string) string {
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
