package nodeimage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// build builds one image.
type build struct {
	*Builder
	// base is the root file system of Debian, and dir the folder of the image.
	base, dir string
	programs  programs
	images    []string
}

// runSteps builds the image. It starts with the root file system, because kube-proxy's image takes files of Debian from
// it.
func (b *build) runSteps(ctx context.Context) error {
	if err := b.linkRootFS(ctx); err != nil {
		return err
	}

	archive := filepath.Join(b.dir, "images.tar")
	if err := b.writeImages(ctx, archive); err != nil {
		return err
	}

	if err := b.importImages(ctx, archive); err != nil {
		return err
	}

	return os.Remove(archive)
}

func (b *build) rootPath(path string) string { return filepath.Join(b.dir, "rootfs", path) }

// masked are timer units that never start.
var masked = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer",
}

// wanted are units that start at boot. disabled are units that only user data starts.
var (
	wanted   = []string{"containerd", "kubelet", "systemd-networkd", "systemd-resolved"}
	disabled = []string{"keepalived", "haproxy", "nginx", "NetworkManager", "NetworkManager-wait-online"}
)

// linkRootFS links the files of Debian into the image, and adds programs and files.
func (b *build) linkRootFS(ctx context.Context) error {
	// All images share the files of the base. Therefore, replace such a file instead of writing to it.
	if err := runProgram(ctx, "cp", "--archive", "--link", b.base, b.rootPath("")); err != nil {
		return err
	}

	for _, places := range nodePrograms {
		for name, place := range places {
			if place == contained || b.programs[name] == "" {
				continue
			}

			if err := b.copyFile(filepath.Join(place, name), b.programs[name], 0o755); err != nil {
				return err
			}
		}
	}

	if err := b.putFiles(); err != nil {
		return err
	}

	return errors.Join(b.configureUnits(), b.removeIdentity())
}

// copyFile copies a file into the root file system.
func (b *build) copyFile(to, from string, mode fs.FileMode) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()

	return b.writeFile(to, source, mode)
}

// writeFile writes a file in the root file system, and replaces an existing file.
func (b *build) writeFile(to string, content io.Reader, mode fs.FileMode) error {
	path := b.rootPath(to)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), removeIfExists(path)); err != nil {
		return err
	}

	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}

	_, err = io.Copy(file, content)

	return errors.Join(err, file.Close())
}

// removeIfExists removes a file, if it exists.
func removeIfExists(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}

	return nil
}

// linkFile creates a symbolic link in the root file system, and replaces an existing file.
func (b *build) linkFile(to, target string) error {
	path := b.rootPath(to)
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), removeIfExists(path), os.Symlink(target, path))
}

func (b *build) putFiles() error {
	return fs.WalkDir(files, "files", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		content, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}

		content = bytes.ReplaceAll(content, []byte(pauseImage), []byte(nameOf(b.images, "pause")))

		mode := fs.FileMode(0o644)
		if bytes.HasPrefix(content, []byte("#!")) {
			mode = 0o755
		}

		return b.writeFile(strings.TrimPrefix(path, "files"), bytes.NewReader(content), mode)
	})
}

// configureUnits configures which units start.
func (b *build) configureUnits() error {
	const (
		folder = "/etc/systemd/system/"
		wants  = folder + "multi-user.target.wants/"
	)

	var problems []error
	for _, name := range masked {
		problems = append(problems, b.linkFile(folder+name, "/dev/null"))
	}

	for _, name := range wanted {
		target := "/lib/systemd/system/" + name + ".service"
		if _, err := os.Stat(b.rootPath(folder + name + ".service")); err == nil {
			target = folder + name + ".service"
		}

		problems = append(problems, b.linkFile(wants+name+".service", target))
	}

	for _, name := range []string{"pods.path", "pods.service"} { // the networks may already be known at boot
		problems = append(problems, b.linkFile(wants+name, folder+name))
	}

	for _, name := range disabled {
		links, err := filepath.Glob(b.rootPath(folder + "*.wants/" + name + ".service"))
		problems = append(problems, err)

		for _, link := range links {
			problems = append(problems, os.Remove(link))
		}
	}

	return errors.Join(problems...)
}

// removeIdentity removes the files that each machine creates again at its first boot.
func (b *build) removeIdentity() error {
	keys, err := filepath.Glob(b.rootPath("/etc/ssh/ssh_host_*"))
	if err != nil {
		return err
	}

	problems := []error{
		b.writeFile("/etc/machine-id", strings.NewReader(""), 0o444),
		removeIfExists(b.rootPath("/var/lib/dbus/machine-id")),
		removeIfExists(b.rootPath("/etc/hostname")),
		b.linkFile("/etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf"),
	}
	for _, key := range keys {
		problems = append(problems, os.Remove(key))
	}

	return errors.Join(problems...)
}

// importScript runs containerd in the unmodified root file system, and imports an archive with it.
const importScript = `set -e
mount -t tmpfs tmpfs "$SCRATCH"
mkdir "$SCRATCH/upper" "$SCRATCH/work" "$SCRATCH/root"
mount -t overlay overlay -o "lowerdir=$ROOTFS,upperdir=$SCRATCH/upper,workdir=$SCRATCH/work" "$SCRATCH/root"
mount -t proc proc "$SCRATCH/root/proc"
mount --rbind /dev "$SCRATCH/root/dev"
mount -t tmpfs tmpfs "$SCRATCH/root/run"
mkdir -p "$SCRATCH/root/var/lib/containerd"
mount --bind "$STORE" "$SCRATCH/root/var/lib/containerd"
touch "$SCRATCH/root/run/images.tar"
mount --bind "$ARCHIVE" "$SCRATCH/root/run/images.tar"
chroot "$SCRATCH/root" containerd >"$STORE.log" 2>&1 &
daemon=$!
for i in $(seq 300); do
  chroot "$SCRATCH/root" ctr version >/dev/null 2>&1 && break
  sleep 0.1
done
chroot "$SCRATCH/root" ctr --namespace k8s.io images import --snapshotter overlayfs /run/images.tar
kill "$daemon"
wait "$daemon" || true
`

// importImages lets containerd unpack the archive of images into the store.
func (b *build) importImages(ctx context.Context, archive string) error {
	store, scratch := filepath.Join(b.dir, "store"), filepath.Join(b.dir, "scratch")
	if err := errors.Join(os.Mkdir(store, 0o711), os.Mkdir(scratch, 0o755)); err != nil {
		return err
	}

	command := exec.CommandContext(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
		importScript)
	command.Env = append(os.Environ(), "ROOTFS="+b.rootPath(""), "STORE="+store, "SCRATCH="+scratch, "ARCHIVE="+archive)
	if err := runChecked(command); err != nil {
		log, _ := os.ReadFile(store + ".log")
		return fmt.Errorf("%w\ncontainerd says:\n%s", err, log[max(0, len(log)-2000):])
	}

	return errors.Join(os.Remove(store+".log"), os.Remove(scratch))
}
