package guest

import (
	"fmt"
	"slices"
	"strings"
)

// startingVerbs and stoppingVerbs are the verbs of systemctl with an immediate effect.
var (
	startingVerbs = []string{"start", "restart", "reload-or-restart"}
	stoppingVerbs = []string{"stop", "kill"}
)

// runSystemctl runs a systemctl command line. Units that it starts run the commands of the payload. A refusal is only a
// warning, because neither runcmd nor a script without set -e stops at it.
func (s *system) runSystemctl(arguments []string, vmID string, depth int) (*kubeadmCall, error) {
	var verb string
	var names []string

	now := false

	for _, argument := range arguments {
		switch {
		case argument == "--now":
			now = true
		case strings.HasPrefix(argument, "-"):
		case verb == "":
			verb = argument
		default:
			names = append(names, withSuffix(argument))
		}
	}

	for _, name := range names {
		if !s.hasUnit(name) {
			s.warnings = append(s.warnings, fmt.Sprintf("systemctl: Failed to %s unit: Unit file %s does not exist.",
				verb, name))
			continue
		}

		if call, err := s.controlUnit(verb, name, now, vmID, depth); call != nil || err != nil {
			return call, err
		}
	}

	return nil, nil
}

// controlUnit applies a systemctl verb to one unit.
func (s *system) controlUnit(verb, name string, now bool, vmID string, depth int) (*kubeadmCall, error) {
	u := s.unitOf(name)
	s.started[name] = s.isRunning(name) // a unit enabled later starts only at the next boot
	start := slices.Contains(startingVerbs, verb)

	switch verb {
	case "enable":
		u.enabled, u.disabled, start = true, false, now
	case "disable":
		u.enabled, u.disabled = false, true
	case "mask":
		u.masked = true
	case "unmask":
		u.masked = false
	}

	s.units[name] = u
	if slices.Contains(stoppingVerbs, verb) || now && (verb == "disable" || verb == "mask") {
		s.started[name] = false
	}

	if !start {
		return nil, nil
	}

	if u.masked {
		s.warnings = append(s.warnings, fmt.Sprintf("systemctl: Failed to start %s: Unit %s is masked.", name, name))
		return nil, nil
	}

	s.started[name] = true
	for _, command := range u.startCommands(s, false) {
		if call, err := s.runText(command, vmID, depth+1); call != nil || err != nil {
			return call, err
		}
	}

	return nil, nil
}

// withSuffix returns the full name of a unit. Like systemctl, it assumes a service if the name has no suffix.
func withSuffix(name string) string {
	if strings.Contains(name, ".") {
		return name
	}

	return name + ".service"
}
