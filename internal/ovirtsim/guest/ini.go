package guest

import (
	"fmt"
	"strings"
)

// setting is one line of an INI file. Settings are a list instead of a map, because systemd gives a meaning to repeated
// keys.
type setting struct {
	section, key, value string
}

// readINI parses the common syntax of NetworkManager keyfiles and systemd units.
func readINI(text string) ([]setting, error) {
	var out []setting
	section := ""

	for number, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[' && line[len(line)-1] == ']':
			section = line[1 : len(line)-1]
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok || section == "" {
				return nil, fmt.Errorf("line %d is neither a section nor a key with a value: %q", number+1, line)
			}

			out = append(out, setting{section: section, key: strings.TrimSpace(key), value: strings.TrimSpace(value)})
		}
	}

	return out, nil
}
