package localplane

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
)

// Process is a child process whose output goes to a file.
type Process struct {
	Name    string
	LogFile string
	command *exec.Cmd
	done    chan struct{}
	stopped atomic.Bool
	// err and endedAt are set before done is closed.
	err     error
	endedAt time.Time
}

// StartProcess starts a program. It appends the output to name.log in the folder. env is added to a small default
// environment.
func StartProcess(name, logDir, program string, args, env []string) (*Process, error) {
	p := &Process{Name: name, LogFile: filepath.Join(logDir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("failed to open the log of %s: %w", name, err)
	}
	defer log.Close()
	p.command = exec.Command(program, args...) //nolint:noctx // stopped by Stop, with a grace period
	p.command.Stdout, p.command.Stderr = log, log
	p.command.Env = append(
		[]string{
			"PATH=" + os.Getenv("PATH"),
			"HOME=" + os.Getenv("HOME"),
			"TMPDIR=" + os.TempDir(),
			"XDG_CACHE_HOME=" + os.Getenv("XDG_CACHE_HOME"),
		},
		env...)
	p.command.SysProcAttr = apart()
	if err := start(p.command); err != nil {
		return nil, fmt.Errorf("failed to start %s: %w", name, err)
	}

	go func() {
		p.err = p.command.Wait()
		p.endedAt = time.Now()
		close(p.done)
	}()

	return p, nil
}

// PID returns the process ID.
func (p *Process) PID() int { return p.command.Process.Pid }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop asks the process to end, and kills it after the grace period.
func (p *Process) Stop(grace time.Duration) {
	p.stopped.Store(true)

	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
}

// Kill ends the process at once.
func (p *Process) Kill() {
	p.stopped.Store(true)
	_ = p.command.Process.Kill()
	<-p.done
}

// ListChildren returns the IDs of the process's children.
func (p *Process) ListChildren() []int {
	var out []int

	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}

		// The content is "pid (comm) state ppid", and comm may contain any characters.
		fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
		if len(fields) < 2 || fields[0] == "Z" || fields[1] != strconv.Itoa(p.PID()) {
			continue
		}

		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			out = append(out, pid)
		}
	}

	return out
}

// KillChildren kills the children of the process, and reports whether it had any.
func (p *Process) KillChildren() bool {
	found := p.ListChildren()
	for _, pid := range found {
		_ = hostos.KillProcess(pid)
	}

	return len(found) > 0
}

// logTail returns the end of the log of the process for an error message.
func (p *Process) logTail() string { return ReadTail(p.LogFile) }

const (
	// tailLines is the maximum number of log lines in an error message. tailWidth is the maximum number of bytes in a
	// line.
	tailLines = 8
	tailWidth = 300
)

// ReadTail returns the last lines of a log for an error message. It truncates long lines.
func ReadTail(logFile string) string {
	content, err := os.ReadFile(logFile)
	if err != nil {
		return err.Error()
	}

	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	lines = lines[max(0, len(lines)-tailLines):]

	for i, line := range lines {
		if len(line) > tailWidth {
			lines[i] = strings.ToValidUTF8(line[:tailWidth], "") + " …"
		}
	}

	return strings.Join(lines, "\n")
}

// WaitUntil waits for a condition. It returns an error if the process ends before.
func (p *Process) WaitUntil(ctx context.Context, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()

	for !ok() {
		select {
		case <-p.done:
			return fmt.Errorf("%s did not become %s: %w", p.Name, what, p.endError())
		case <-ctx.Done():
			return fmt.Errorf("%s did not become %s: %w\n%s", p.Name, what, ctx.Err(), p.logTail())
		case <-time.After(100 * time.Millisecond):
		}
	}

	return nil
}

// endError returns an error with the reason why the process has ended, and its last output.
func (p *Process) endError() error {
	last := fmt.Sprintf("last lines of %s:\n%s", p.LogFile, p.logTail())
	if p.err == nil {
		return fmt.Errorf("%s exited; %s", p.Name, last)
	}

	return fmt.Errorf("%s exited: %w; %s", p.Name, p.err, last)
}

// NewHTTPCheck returns a function that reports whether a request to a URL succeeds.
func NewHTTPCheck(url string) func() bool {
	client := &http.Client{Timeout: 10 * time.Second} // a busy machine may need seconds

	return func() bool {
		response, err := client.Get(url) //nolint:noctx // bounded by the client's time-out
		if err != nil {
			return false
		}

		_ = response.Body.Close()

		return response.StatusCode == http.StatusOK
	}
}
