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
	// serialConsole is the console of published images. An engine shows console instead.
	serialConsole, console = "console=ttyS0", "console=tty0"
)

var (
	// word matches a kernel argument. Within double quotes, it may contain blanks.
	word = regexp.MustCompile(`(?:[^\s"]|"[^"\n]*(?:"|$))+`)
	// platformID matches the names of platforms in Ignition.
	platformID = regexp.MustCompile(`^[a-z0-9]+$`)
	// optionsLine matches a line of options in a boot loader entry.
	optionsLine = regexp.MustCompile(`^options[ \t]`)
)

// Arguments are kernel arguments.
type Arguments struct {
	// Platform is Ignition's name of the platform that provides the configuration.
	Platform string
	// KeepConsole keeps the serial console, because Oracle Cloud shows this console.
	KeepConsole bool
	// More are additional arguments.
	More []string
}

// Validate returns an error if the arguments are invalid.
func (a Arguments) Validate() error {
	if !platformID.MatchString(a.Platform) {
		return fmt.Errorf("invalid Ignition platform %q; use for example openstack", a.Platform)
	}

	for _, argument := range a.More {
		if argument == "" || word.FindString(argument) != argument || strings.Count(argument, `"`)%2 != 0 {
			return fmt.Errorf(
				"%q is not a single kernel argument; quote spaces with double quotes, and use one flag for each "+
					"argument",
				argument,
			)
		}

		if strings.HasPrefix(argument, platformKey) {
			return errors.New("ignition.platform.id is not supported here; use --ignition-platform")
		}
	}

	return nil
}

// EditEntry returns a boot loader entry with these arguments. It returns an entry that already has them unchanged.
// According to the Boot Loader Specification, an entry may have several lines of options. A boot loader joins them.
func (a Arguments) EditEntry(entry string) string {
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
			argument, ours := a.adaptArgument(argument)
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

// adaptArgument returns an argument adapted to an engine, and reports whether Arguments controls it.
func (a Arguments) adaptArgument(argument string) (string, bool) {
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
