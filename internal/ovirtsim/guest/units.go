package guest

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// unitFolder is where units of the payload are.
const unitFolder = "/etc/systemd/system/"

// unit is a unit of systemd that the payload brings or extends.
type unit struct {
	name     string
	contents string
	dropins  []string
	// enabled and disabled are what the payload says; neither leaves it to the image.
	enabled, disabled bool
	masked            bool
}

// unitOf is a unit with what files of the payload say of it.
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

// text is all that is said of the unit.
func (u unit) text() string { return strings.Join(append([]string{u.contents}, u.dropins...), "\n") }

// commands are what the unit runs when the guest starts, in the order of systemd: ExecStartPre before ExecStart. The
// order among units is that of the payload.
func (u unit) commands(sys *system) []string {
	if !u.enabled || u.masked {
		return nil
	}

	return u.start(sys, true)
}

// start are the commands of the unit. At a boot only those of units start that say when.
func (u unit) start(sys *system, boot bool) []string {
	if path.Ext(u.name) != ".service" {
		return nil
	}

	var before, start []string

	installed := u.contents == "" // a unit of the image, which only gets drop-ins
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
				if !holds(s.value, sys) {
					sys.warnings = append(sys.warnings,
						"systemd: "+u.name+" was skipped: its condition "+s.key+"="+s.value+" was not met")
					return nil
				}
			case "Service.ExecStartPre":
				before = extend(before, s.value)
			case "Service.ExecStart":
				start = extend(start, s.value)
			}
		}
	}

	if boot && !installed {
		sys.warnings = append(sys.warnings, "systemd: "+u.name+" has no installation config: enabling it has no effect")
		return nil
	}

	return slices.DeleteFunc(append(before, start...), func(command string) bool {
		program, _, _ := strings.Cut(command, " ")
		label := sys.denied(program)
		if label != "" {
			sys.warnings = append(sys.warnings, "systemd: "+u.name+": Failed at step EXEC spawning "+program+
				": Permission denied: SELinux does not let init_t execute "+label)
		}

		return label != ""
	})
}

// holds reports whether a condition on a path is met: the path is a file of the payload, or with "!" it is not. Of what
// is in the image there is no knowledge.
func holds(condition string, sys *system) bool {
	name, negated := strings.CutPrefix(strings.TrimPrefix(condition, "|"), "!")
	_, exists := sys.files[name]
	return exists != negated
}

// extend adds a command to a list; an empty one empties the list, as in systemd.
func extend(commands []string, command string) []string {
	if command == "" {
		return nil
	}

	return append(commands, strings.TrimLeft(command, "-@:+!"))
}
