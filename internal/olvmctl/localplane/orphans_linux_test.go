package localplane

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// all accepts every program.
func all(string) bool { return true }

// TestWhatAKilledPlaneLeavesIsEnded has processes of an earlier plane, of another plane, and of another program.
func TestWhatAKilledPlaneLeavesIsEnded(t *testing.T) {
	programs, dir, other := t.TempDir(), t.TempDir(), t.TempDir()
	shell, err := filepath.EvalSymlinks("/bin/sh")
	check.Error(t, err, "")
	content, err := os.ReadFile(shell)
	check.Error(t, err, "")
	program := filepath.Join(programs, "etcd")
	check.Error(t, os.WriteFile(program, content, 0o700), "")

	run := func(program, dir string) *exec.Cmd {
		command := exec.CommandContext(t.Context(), program, "-c", "read line", "etcd", "--data-dir="+dir+"/data")
		_, err := command.StdinPipe() // the process reads forever
		check.Error(t, err, "")
		check.Error(t, command.Start(), "")

		return command
	}
	ours := run(program, dir)
	ended := make(chan error, 1)
	go func() { ended <- ours.Wait() }()

	run(program, other)
	run(shell, dir)
	wait.Until(t, "they run", func() bool {
		return len(findOrphans(dir, all)) == 1 && len(findOrphans(other, all)) == 1
	})

	count, err := endOrphans(dir)
	check.Error(t, err, "")
	check.Equal(t, "processes that were ended", count, 1)
	check.Equal(t, "processes of another plane", len(findOrphans(other, all)), 1)

	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("it runs on")
	}
}

// TestWhichProcessesAreOfAPlane has programs of a plane, in any version, and other programs that use files of the
// plane.
func TestWhichProcessesAreOfAPlane(t *testing.T) {
	const dir = "/home/me/.local/state/capolvm/local"

	for command, want := range map[string]bool{
		"/cache/tools/plane-1/etcd --data-dir=" + dir + "/data":                                           true,
		"/cache/tools/plane-2/etcd --data-dir=" + dir + "/data":                                           true,
		"/cache/tools/plane-2/kube-apiserver --cert-dir=" + dir + "/apiserver-certs":                      true,
		"/cache/tools/oci-1/capoci --kubeconfig=" + dir + "/admin.kubeconfig":                             true,
		"/usr/bin/olvmctl manager --kubeconfig=" + dir + "/m.kubeconfig --work-dir=" + dir + "/terraform": true,
		"/cache/tools/plane-1/etcd --data-dir=" + dir + "-of-another/data":                                false,
		"/cache/tools/plane-1/etcd --data-dir=/var/lib/etcd":                                              false,
		"kubectl --kubeconfig=" + dir + "/admin.kubeconfig get clusters -w":                               false,
		"vim " + dir + "/etcd.log":                                        false,
		"olvmctl describe prod --kubeconfig=" + dir + "/admin.kubeconfig": false,
		"olvmctl manager --work-dir=/var/lib/capolvm":                     false,
		"": false, // a process that has ended, but whose parent has not waited for it
	} {
		t.Run(command, func(t *testing.T) {
			check.Equal(t, "whether it is of the plane", isOf(dir, strings.Split(command, " ")), want)
		})
	}
}

// TestServersEndAfterTheManagersThatSaveInThem has a slow manager, and an etcd that ends at once.
func TestServersEndAfterTheManagersThatSaveInThem(t *testing.T) {
	programs, dir := t.TempDir(), t.TempDir()
	note := filepath.Join(t.TempDir(), "note")

	for program, script := range map[string]string{
		"etcd":      "trap 'echo etcd >> " + note + "; exit' TERM; while :; do sleep 0.05; done",
		"capi-core": "trap 'sleep 0.5; echo manager >> " + note + "; exit' TERM; while :; do sleep 0.05; done",
	} {
		shell, err := filepath.EvalSymlinks("/bin/sh")
		check.Error(t, err, "")
		check.Error(t, os.Symlink(shell, filepath.Join(programs, program)), "")

		command := exec.CommandContext(t.Context(), filepath.Join(programs, program), "-c", script, program,
			"--file="+dir+"/x")
		check.Error(t, command.Start(), "")
		go func() { _ = command.Wait() }()
	}

	wait.Until(t, "they run", func() bool { return len(findOrphans(dir, all)) == 2 })
	time.Sleep(200 * time.Millisecond) // waits until both have set their traps

	_, err := endOrphans(dir)
	check.Error(t, err, "")

	content, err := os.ReadFile(note)
	check.Error(t, err, "")
	check.Equal(t, "the order", string(content), "manager\netcd\n")
}
