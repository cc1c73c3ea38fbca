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
		"prod\n": "", "prod": "", "yes\n": "it stays as it is", "": "it stays as it is",
	} {
		var said bytes.Buffer
		check.Error(t, ask(t.Context(), strings.NewReader(answer), &said, "Type its name: ", "prod"), problem)
		check.Equal(t, "the question", said.String(), "Type its name: ")
	}
}

func TestAnInterruptEndsAQuestion(t *testing.T) {
	input, _ := io.Pipe() // nobody types
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.Error(t, ask(ctx, input, io.Discard, "Type its name: ", "prod"), "interrupted")
}
