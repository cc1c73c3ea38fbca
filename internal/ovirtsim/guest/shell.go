package guest

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// maxScripts limits how deep scripts call each other. A deeper call is a recursion.
const maxScripts = 8

var (
	// substituteVMID matches the only command besides kubeadm with an effect on the node. It reads the VM's UUID from
	// the firmware and writes it into a file.
	substituteVMID = regexp.MustCompile(
		`^sed -i "s/([^/"]+)/\$\(tr '\[:upper:\]' '\[:lower:\]' < /sys/class/dmi/id/product_uuid\)/g" (\S+)$`,
	)
	assignment   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	hereDocument = regexp.MustCompile(`<<-?\s*["']?([A-Za-z_][A-Za-z0-9_]*)["']?`)
)

// kubeadmCall is a kubeadm command line that creates a node.
type kubeadmCall struct {
	// verb is init or join.
	verb string
	// config is the path of kubeadm's configuration.
	config string
}

// runCommands runs the commands up to the first kubeadm call that creates a node. It returns this call, or nil. It
// knows four kinds of commands: the substitution of the VM's UUID, scripts of the user data, systemctl, and kubeadm. It
// ignores all other commands.
func (s *system) runCommands(vmID string) (*kubeadmCall, error) {
	for _, command := range s.commands {
		if call, err := s.runText(command, vmID, 0); call != nil || err != nil {
			return call, err
		}
	}

	return nil, nil
}

func (s *system) runText(text, vmID string, depth int) (*kubeadmCall, error) {
	if depth > maxScripts {
		return nil, fmt.Errorf("bash: scripts call each other more than %d deep", maxScripts)
	}

	until := "" // end marker of a here document, whose lines are not commands

	for _, line := range strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		line = strings.TrimSpace(line)
		if until != "" {
			if line == until {
				until = ""
			}

			continue
		}

		if match := hereDocument.FindStringSubmatch(line); match != nil && !strings.Contains(line, "<<<") {
			until = match[1]
		}

		if call, err := s.runLine(line, vmID, depth); call != nil || err != nil {
			return call, err
		}
	}

	return nil, nil
}

func (s *system) runLine(line, vmID string, depth int) (*kubeadmCall, error) {
	if match := substituteVMID.FindStringSubmatch(line); match != nil {
		target, exists := s.files[match[2]]
		if !exists {
			return nil, fmt.Errorf("sed: can't read %s: No such file or directory", match[2])
		}

		s.writeAs(target.owner, match[2], strings.ReplaceAll(target.content, match[1], strings.ToLower(vmID)),
			target.mode, false)

		return nil, nil
	}

	words := firstCommand(line)
	if len(words) == 0 {
		return nil, nil
	}

	switch path.Base(words[0]) {
	case "kubeadm":
		return s.runKubeadm(words[1:])
	case "systemctl":
		return s.runSystemctl(words[1:], vmID, depth)
	case "bash", "sh":
		return s.runShell(line, words[1:], vmID, depth)
	}

	script, exists := s.files[words[0]]
	if !exists {
		return nil, nil
	}

	if script.mode&0o111 == 0 {
		return nil, fmt.Errorf("bash: %s: Permission denied: its mode is %04o", words[0], script.mode)
	}

	return s.runText(script.content, vmID, depth+1)
}

// firstCommand splits a line into the words of its first command, without prefixes such as sudo.
func firstCommand(line string) []string {
	if strings.HasPrefix(line, "#") {
		return nil
	}

	var words []string

	for _, word := range strings.Fields(line) {
		if word == "&&" || word == "||" || word == "|" || word == ";" || word == "&" {
			break
		}

		if len(words) == 0 && (word == "sudo" || word == "exec" || assignment.MatchString(word)) {
			continue
		}

		last := strings.HasSuffix(word, ";")
		words = append(words, strings.Trim(strings.TrimSuffix(word, ";"), `"'`))
		if last {
			break
		}
	}

	return words
}

// runShell runs a shell with a script from a file or from the command line.
func (s *system) runShell(line string, arguments []string, vmID string, depth int) (*kubeadmCall, error) {
	for _, argument := range arguments {
		if strings.HasPrefix(argument, "-") {
			if strings.HasSuffix(argument, "c") {
				_, text, _ := strings.Cut(line, " "+argument+" ")
				return s.runText(strings.Trim(strings.TrimSpace(text), `"'`), vmID, depth+1)
			}

			continue
		}

		script, exists := s.files[argument]
		if !exists && strings.HasPrefix(argument, "/etc/") {
			return nil, fmt.Errorf("bash: %s: No such file or directory", argument)
		}

		return s.runText(script.content, vmID, depth+1)
	}

	return nil, nil
}

func (s *system) runKubeadm(arguments []string) (*kubeadmCall, error) {
	if len(arguments) == 0 || arguments[0] != "init" && arguments[0] != "join" ||
		len(arguments) > 1 && arguments[1] == "phase" {
		return nil, nil // this command only prints or prepares something
	}

	call := &kubeadmCall{verb: arguments[0]}
	for i, argument := range arguments {
		if value, ok := strings.CutPrefix(argument, "--config="); ok {
			call.config = value
		} else if argument == "--config" && i+1 < len(arguments) {
			call.config = arguments[i+1]
		}
	}

	if call.config == "" {
		return nil, fmt.Errorf(
			"kubeadm: %s without --config; the simulated guest reads kubeadm's configuration from a file",
			call.verb,
		)
	}

	if _, exists := s.files[call.config]; !exists {
		return nil, fmt.Errorf("kubeadm: unable to read config from %q: no such file or directory", call.config)
	}

	return call, nil
}
