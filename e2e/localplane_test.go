package e2e

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/testenv"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// localDir returns the folder of the local management cluster.
func (j *journey) localDir() string { return filepath.Join(j.dir, "capolvm", "local") }

// processes returns the names of the programs in the local management cluster by process ID.
func (j *journey) processes() map[int]string {
	j.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	check.Error(j.t, err, "")

	out := map[int]string{}

	for _, file := range files {
		line, err := os.ReadFile(file)
		pid, failed := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || failed != nil || !strings.Contains(string(line), "="+j.localDir()+"/") {
			continue
		}

		program, _, _ := strings.Cut(string(line), "\x00")
		out[pid] = filepath.Base(program)
	}

	// The command line of the main process contains no file of the folder.
	content, _ := os.ReadFile(filepath.Join(j.localDir(), "pid"))
	if pid, err := strconv.Atoi(strings.TrimSpace(string(content))); err == nil {
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if strings.Contains(string(line), "local\x00serve") {
			out[pid] = "serve"
		}
	}

	return out
}

// programs returns the sorted names of the running programs.
func (j *journey) programs() []string {
	j.t.Helper()

	var out []string
	for _, name := range j.processes() {
		out = append(out, name)
	}

	slices.Sort(out)

	return out
}

// ending is how a command ends before its time.
type ending struct {
	signal os.Signal
	// again repeats the signal until the command is gone, like an impatient user.
	again bool
}

// logged returns the size of the log of olvmctl.
func (j *journey) logged() int64 {
	j.t.Helper()
	info, err := j.log.Stat()
	check.Error(j.t, err, "")

	return info.Size()
}

// ended runs olvmctl, and ends it once is returns true. It returns what olvmctl has said. If is returns true from the
// beginning, an interrupt waits for the first output: by then, olvmctl handles signals.
func (j *journey) ended(by ending, when string, is func() bool, args ...string) string {
	j.t.Helper()

	var said bytes.Buffer

	command, before := j.command(io.Discard, &said, args...), j.logged()
	check.Error(j.t, command.Start(), "")

	hasBegun := func() bool { return by.signal == os.Kill || j.logged() > before }

	gone := make(chan error, 1)
	go func() { gone <- command.Wait() }()

	// Keep the pauses short: the awaited state may not last.
	for begin := time.Now(); !is() || !hasBegun(); time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-gone:
			j.t.Fatalf("olvmctl %s ended before %s: %v", strings.Join(args, " "), when, err)
		default:
		}

		if time.Since(begin) > wait.Limit {
			j.t.Fatalf("olvmctl %s: %s did not come", strings.Join(args, " "), when)
		}
	}

	for {
		_ = command.Process.Signal(by.signal)

		if !by.again {
			<-gone
			return said.String()
		}

		select {
		case <-gone:
			return said.String()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// cutPower kills all processes at once until none is left, like kill -9 or a lack of memory.
func (j *journey) cutPower() {
	j.t.Helper()
	wait.Until(j.t, "all processes are gone", func() bool {
		left := j.processes()
		for pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}

		return len(left) == 0
	})
}

// expectInterruptedStarts starts a local management cluster with Ctrl-C at each of its programs, once or again and
// again. The next command goes on with the same processes, or stops them.
func (j *journey) expectInterruptedStarts(stages []string) {
	j.t.Helper()

	for i, stage := range stages {
		by := ending{signal: os.Interrupt, again: i%2 == 1}
		said := j.ended(by, stage, func() bool { return slices.Contains(j.programs(), stage) }, "local", "start")

		if !by.again {
			check.Contains(j.t, "what it says at "+stage, said, "to resume, run: olvmctl local start")
		}

		if i%4 < 2 {
			j.does("local", "start")

			programs := j.programs()
			check.Equal(j.t, "programs that run twice", len(slices.Compact(slices.Clone(programs))), len(programs))
		}

		j.does("local", "stop")
		check.Equal(j.t, "processes that are left after "+stage, j.programs(), nil)
	}
}

// TestALocalManagementClusterSurvivesAKillOfAllItsProcesses kills them during the first start, at each of the programs.
// Then it kills them with a cluster inside, while running and while restarting. In the end, the cluster and its
// machines are the same, and each program runs once.
func TestALocalManagementClusterSurvivesAKillOfAllItsProcesses(t *testing.T) {
	testenv.SkipInShort(t, "starts a local management cluster many times")
	t.Parallel()
	j := newJourney(t, suite.plane)
	t.Cleanup(func() { j.olvmctl("local", "stop") })
	j.clusterFile("struck", 87, 1, "")

	stages := []string{
		"serve", "etcd", "kube-apiserver", "kube-controller-manager", "capi-core", "capi-bootstrap-kubeadm",
		"capi-controlplane-kubeadm", "olvmctl",
	}
	struckAt := func(stage string) {
		t.Helper()
		command := j.command(io.Discard, io.Discard, "local", "start")
		check.Error(t, command.Start(), "")
		wait.Until(t, stage+" runs", func() bool { return slices.Contains(j.programs(), stage) })
		_ = command.Process.Kill()
		j.cutPower()
		_ = command.Wait()
	}

	for _, stage := range stages {
		struckAt(stage)
	}

	j.expectInterruptedStarts(stages)
	j.does("start", "-f", j.file, "--timeout", patience)
	before, programs := j.vms(), j.programs()
	check.Equal(t, "VMs", len(before), 2)
	check.Equal(t, "programs that run twice", len(slices.Compact(slices.Clone(programs))), len(programs))

	j.cutPower()
	code, _, problems := j.olvmctl("local", "status")
	check.Equal(t, "exit code of status", code, 1)
	check.Contains(t, "what status says", problems, "was killed")

	for _, stage := range []string{"etcd", "kube-apiserver", "capi-core"} {
		struckAt(stage)
	}

	_, problems = j.does("local", "start")
	check.Contains(t, "what start says", problems, "it resumes with its data")
	check.Equal(t, "programs", j.programs(), programs)

	out, _ := j.does("describe", "struck", "-n", j.namespace)
	check.Equal(t, "VMs that describe names", strings.Count(out, ", VM "), 2)

	_, problems = j.does("start", "-f", j.file, "--timeout", patience)
	t.Log(problems)

	after := j.vms()
	check.Equal(t, "VMs", len(after), 2)

	for id, vm := range after {
		check.Equal(t, "when VM "+vm.Name+" was started", before[id].StartTime, vm.StartTime)
	}

	j.does("delete", "struck", "-n", j.namespace, "--timeout", patience, "--yes")
	check.Equal(t, "VMs that are left", len(j.vms()), 0)
	check.Equal(t, "processes that are left", j.programs(), nil)
}
