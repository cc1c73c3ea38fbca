package guest

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// unitFolder is the folder of the payload's units.
const unitFolder = "/etc/systemd/system/"

// unit is a systemd unit created or extended by the payload.
type unit struct {
	name     string
	contents string
	dropins  []string
	// enabled and disabled come from the payload; if both are false, the image decides.
	enabled, disabled bool
	masked            bool
}

// unitOf returns a unit with the additions in the payload's files.
func (s *system) unitOf(name string) unit {
	u := s.units[name]
	u.name = name
	if text := s.read(unitFolder + name); text != "" {
		u.contents = text
	}

	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		if strings.HasPrefix(path, unitFolder+name+".d/") && strings.HasSuffix(path, ".conf") {
			u.dropins = append(slices.Clone(u.dropins), s.read(path))
		}
	}

	return u
}

// fullText returns the unit's full text with its drop-ins.
func (u unit) fullText() string {
	return strings.Join(append([]string{u.contents}, u.dropins...), "\n")
}

// bootCommands returns the commands that the unit runs at boot, in systemd's order: ExecStartPre before ExecStart.
// Units run in the order of the payload.
func (u unit) bootCommands(sys *system) []string {
	if !u.enabled || u.masked {
		return nil
	}

	return u.startCommands(sys, true)
}

// startCommands returns the commands that the unit runs when it starts. At boot, only units of the image and units with
// an [Install] section start.
func (u unit) startCommands(sys *system, boot bool) []string {
	if path.Ext(u.name) != ".service" {
		return nil
	}

	var before, start []string

	installed := u.contents == "" // a unit of the image that the payload extends with drop-ins only
	for _, text := range append([]string{u.contents}, u.dropins...) {
		settings, err := readINI(strings.ReplaceAll(text, "\\\n", " "))
		if err != nil {
			sys.warnings = append(sys.warnings, "systemd: "+u.name+": "+err.Error())
			continue
		}

		for _, s := range settings {
			switch s.section + "." + s.key {
			case "Install.WantedBy", "Install.RequiredBy":
				installed = true
			case "Unit.ConditionPathExists", "Unit.AssertPathExists":
				if !isConditionMet(s.value, sys) {
					sys.warnings = append(sys.warnings,
						"systemd: "+u.name+" was skipped: its condition "+s.key+"="+s.value+" was not met")
					return nil
				}
			case "Service.ExecStartPre":
				before = appendCommand(before, s.value)
			case "Service.ExecStart":
				start = appendCommand(start, s.value)
			}
		}
	}

	if boot && !installed {
		sys.warnings = append(sys.warnings, "systemd: "+u.name+" has no installation config: enabling it has no effect")
		return nil
	}

	return slices.DeleteFunc(append(before, start...), func(command string) bool {
		program, _, _ := strings.Cut(command, " ")
		label := sys.deniedLabel(program)
		if label != "" {
			sys.warnings = append(sys.warnings, "systemd: "+u.name+": Failed at step EXEC spawning "+program+
				": Permission denied: SELinux does not let init_t execute "+label)
		}

		return label != ""
	})
}

// isConditionMet reports whether a condition on a path is met. The payload must contain the file, or with "!" must not
// contain it. The simulator does not know the files of the image.
func isConditionMet(condition string, sys *system) bool {
	name, negated := strings.CutPrefix(strings.TrimPrefix(condition, "|"), "!")
	_, exists := sys.files[name]
	return exists != negated
}

// appendCommand adds a command to a list. As in systemd, an empty command clears the list.
func appendCommand(commands []string, command string) []string {
	if command == "" {
		return nil
	}

	return append(commands, strings.TrimLeft(command, "-@:+!"))
}
