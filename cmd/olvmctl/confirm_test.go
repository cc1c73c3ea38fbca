package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestAnAnswer(t *testing.T) {
	for answer, problem := range map[string]string{
		"prod\n": "",
		"prod":   "",
		"yes\n":  `canceled: the answer is not "prod"`,
		"":       `canceled: the answer is not "prod"`,
	} {
		var said bytes.Buffer
		check.Error(t, askForWord(t.Context(), strings.NewReader(answer), &said, "Type the name: ", "prod"), problem)
		check.Equal(t, "the question", said.String(), "Type the name: ")
	}
}

func TestAnInterruptEndsAQuestion(t *testing.T) {
	input, _ := io.Pipe() // nobody types
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.Error(t, askForWord(ctx, input, io.Discard, "Type the name: ", "prod"), "interrupted")
}

// TestTheQuestionsOfScaleAndUpgradeSayWhere has no terminal, so the commands only print their questions.
func TestTheQuestionsOfScaleAndUpgradeSayWhere(t *testing.T) {
	const (
		where = "in namespace prod of https://192.0.2.1:6443 (context mgmt of /home/jane/.kube/config)"
		goes  = "MachineDeployment prod-md-0 scales from 2 to 1 machine: permanently deletes 1 machine, with VMs " +
			"and disks"
	)

	for name, asks := range map[string]func(streams) error{
		"scale": func(s streams) error { return confirmScale(t.Context(), s, false, "prod", where, []string{goes}) },
		"upgrade": func(s streams) error {
			flags := &upgradeFlags{output: outputFlag{format: formatText, formats: []string{formatText}}}
			_, err := flags.confirmChanges(t.Context(), s, "prod", where, []string{goes})

			return err
		},
	} {
		var said bytes.Buffer
		check.Error(t, asks(streams{in: strings.NewReader(""), out: &said, err: &said}), "use --yes")
		check.Contains(t, name, said.String(), "prod "+where)
		check.Contains(t, name, said.String(), goes)
		check.Contains(t, name, said.String(), "Type the name of the cluster to confirm: ")
	}
}
