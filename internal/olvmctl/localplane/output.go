package localplane

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// output receives the output of a process started by envtest, because envtest discards the output. It also tells when
// the process has ended, because envtest does not.
type output struct {
	process *Process
	// log receives the standard error of the process, which is nearly all of its output.
	log *os.File
	// stdout is the writing end of a pipe. After the start, only the process has this end open, so the pipe closes when
	// the process ends.
	stdout *os.File
}

// newOutput returns an output that appends to name.log in a folder.
func newOutput(name, logDir string) (*output, error) {
	o := &output{process: &Process{
		Name: name, LogFile: filepath.Join(logDir, name+".log"), done: make(chan struct{}),
	}}

	var err error
	if o.log, err = os.OpenFile(o.process.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, fmt.Errorf("failed to open the log of %s: %w", name, err)
	}

	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("failed to create a pipe for %s: %w", name, err), o.log.Close())
	}

	o.stdout = writer

	go func() {
		_, _ = io.Copy(o.log, reader)
		_ = errors.Join(reader.Close(), o.log.Close())
		o.process.endedAt = time.Now()
		close(o.process.done)
	}()

	return o, nil
}

// closeParentEnd closes the writing end in this process, after envtest has started the process or has given up.
func (o *output) closeParentEnd() { _ = o.stdout.Close() }
