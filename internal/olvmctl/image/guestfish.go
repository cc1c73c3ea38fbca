package image

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/capolvm/cluster-api-provider-olvm/internal/hostos"
)

// grace is the time guestfish gets to end its virtual machine.
const grace = 30 * time.Second

// filesystems are the types of filesystems that may have boot loader entries or deployments.
var filesystems = []string{"xfs", "ext4", "ext3", "ext2", "btrfs", "vfat"}

var (
	// entryGlobs match the boot loader entries on a separate partition, or in /boot.
	entryGlobs = []string{"/loader*/entries/*.conf", "/boot/loader*/entries/*.conf"}
	// machineIDGlob matches the machine IDs in OSTree deployments.
	machineIDGlob = "/ostree/deploy/*/deploy/*/etc/machine-id"
	machineID     = regexp.MustCompile(`^[0-9a-f]{32}\s*$`)
)

// quoted escapes a text for use in double quotes of guestfish.
var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// findGuestfish finds the program on PATH.
func findGuestfish() (string, error) {
	path, err := exec.LookPath("guestfish")
	if err != nil {
		return "", errors.New(
			"guestfish, which reads the image, is not on PATH; install it with dnf install /usr/bin/guestfish, or " +
				"apt install guestfish. If the kernel arguments of the image need no change, upload it with " +
				"olvmctl image template --file",
		)
	}

	return path, nil
}

// editor edits the boot disk of a node.
type editor struct {
	executable, scratch string
	arguments           Arguments
	say                 func(format string, args ...any)
}

// editArguments sets the kernel arguments in the boot loader entries of a disk, and removes the machine ID. It keeps
// the UUIDs of the filesystems. A machine with two disks from the same image could not mount both, but no machine has
// two.
func (e *editor) editArguments(ctx context.Context, disk, format string) error {
	session, err := startGuestfish(ctx, e.executable, disk, format)
	if err != nil {
		return err
	}

	return session.closeSession(e.editDisk(session))
}

func (e *editor) editDisk(session *guestfish) error {
	if _, err := session.runCommand("run"); err != nil {
		return err
	}

	list, err := session.runCommand("list-filesystems")
	if err != nil {
		return err
	}

	entries := 0

	for line := range strings.Lines(list) {
		// The line has a device, a colon and the type. The device btrfsvol:/dev/sda3/root contains another colon.
		at := strings.LastIndex(line, ": ")
		if at < 0 || !slices.Contains(filesystems, strings.TrimSpace(line[at+1:])) {
			continue
		}

		if _, err := session.runCommand("mount", line[:at], "/"); err != nil {
			return err
		}

		edited, err := e.editEntries(session)
		if err != nil {
			return err
		}

		entries += edited
		if err := e.removeMachineIDs(session); err != nil {
			return err
		}

		if _, err := session.runCommand("umount", "/"); err != nil {
			return err
		}
	}

	if entries == 0 {
		return errors.New("the image has no boot loader entries (loader/entries/*.conf); use an OCK image")
	}

	_, err = session.runCommand("shutdown") // reports failed writes

	return err
}

// editEntries edits the boot loader entries on the mounted filesystem, and returns their number.
func (e *editor) editEntries(session *guestfish) (int, error) {
	paths, err := session.findFiles(entryGlobs...)
	if err != nil {
		return 0, err
	}

	for _, path := range paths {
		entry, err := session.runCommand("cat", path)
		if err != nil {
			return 0, err
		}

		edited := e.arguments.EditEntry(entry)
		if edited == entry {
			e.say("%s: unchanged", path)
			continue
		}

		e.say("%s: setting the kernel arguments", path)
		file := filepath.Join(e.scratch, "entry")
		if err := os.WriteFile(file, []byte(edited), 0o600); err != nil {
			return 0, err
		}

		// Overwrite the existing file, to keep its owner, mode and SELinux label.
		if _, err := session.runCommand("upload", file, path); err != nil {
			return 0, err
		}
	}

	return len(paths), nil
}

