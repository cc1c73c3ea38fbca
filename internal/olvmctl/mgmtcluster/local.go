package mgmtcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/adrg/xdg"
	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capolvm/cluster-api-provider-olvm/api/v1"
	infrav1alpha1 "github.com/capolvm/cluster-api-provider-olvm/api/v1alpha1"
	"github.com/capolvm/cluster-api-provider-olvm/internal/filelock"
	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/atomicfile"
	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/localplane"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

const (
	// localStartLimit bounds the start of the processes. If one of them ends, the start fails at once.
	localStartLimit = 15 * time.Minute
	// localStopLimit is longer than the time the manager needs to interrupt its runs.
	localStopLimit = 2 * time.Minute
	// localCheckInterval is the interval between checks of the processes.
	localCheckInterval = 2 * time.Second
	// filePollInterval is the interval between checks of another process's files.
	filePollInterval = 100 * time.Millisecond
)

// errEnded replaces the exit status of a process that another command has started.
var errEnded = errors.New("unknown exit status")

// ServeArguments are the arguments that make olvmctl call Serve. They also identify a process as a local management
// cluster.
var ServeArguments = []string{"local", "serve"}

// Local is the management cluster that runs as processes on this machine. Each user has one. Its content survives the
// end of the processes.
type Local struct{ dir string }

// LocalOfUser returns the user's local management cluster.
func LocalOfUser() Local { return Local{filepath.Join(xdg.StateHome, "capolvm", "local")} }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (l Local) Kubeconfig() string { return filepath.Join(l.dir, "admin.kubeconfig") }
func (l Local) dataDir() string    { return filepath.Join(l.dir, "data") }

// pidFile has the ID of the process that runs the cluster. The process locks this file. The modification time of the
// file is the time when the process was last seen.
func (l Local) pidFile() string { return filepath.Join(l.dir, "pid") }

// readyFile has the ID of the process once it serves requests.
func (l Local) readyFile() string { return filepath.Join(l.dir, "ready") }

// removedDir is the name of the folder while Remove deletes it.
func (l Local) removedDir() string { return l.dir + ".removed" }

// LogFile returns the path of the log of its process.
func (l Local) LogFile() string { return filepath.Join(l.dir, "local.log") }

// othersDir is the folder with one file for each third-party provider.
func (l Local) othersDir() string { return filepath.Join(l.dir, "providers") }

// ListProviders returns the third-party providers that run in it.
func (l Local) ListProviders() []string {
	entries, err := os.ReadDir(l.othersDir())
	if err != nil {
		return nil // the folder does not exist yet
	}

	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}

	return out
}

// LacksProvider reports whether a third-party provider could run in it, but does not.
func (l Local) LacksProvider(name string) bool {
	_, can := localplane.Others[name]
	return can && !slices.Contains(l.ListProviders(), name)
}

// AddProvider adds a third-party provider. The provider runs after the next Launch. If the cluster is running,
// AddProvider stops it. If the provider cannot be built, nothing changes. AddProvider calls say with lines for the
// user.
func (l Local) AddProvider(ctx context.Context, name string, say func(format string, args ...any)) error {
	tools, err := toolchain.NewEmbedded()
	if err != nil {
		return err
	}

	tools.Progress = say
	if err := tools.Build(ctx, localplane.Others[name].Module); err != nil {
		return err
	}

	if err := os.MkdirAll(l.othersDir(), 0o700); err != nil {
		return fmt.Errorf("failed to add provider %s to the local management cluster: %w", name, err)
	}

	if err := os.WriteFile(filepath.Join(l.othersDir(), name), nil, 0o600); err != nil {
		return fmt.Errorf("failed to add provider %s to the local management cluster: %w", name, err)
	}

	return l.Stop(ctx)
}

// Exists reports whether the local management cluster exists, running or not.
func (l Local) Exists() bool { return pathExists(l.dataDir()) }

// IsRunning reports whether a process runs the cluster and serves requests. It ignores the file of a killed process.
func (l Local) IsRunning() bool {
	pid := l.PID()
	content, err := os.ReadFile(l.readyFile())
	said := strings.TrimSpace(string(content)) // older versions of olvmctl leave the file empty

	return pid != 0 && err == nil && (said == "" || said == strconv.Itoa(pid))
}

// PID returns the ID of the process that runs the cluster, or 0 if there is none.
func (l Local) PID() int {
	content, err := os.ReadFile(l.pidFile())
	if err != nil {
		return 0
	}

	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0
	}

	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // another process may have the same ID by now
	if err != nil || !strings.Contains(string(line), "\x00"+strings.Join(ServeArguments, "\x00")) ||
		!hasOpen(pid, l.pidFile()) { // the process belongs to another folder, or to another user
		return 0
	}

	return pid
}

// hasOpen reports whether a process has opened a file.
func hasOpen(pid int, path string) bool {
	file, err := os.Stat(path)
	if err != nil {
		return false
	}

	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))

	return slices.ContainsFunc(open, func(one string) bool {
		info, err := os.Stat(one)
		return err == nil && os.SameFile(info, file)
	})
}

