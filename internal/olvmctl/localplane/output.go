package localplane

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// output takes what a process of envtest writes, which envtest throws away, and tells when the process has ended, which
// envtest does not.
type output struct {
	process *Process
	// log is for standard error, where such a process writes nearly everything.
	log *os.File
	// stdout is the end of a pipe that nobody but the process has once start is over: it closes when the process ends.
	stdout *os.File
}

// newOutput appends to name.log in a folder.
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
		return nil, errors.Join(fmt.Errorf("failed to make a pipe for %s: %w", name, err), o.log.Close())
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

// handedOver is called once envtest has started the process, or has given up.
func (o *output) handedOver() { _ = o.stdout.Close() }