// removeMachineIDs removes the machine ID, so each machine creates its own ID instead of sharing that of the image. It
// deletes the files. If they were only empty, systemd would not treat the machine as new, and would not enable the
// units in Ignition's presets.
func (e *editor) removeMachineIDs(session *guestfish) error {
	paths, err := session.findFiles(machineIDGlob)
	if err != nil {
		return err
	}

	for _, path := range paths {
		id, err := session.runCommand("cat", path)
		if err != nil {
			return err
		}

		if !machineID.MatchString(id) { // an empty file, or the word for a missing ID
			continue
		}

		e.say("%s: removing", path)
		if _, err := session.runCommand("rm", path); err != nil {
			return err
		}
	}

	return nil
}

// guestfish is a process that reads commands from a pipe. It ends when the pipe is closed, even if olvmctl is killed.
type guestfish struct {
	ctx     context.Context
	command *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	stderr  bytes.Buffer
	// end is the line printed after the output of each command.
	end string
}

func startGuestfish(
	ctx context.Context, executable, disk, format string, options ...string,
) (*guestfish, error) {
	g := &guestfish{ctx: ctx, end: "end-" + uuid.NewString() + "\n"}
	arguments := slices.Concat(options, []string{"--no-progress-bars", "--format=" + format, "--add", disk})
	g.command = exec.CommandContext(ctx, executable, arguments...)
	g.command.Stderr = &g.stderr
	g.command.Env = append(os.Environ(), "LC_ALL=C")
	if os.Getenv("LIBGUESTFS_BACKEND") == "" {
		// libvirt would run QEMU as another user, who may not read the image.
		g.command.Env = append(g.command.Env, "LIBGUESTFS_BACKEND=direct")
	}

	// Ctrl-C on a terminal must only reach olvmctl: guestfish cleans up only at the end of its input.
	g.command.SysProcAttr = hostos.OwnGroup()
	g.command.WaitDelay = grace
	stdin, err := g.command.StdinPipe()
	if err != nil {
		return nil, err
	}

	g.stdin = stdin
	g.command.Cancel = stdin.Close
	stdout, err := g.command.StdoutPipe()
	if err != nil {
		return nil, err
	}

	g.stdout = bufio.NewReader(stdout)
	if err := g.command.Start(); err != nil {
		return nil, fmt.Errorf("failed to start guestfish: %w", err)
	}

	return g, nil
}

// runCommand runs a command, and returns its output. guestfish ends when a command fails.
func (g *guestfish) runCommand(command string, arguments ...string) (string, error) {
	line := command
	for _, argument := range arguments {
		// Names in images are not trusted: a new line in a name would begin a new command.
		line += ` "` + quoted.Replace(argument) + `"`
	}

	if _, err := fmt.Fprintf(g.stdin, "%s\necho %s", line, g.end); err != nil {
		return "", fmt.Errorf("guestfish exited before %s: %w", command, err)
	}

	var output strings.Builder

	for {
		text, err := g.stdout.ReadString('\n')
		output.WriteString(text)
		if before, ok := strings.CutSuffix(output.String(), g.end); ok {
			return before, nil
		}

		if err != nil {
			return "", fmt.Errorf("guestfish exited during %s: %w", command, err)
		}
	}
}

// findFiles expands globs. It returns each file only once, because loader is a link to loader.0 or loader.1.
func (g *guestfish) findFiles(globs ...string) ([]string, error) {
	var found []string

	for _, glob := range globs {
		list, err := g.runCommand("glob-expand", glob)
		if err != nil {
			return nil, err
		}

		for path := range strings.Lines(list) {
			target, err := g.runCommand("realpath", strings.TrimSuffix(path, "\n"))
			if err != nil {
				return nil, err
			}

			found = append(found, strings.TrimSuffix(target, "\n"))
		}
	}

	slices.Sort(found)

	return slices.Compact(found), nil
}

// closeSession ends guestfish. It returns guestfish's own error, or else err.
func (g *guestfish) closeSession(err error) error {
	_ = g.stdin.Close()
	_, _ = io.Copy(io.Discard, g.stdout)

	ended := g.command.Wait()
	switch {
	case g.ctx.Err() != nil:
		return g.ctx.Err()
	case ended != nil:
		return fmt.Errorf(
			"guestfish failed; if KVM is the cause, set LIBGUESTFS_BACKEND_SETTINGS=force_tcg to run without KVM: %s",
			cmp.Or(strings.TrimSpace(g.stderr.String()), ended.Error()),
		)
	}

	return err
}