// checkRuns returns an error if a server is the local management cluster but no process runs it.
func (l Local) checkRuns(server string) error {
	if !l.Exists() || l.PID() != 0 {
		return nil
	}

	if own, err := ServerOf(l.Kubeconfig()); err != nil || server != own {
		return nil //nolint:nilerr // it is another management cluster
	}

	if end := l.DetectEnd(); end != nil {
		return fmt.Errorf("the local management cluster %s; start it with olvmctl local start", end)
	}

	return errors.New("the local management cluster is stopped; start it with olvmctl local start")
}

// BuildPrograms builds the programs of the cluster. It calls say with lines for the user.
func (l Local) BuildPrograms(ctx context.Context, say func(format string, args ...any)) error {
	if err := localplane.CheckPlatform(runtime.GOOS); err != nil {
		return err
	}

	tools, err := toolchain.NewEmbedded()
	if err != nil {
		return err
	}

	tools.Progress = say
	if err := tools.Build(ctx, "plane", localplane.Programs...); err != nil {
		return fmt.Errorf("%w; install Go, which builds the programs, or specify a management cluster with "+
			"--kubeconfig", err)
	}

	for _, name := range l.ListProviders() {
		if other, known := localplane.Others[name]; known {
			if err := tools.Build(ctx, other.Module); err != nil {
				return err
			}
		}
	}

	_, err = tools.EnsureExecutor(ctx)

	return err
}

// Launch starts the process, unless it is running, and waits until it serves requests.
func (l Local) Launch(ctx context.Context) error {
	ended := make(chan error, 1)
	if l.PID() == 0 {
		command, err := l.startProcess()
		if err != nil {
			return err
		}

		go func() { ended <- command.Wait() }()
	} else { // an interrupted command has already started the process
		go l.waitForEnd(ended)
	}

	deadline := time.After(localStartLimit)

	for !l.IsRunning() {
		select {
		case err := <-ended:
			if l.PID() != 0 { // another command has started the process at the same time
				go l.waitForEnd(ended)
				continue
			}

			return fmt.Errorf("the local management cluster exited before it was ready (%w); last lines of %s:\n%s",
				cmp.Or(err, errEnded), l.LogFile(), localplane.ReadTail(l.LogFile()))
		case <-deadline:
			return fmt.Errorf("the local management cluster is not ready after %s; last lines of %s:\n%s",
				localStartLimit,
				l.LogFile(), localplane.ReadTail(l.LogFile()))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(filePollInterval):
		}
	}

	return nil
}

// waitForEnd reports the end of a process that another command has started.
func (l Local) waitForEnd(ended chan<- error) {
	for l.PID() != 0 {
		time.Sleep(filePollInterval)
	}

	ended <- nil
}

// startProcess starts the process.
func (l Local) startProcess() (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("failed to find this program: %w", err)
	}

	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return nil, fmt.Errorf("failed to create a folder for the local management cluster: %w", err)
	}

	log, err := os.OpenFile(l.LogFile(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("failed to open the log of the local management cluster: %w", err)
	}
	defer log.Close()

	command := exec.Command(program, ServeArguments...) //nolint:noctx // it outlives this command
	command.Stdout, command.Stderr, command.SysProcAttr = log, log, hostos.OwnSession()
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("failed to start the local management cluster: %w", err)
	}

	return command, nil
}

// Stop ends the processes, and keeps the content.
func (l Local) Stop(ctx context.Context) error {
	pid := l.PID()
	if pid == 0 {
		return nil
	}

	if err := hostos.EndProcess(pid); err != nil {
		return fmt.Errorf("failed to stop the local management cluster: %w", err)
	}

	ctx, cancel := context.WithTimeout(ctx, localStopLimit)
	defer cancel()

	for l.PID() == pid {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the local management cluster did not stop: process %d is still running", pid)
		case <-time.After(filePollInterval):
		}
	}

	return nil
}

// Remove ends the processes, and removes the content.
func (l Local) Remove(ctx context.Context) error {
	if err := l.Stop(ctx); err != nil {
		return err
	}

	// etcd cannot start with only a part of its data, so rename the folder first. After an interruption, the old name
	// must not exist.
	err := l.removeRest()
	if err == nil {
		err = os.Rename(l.dir, l.removedDir())
	}

	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to remove the local management cluster: %w", err)
	}

	return l.removeRest()
}

// removeRest removes the files left by an interrupted Remove.
func (l Local) removeRest() error {
	if err := os.RemoveAll(l.removedDir()); err != nil {
		return fmt.Errorf("failed to remove the local management cluster: %w", err)
	}

	return nil
}

// Uses counts the clusters and inventories that still need the local management cluster.
type Uses struct {
	Clusters    int `json:"clusters"`
	Inventories int `json:"inventories"`
}

// IsEmpty reports whether nothing needs it.
func (u Uses) IsEmpty() bool { return u == Uses{} }

func (u Uses) String() string {
	out := english.Plural(u.Clusters, "cluster", "")
	if u.Inventories > 0 {
		out += " and " + english.Plural(u.Inventories, "inventory", "inventories")
	}

	return out
}

