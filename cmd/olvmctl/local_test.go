package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// writeConfig writes a kubeconfig with a server.
func writeConfig(t *testing.T, path, server string) {
	t.Helper()
	content := fmt.Sprintf(
		"apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: %q}}]\nusers: "+
			"[{name: a, user: {token: a}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n",
		server,
	)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runs has a process that looks like the one that runs it.
func (l local) runs(t *testing.T) (end func()) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-c", "read line", "local", "serve")
	input, err := command.StdinPipe() // it reads for ever
	if err != nil {
		t.Fatal(err)
	}

	if err := command.Start(); err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(l.pidFile(), []byte(strconv.Itoa(command.Process.Pid)), 0o600); err != nil {
		t.Fatal(err)
	}

	for l.pid() == 0 { // between fork and exec
		time.Sleep(time.Millisecond)
	}

	return func() {
		_ = input.Close()
		_ = command.Process.Kill()
		_ = command.Wait()
	}
}

func TestALocalManagementClusterThatIsStopped(t *testing.T) {
	const server = "https://127.0.0.1:1"
	l := local{t.TempDir()}
	if err := l.stopped(server); err != nil {
		t.Errorf("there is none: %v", err)
	}

	if err := os.Mkdir(l.data(), 0o700); err != nil {
		t.Fatal(err)
	}

	writeConfig(t, l.kubeconfig(), server)
	if err := l.stopped(server); err == nil || !strings.Contains(err.Error(), "olvmctl local start") {
		t.Errorf("it is stopped: %v", err)
	}

	if err := l.stopped("https://127.0.0.1:2"); err != nil {
		t.Errorf("it is another: %v", err)
	}

	end := l.runs(t)
	if err := l.stopped(server); err != nil {
		t.Errorf("it runs: %v", err)
	}

	end()
}

// TestALocalManagementClusterThatIsBegun has a second command wait for what the first has begun.
func TestALocalManagementClusterThatIsBegun(t *testing.T) {
	l := local{filepath.Join(t.TempDir(), "local")}
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}

	end := l.runs(t)
	go func() {
		time.Sleep(50 * time.Millisecond)
		_ = os.WriteFile(l.readyFile(), nil, 0o600)
	}()
	if err := l.launch(t.Context()); err != nil {
		t.Error(err)
	}

	if err := os.Remove(l.readyFile()); err != nil {
		t.Fatal(err)
	}

	go end()
	if err := l.launch(t.Context()); err == nil || !strings.Contains(err.Error(), "before it was ready") {
		t.Errorf("it has ended: %v", err)
	}
}
