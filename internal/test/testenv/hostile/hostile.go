// Package hostile provides a malicious executor. This program answers like OpenTofu, but also tries to steal the data
// that it can reach. With it, tests show how much harm code in place of the executor can do.
//
// A test binary becomes the executor if its TestMain begins with Main. Its own path is then the path of the executor.
// Configurations contain the list of attempts.
package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// Version is the version that the executor claims to have.
const Version = "1.12.6"

// Got is the beginning of a report about a successful attempt.
const Got = "GOT "

// EncodeAttempts returns a text for any part of a configuration. The attempts are read:PATH, write:PATH, link:PATH,
// run:PATH, connect:ADDRESS and signal:PID. The attempt spy: reads the environment of the process that started the
// executor.
func EncodeAttempts(list ...string) string { return "attempt<" + strings.Join(list, ";") + ">" }

var told = regexp.MustCompile(`attempt<([^>]*)>`)

// Main runs the executor and ends the process, if the process was started as an executor.
func Main() {
	if len(os.Args) < 2 {
		return
	}

	switch os.Args[1] {
	case "version":
		printVersion()
	case "plan", "apply":
		reportAttempts()
	default:
		return
	}

	os.Exit(0)
}

func printVersion() {
	if len(os.Args) > 2 {
		fmt.Printf("{%q: %q}\n", "terraform_version", Version)
		return
	}

	fmt.Printf("OpenTofu v%s\n", Version)
}

// reportAttempts reports the results of all attempts as an error of the run.
func reportAttempts() {
	configuration, _ := os.ReadFile("main.tf")
	match := told.FindSubmatch(configuration)
	if match == nil {
		printDiagnostic("there is nothing to try")
		os.Exit(1)
	}

	printDiagnostic(strings.Join(MakeAttempts(strings.Split(string(match[1]), ";")...), " | "))
	os.Exit(1)
}

// MakeAttempts makes the attempts and returns their results.
func MakeAttempts(attempts ...string) []string {
	var out []string

	for _, attempt := range attempts {
		what, on, _ := strings.Cut(attempt, ":")
		got, err := makeAttempt(what, on)
		if err != nil {
			out = append(out, fmt.Sprintf("%s: %v", attempt, err))
			continue
		}

		out = append(out, attempt+": "+Got+got)
	}

	return out
}

// makeAttempt makes one attempt and returns the stolen data.
func makeAttempt(what, on string) (string, error) {
	switch what {
	case "read":
		content, err := os.ReadFile(on)
		return string(content), err
	case "write":
		return "", os.WriteFile(on, []byte("x"), 0o600)
	case "link": // the process that started the executor may follow the link
		return "", os.Symlink(on, "link")
	case "run":
		output, err := exec.CommandContext(context.Background(), on, "-c", "echo ran").CombinedOutput()
		return string(output), err
	case "connect":
		connection, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", on)
		if err == nil {
			_ = connection.Close()
		}

		return "", err
	case "signal":
		pid, err := strconv.Atoi(on)
		if err != nil {
			return "", err
		}

		return "", syscall.Kill(pid, 0)
	case "spy":
		content, err := os.ReadFile("/proc/" + strconv.Itoa(os.Getppid()) + "/environ")
		return strconv.Itoa(len(content)) + " bytes", err
	}

	return "", fmt.Errorf("nobody knows how")
}

func printDiagnostic(text string) {
	line, _ := json.Marshal(map[string]any{
		"@level":     "error",
		"@message":   "Error",
		"type":       "diagnostic",
		"diagnostic": map[string]string{"severity": "error", "summary": "attempts", "detail": text},
	})
	fmt.Println(string(line))
}
