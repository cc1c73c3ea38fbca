package guest

import (
	"path"
	"strings"
)

// unit is a unit of systemd that the payload brings or extends.
type unit struct {
	name     string
	contents string
	dropins  []string
	enabled  bool
	masked   bool
}

// commands are what the unit runs when the guest starts, in the order of systemd: ExecStartPre before ExecStart. The
// order among units is that of the payload.
func (u unit) commands(sys *system) []string {
	if !u.enabled || u.masked || path.Ext(u.name) != ".service" {
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

	if !installed {
		sys.warnings = append(sys.warnings, "systemd: "+u.name+" has no installation config: enabling it has no effect")
		return nil
	}

	return append(before, start...)
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
