package image

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	platformKey = "ignition.platform.id="
	// serialConsole is where published images write to; an engine shows the other one.
	serialConsole, console = "console=ttyS0", "console=tty0"
)

var (
	// word is an argument of a kernel; blanks in double quotes belong to it.
	word = regexp.MustCompile(`(?:[^\s"]|"[^"\n]*(?:"|$))+`)
	// platformID is how Ignition spells its platforms.
	platformID = regexp.MustCompile(`^[a-z0-9]+$`)
	// optionsLine of a boot loader entry.
	optionsLine = regexp.MustCompile(`^options[ \t]`)
)

// Arguments are those of a kernel.
type Arguments struct {
	// Platform is Ignition's name of where the configuration comes from.
	Platform string
	// KeepConsole leaves the console where it is: Oracle Cloud shows the serial one.
	KeepConsole bool
	// More arguments, at the end.
	More []string
}

// Validate says what is wrong with them.
func (a Arguments) Validate() error {
	if !platformID.MatchString(a.Platform) {
		return fmt.Errorf("%q is not a platform of Ignition; write for example openstack", a.Platform)
	}

	for _, argument := range a.More {
		if argument == "" || word.FindString(argument) != argument || strings.Count(argument, `"`)%2 != 0 {
			return fmt.Errorf(
				"%q is not one argument of a kernel; write blanks in double quotes, and one flag for each argument",
				argument,
			)
		}

		if strings.HasPrefix(argument, platformKey) {
			return errors.New("ignition.platform.id has a flag of its own, --ignition-platform")
		}
	}

	return nil
}

// Entry is a boot loader entry with these arguments, byte for byte the same where it has them. The format is that of
// the Boot Loader Specification: an entry can have several lines of options, and they are read as one.
func (a Arguments) Entry(entry string) string {
	lines := strings.SplitAfter(entry, "\n")
	var have []string
	last := -1

	for i, line := range lines {
		if !optionsLine.MatchString(line) {
			continue
		}

		last = i
		words := word.FindAllString(strings.TrimRight(line, "\r\n"), -1)

		changed := slices.Clone(words[:1])
		for _, argument := range words[1:] {
			argument, ours := a.moved(argument)
			if ours && slices.Contains(have, argument) {
				continue // one is enough
			}

			have, changed = append(have, argument), append(changed, argument)
		}

		if !slices.Equal(words, changed) {
			lines[i] = strings.Join(changed, " ") + "\n"
		}
	}

	var lacking []string
	for _, argument := range append([]string{platformKey + a.Platform}, a.More...) {
		if !slices.Contains(have, argument) && !slices.Contains(lacking, argument) {
			lacking = append(lacking, argument)
		}
	}

	switch {
	case len(lacking) == 0:
	case last < 0:
		if entry != "" && !strings.HasSuffix(entry, "\n") {
			lines = append(lines, "\n")
		}

		lines = append(lines, "options "+strings.Join(lacking, " ")+"\n")
	default:
		lines[last] = strings.TrimRight(lines[last], " \t\r\n") + " " + strings.Join(lacking, " ") + "\n"
	}

	return strings.Join(lines, "")
}

// moved is an argument as it is to be on an engine, and whether it is one of those that we decide about.
func (a Arguments) moved(argument string) (string, bool) {
	switch {
	case strings.HasPrefix(argument, platformKey):
		return platformKey + a.Platform, true
	case a.KeepConsole:
		return argument, false
	case argument == console || argument == serialConsole || strings.HasPrefix(argument, serialConsole+","):
		return console, true
	}

	return argument, false
}
