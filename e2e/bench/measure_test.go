package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ticks is the number of ticks per second in which the kernel counts CPU time.
const ticks = 100

// cpu is the CPU time in seconds of a process, and of its finished children.
type cpu struct{ self, children float64 }

func (c cpu) minus(before cpu) cpu { return cpu{c.self - before.self, c.children - before.children} }

func cpuOf(pid int) cpu {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return cpu{}
	}

	// The fields 14 to 17 are utime, stime, cutime and cstime. The second field, comm, may contain any characters.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	seconds := func(a, b string) float64 {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		return float64(x+y) / ticks
	}

	return cpu{self: seconds(fields[11], fields[12]), children: seconds(fields[13], fields[14])}
}

// cpuOfManager returns the CPU time of a manager in seconds. It includes the provider, which is a running process, and
// Terraform, whose processes have finished.
func cpuOfManager(pid int) cpu {
	out := cpuOf(pid)

	entries, err := os.ReadDir("/proc")
	if err != nil {
		return out
	}

	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}

		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
		if err == nil && strings.Contains(string(command), "serve-terraform-provider") && parentOf(child) == pid {
			out.self += cpuOf(child).self
		}
	}

	return out
}

// parentOf returns the process ID of a process's parent, or 0 if the process has ended.
func parentOf(pid int) int {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}

	parent, _ := strconv.Atoi(strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))[1])

	return parent
}

// memoryOf returns the private memory of a process in MiB. It does not count the pages of the program, because all
// processes share them.
func memoryOf(pid int) float64 {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}

	total := 0.0

	for _, line := range strings.Split(string(content), "\n") {
		for _, name := range []string{"RssAnon:", "RssShmem:"} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				kib, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
				total += kib / 1024
			}
		}
	}

	return total
}

// peak watches the memory of processes until it is stopped.
type peak struct {
	stop chan struct{}
	done chan struct{}
	most float64
}

func watchMemory(pids func() []int) *peak {
	p := &peak{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)

		for {
			total := 0.0
			for _, pid := range pids() {
				total += memoryOf(pid)
			}

			p.most = max(p.most, total)
			select {
			case <-p.stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()

	return p
}

func (p *peak) end() float64 {
	close(p.stop)
	<-p.done
	return p.most
}

// versionCPU returns the mean CPU time of the executor's version command in seconds, over many runs.
func versionCPU(t *testing.T) float64 {
	t.Helper()
	const times = 20
	total := time.Duration(0)

	for range times {
		command := exec.CommandContext(t.Context(), suite.Program.Executor.Path, "version")
		command.Env = []string{"HOME=" + t.TempDir(), "CHECKPOINT_DISABLE=1"}
		if err := command.Run(); err != nil {
			t.Fatal(err)
		}

		total += command.ProcessState.UserTime() + command.ProcessState.SystemTime()
	}

	return total.Seconds() / times
}

// rusage returns the CPU time in seconds of this process or of its children. It also returns the peak memory of one of
// them in MiB.
func rusage(who int) (cpu, mib float64) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(who, &usage); err != nil {
		return 0, 0
	}

	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

	return seconds(usage.Utime) + seconds(usage.Stime), float64(usage.Maxrss) / 1024
}

// spread is a distribution of durations, in seconds.
type spread struct {
	Median float64 `json:"median"`
	P95    float64 `json:"p95"`
	Max    float64 `json:"max"`
}

func newSpread(values []time.Duration) *spread {
	if len(values) == 0 {
		return &spread{}
	}

	slices.Sort(values)
	at := func(part float64) float64 { return values[int(part*float64(len(values)-1))].Seconds() }

	return &spread{Median: at(0.5), P95: at(0.95), Max: at(1)}
}

func (s *spread) String() string {
	return fmt.Sprintf("%.2f s (p95 %.2f, at most %.2f)", s.Median, s.P95, s.Max)
}

// times records the time of an event for each name.
type times struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (m *times) note(name string) { m.noteAt(name, time.Now()) }

func (m *times) noteAt(name string, when time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = map[string]time.Time{}
	}

	if _, known := m.at[name]; !known {
		m.at[name] = when
	}
}

func (m *times) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.at)
}

// since returns the time between each event and the same name's event in before.
func (m *times) since(before *times) []time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	before.mu.Lock()
	defer before.mu.Unlock()
	var out []time.Duration

	for name, at := range m.at {
		if began, ok := before.at[name]; ok {
			out = append(out, at.Sub(began))
		}
	}

	return out
}

func describeMachine() string {
	model := "unknown processor"
	if content, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for _, line := range strings.Split(string(content), "\n") {
			if rest, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), ":"))
				break
			}
		}
	}

	return fmt.Sprintf("%d cores of %s, %s", runtime.NumCPU(), model, runtime.Version())
}