// CountUses counts the objects that need the local management cluster. Inventories count, because they have VMs of
// their own.
func (l Local) CountUses(ctx context.Context) (Uses, error) {
	c, err := Connect(Options{Kubeconfig: l.Kubeconfig()})
	if err != nil {
		return Uses{}, err
	}

	var clusters clusterv1.ClusterList
	if err := c.List(ctx, &clusters); err != nil {
		return Uses{}, fmt.Errorf("failed to list the clusters of the local management cluster: %w", err)
	}

	// An OLVMCluster still has machines if its Cluster was removed by force.
	var ours infrav1.OLVMClusterList
	if err := c.List(ctx, &ours); err != nil && !meta.IsNoMatchError(err) {
		return Uses{}, fmt.Errorf("failed to list the clusters of the local management cluster: %w", err)
	}

	var inventories infrav1alpha1.OLVMInventoryList
	if err := c.List(ctx, &inventories); err != nil && !meta.IsNoMatchError(err) {
		return Uses{}, fmt.Errorf("failed to list the inventories of the local management cluster: %w", err)
	}

	return Uses{max(len(clusters.Items), len(ours.Items)), len(inventories.Items)}, nil
}

// Serve runs the local management cluster until the context ends. managerArguments are the arguments that make this
// program run the manager. Serve calls say with lines for the user.
func (l Local) Serve(
	ctx context.Context, managerArguments []string, say func(format string, args ...any),
) (err error) {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return fmt.Errorf("failed to create a folder: %w", err)
	}

	lock, err := l.lockPIDFile(ctx)
	if err != nil {
		return err
	}
	defer lock.Close()
	defer func() { l.noteEnd(lock, err) }()

	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("failed to find this program: %w", err)
	}

	tools, err := toolchain.NewEmbedded()
	if err != nil {
		return err
	}

	plane, err := localplane.Start(ctx, localplane.Options{
		Tools:        tools,
		Dir:          l.dir,
		DataDir:      l.dataDir(),
		Manager:      append([]string{program}, managerArguments...),
		FeatureGates: []string{"KubeadmBootstrapFormatIgnition"},
		Progress:     say,
	})
	if err != nil && ctx.Err() != nil { // a user has stopped it
		return nil
	}

	if err != nil {
		return err
	}

	defer plane.Stop()

	l.startOthers(ctx, plane, say)

	if err := atomicfile.Write(l.readyFile(), fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		return fmt.Errorf("failed to write the ready file: %w", err)
	}

	defer os.Remove(l.readyFile())

	return l.watchProcesses(ctx, plane)
}

// watchProcesses checks the processes until the context or one of them ends.
func (l Local) watchProcesses(ctx context.Context, plane *localplane.Plane) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(localCheckInterval):
		}

		l.recordSeen()

		if err := plane.Failed(); err != nil {
			return err
		}
	}
}

// startOthers starts the third-party providers. If one of them fails, this provider's clusters do not wait for it.
func (l Local) startOthers(ctx context.Context, plane *localplane.Plane, say func(format string, args ...any)) {
	for _, name := range l.ListProviders() {
		other, known := localplane.Others[name]
		if !known {
			continue // added by another version of this program
		}

		if err := other.Start(ctx, plane); err != nil {
			say("provider %s failed: %v", name, err)
			continue
		}

		say("started provider %s", name)
	}
}

// lockPIDFile writes the ID of this process to the file. Until the file is closed, its lock prevents other processes
// from running the same cluster.
func (l Local) lockPIDFile(ctx context.Context) (*os.File, error) {
	file, err := os.OpenFile(l.pidFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("failed to open the PID file: %w", err)
	}

	switch err := l.waitForLock(ctx, file); {
	case errors.Is(err, filelock.ErrHeld):
		return nil, errors.Join(fmt.Errorf("another process is running the local management cluster: %w", err),
			file.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("%w (set XDG_STATE_HOME)", err), file.Close())
	}

	// The files of an earlier process no longer apply.
	err = errors.Join(removeIfThere(l.readyFile()), removeIfThere(l.endFile()), l.removeRest())
	if err == nil {
		err = file.Truncate(0)
	}

	if err == nil {
		_, err = fmt.Fprintln(file, os.Getpid())
	}

	if err == nil { // without it, a power failure could leave an empty file, which means a regular stop
		err = file.Sync()
	}

	if err != nil {
		return nil, errors.Join(fmt.Errorf("failed to write the PID file: %w", err), file.Close())
	}

	return file, nil
}

// waitForLock locks the file of the process. A killed process holds the lock until its last thread has ended. On a busy
// machine, this takes longer than the end of its command line.
func (l Local) waitForLock(ctx context.Context, file *os.File) error {
	for begin := time.Now(); ; {
		err := filelock.Exclusive(file)
		if !errors.Is(err, filelock.ErrHeld) || l.PID() != 0 || time.Since(begin) > localStopLimit {
			return err
		}

		select {
		case <-ctx.Done():
			return err
		case <-time.After(filePollInterval):
		}
	}
}

func pathExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
