package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/clusterfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/doctor"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// onTerminal returns what a function writes to a terminal.
func onTerminal(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	master, slave, err := pty.Open()
	check.Error(t, err, "")
	t.Cleanup(func() { _ = master.Close() })

	check.Error(t, write(slave), "")
	_, err = slave.WriteString("end")
	check.Error(t, err, "")

	var got strings.Builder
	buffer := make([]byte, 4096)

	for !strings.HasSuffix(got.String(), "end") {
		n, err := master.Read(buffer)
		check.Error(t, err, "")
		got.Write(buffer[:n])
	}

	check.Error(t, slave.Close(), "")

	return got.String()
}

// TestVerdictsHaveColorsOnATerminalAlone writes findings and problems to a terminal, to a terminal without colors, and
// to a pipe. The text of a stranger must not control the terminal.
func TestVerdictsHaveColorsOnATerminalAlone(t *testing.T) {
	findings := func(out io.Writer) error {
		return printFindings(out, []doctor.Finding{
			{Check: "file", Verdict: doctor.OK, Message: "it is \x1b[2Jvalid"},
			{Check: "login", Verdict: doctor.Failed, Message: "no", Remedy: "\x1b]0;evil\a"},
			{Check: "clock", Verdict: doctor.Warning, Message: "late"},
		})
	}
	problems := func(out io.Writer) error {
		return printProblems(out, []clusterfile.Problem{
			{File: "a.yaml", Path: "name", Message: "it is \x1b[2Jmissing"},
			{File: "a.yaml", Path: "name", Message: "it is short", Warning: true},
		})
	}

	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")

	got := onTerminal(t, findings)
	for _, want := range []string{"\x1b[32mok      \x1b[0m file", "\x1b[31mfailed  \x1b[0m", "\x1b[33mwarning \x1b[0m"} {
		check.Contains(t, "findings", got, want)
	}

	check.Lacks(t, "findings", got, "\x1b[2J")
	check.Lacks(t, "findings", got, "\x1b]0")

	got = onTerminal(t, problems)
	check.Contains(t, "problems", got, "\x1b[31ma.yaml: name: it is \ufffd[2Jmissing\x1b[0m")
	check.Contains(t, "problems", got, "\x1b[33ma.yaml: warning: name: it is short\x1b[0m")

	var pipe bytes.Buffer
	check.Error(t, findings(&pipe), "")
	check.Error(t, problems(&pipe), "")
	check.Lacks(t, "what a pipe gets", pipe.String(), "\x1b")

	t.Setenv("NO_COLOR", "1")
	check.Lacks(t, "what a terminal without colors gets", onTerminal(t, findings)+onTerminal(t, problems), "\x1b")
}
