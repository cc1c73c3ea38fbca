package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sync/errgroup"
	"gotest.tools/gotestsum/testjson"
)

// call is a run of go test in a module with arguments.
type call struct {
	module string
	args   []string
}

// runGoTest runs go test and writes its output to stdout and stderr.
func (c call) runGoTest(ctx context.Context, stdout, stderr io.Writer) error {
	command := exec.CommandContext(ctx, "go", append([]string{"-C", c.module, "test", "-json"}, c.args...)...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.Stdout, command.Stderr = &lines{to: stdout}, &lines{to: stderr}

	return command.Run()
}

// testModules runs go test in several modules concurrently. It returns an error if tests failed or could not run.
func testModules(ctx context.Context, calls []call, report *report) error {
	stdout, printed := io.Pipe()
	stderr, complained := io.Pipe()
	ended := make(chan error, 1)

	go func() {
		var running errgroup.Group
		for _, c := range calls {
			running.Go(func() error { return c.runGoTest(ctx, printed, complained) })
		}

		err := running.Wait()
		_, _ = printed.Close(), complained.Close()
		ended <- err
	}()

	var err error

	report.execution, err = testjson.ScanTestOutput(testjson.ScanConfig{
		Stdout: stdout, Stderr: stderr, Handler: report, Execution: report.execution,
		IgnoreNonJSONOutputLines: true,
	})
	_, _ = stdout.Close(), stderr.Close() // otherwise, calls block because nothing reads their output

	failed := <-ended
	if err != nil {
		return fmt.Errorf("failed to read what go test prints: %w", err)
	}

	return failed
}

// lines writes only whole lines, so that lines of several programs do not mix.
type lines struct {
	to   io.Writer
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)

	end := bytes.LastIndexByte(l.rest, '\n') + 1
	if end == 0 {
		return len(p), nil
	}

	if _, err := l.to.Write(l.rest[:end]); err != nil {
		return 0, err
	}

	l.rest = l.rest[:copy(l.rest, l.rest[end:])]

	return len(p), nil
}
