package nodeimage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim/machine"
	"github.com/capolvm/cluster-api-provider-olvm/internal/toolchain"
)

// suite is the Debian release.
const suite = "bookworm"

// packages are the Debian packages beyond the required ones: systemd as PID 1, cloud-init, and the tools that kubeadm
// and kubelets call. They include the services that this provider's user data configures. python3-cffi-backend is
// explicit, because debootstrap does not resolve the virtual package in cloud-init's dependencies.
var packages = []string{
	"systemd", "systemd-sysv", "systemd-resolved", "dbus", "udev", "kmod", "libpam-systemd", "procps", "util-linux",
	"mount", "netbase", "ca-certificates", "sudo", "curl", "openssh-server", "iproute2", "iputils-ping", "nftables",
	"iptables", "conntrack", "ethtool", "socat", "runc", "cloud-init", "python3-cffi-backend", "keepalived", "haproxy",
	"nginx-light", "libnginx-mod-stream", "network-manager",
}

// files are the files of the image that are neither packages nor programs.
//
//go:embed files
var files embed.FS

// Hello is the container image of a program that answers on HTTP port 8080 with the name of its pod.
const Hello = "localhost/hello:v1"

// layout changes whenever the code processes the inputs of an image differently.
const layout = "3"

// pauseImage is the placeholder for the sandbox image in the configuration of containerd.
const pauseImage = "PAUSE_IMAGE"

// Image is a built image.
type Image struct {
	dir string
	// Kubernetes is the version of the image's programs, such as v1.36.3.
	Kubernetes string `json:"kubernetes"`
	// Pause is the name of a container image that does nothing.
	Pause string `json:"pause"`
	// CoreDNS is the name of the container image for the cluster's DNS.
	CoreDNS string `json:"coreDNS"`
	// Ignition reports whether the image includes Ignition. It does if libblkid was available during the build.
	Ignition bool `json:"ignition"`
}

// Open reads the description of the image in a folder.
func Open(dir string) (Image, error) {
	image := Image{dir: dir}
	content, err := os.ReadFile(image.recordPath())
	if err == nil {
		err = json.Unmarshal(content, &image)
	}

	if err != nil {
		return Image{}, fmt.Errorf("%s is no image of a node, which make node-image builds: %w", dir, err)
	}

	return image, nil
}

// writeRecord writes the description of the image.
func (i Image) writeRecord() error {
	content, err := json.Marshal(i)
	if err != nil {
		return err
	}

	return os.WriteFile(i.recordPath(), content, 0o600)
}

func (i Image) recordPath() string { return filepath.Join(i.dir, "image.json") }

// Dir returns the folder of the image.
func (i Image) Dir() string { return i.dir }

// RootFS returns the folder of the root file system. Callers must not write to it.
func (i Image) RootFS() string { return filepath.Join(i.dir, "rootfs") }

// Store returns the folder that each machine copies to its /var/lib/containerd.
func (i Image) Store() string { return filepath.Join(i.dir, "store") }

// Builder builds images.
type Builder struct {
	Tools *toolchain.Toolchain
	// Kubernetes is the tools module with the source of Kubernetes. Empty means node; nodebefore has the previous patch
	// version.
	Kubernetes string
	// Say receives progress messages for users.
	Say func(format string, args ...any)
}

// Check returns an error if this host cannot build an image, or cannot run machines from an image.
func Check() error { return machine.Check("debootstrap", "unshare", "chroot") }

// EnsureTested builds the boot images for tests: the newest patch version, and the previous one. It also builds the
// other programs that tests run on them.
func EnsureTested(ctx context.Context, builder Builder) (newest, before Image, err error) {
	for _, module := range []string{"certmanager", "csi"} {
		if err := builder.Tools.Build(ctx, module); err != nil {
			return newest, before, err
		}
	}

	if newest, err = builder.EnsureImage(ctx); err != nil {
		return newest, before, err
	}

	builder.Kubernetes = "nodebefore"
	before, err = builder.EnsureImage(ctx)

	return newest, before, err
}

// EnsureImage returns the image from the cache, or builds it. It must run as root.
func (b *Builder) EnsureImage(ctx context.Context) (Image, error) {
	if err := Check(); err != nil {
		return Image{}, err
	}

	// All users of a machine may read the content of an image.
	defer syscall.Umask(syscall.Umask(0o022))

	programs, err := b.ensurePrograms(ctx)
	if err != nil {
		return Image{}, err
	}

	base, err := b.runCached(ctx, "debian", []string{suite, strings.Join(packages, " ")}, b.bootstrapDebian)
	if err != nil {
		return Image{}, err
	}

	names, err := queryImageNames(ctx, programs)
	if err != nil {
		return Image{}, err
	}

	kubeVIP := "ghcr.io/kube-vip/kube-vip:" + b.Tools.Version("kubevip", "github.com/kube-vip/kube-vip")
	cloud := "ghcr.io/kube-vip/kube-vip-cloud-provider:" +
		b.Tools.Version("kubevipcloud", "github.com/kube-vip/kube-vip-cloud-provider")
	names = append(names, kubeVIP, cloud, Hello)

	inputs := append([]string{base}, programs.programDirs()...)
	inputs = append(inputs, strings.Join(names, " "), contentOf(files), layout)

	dir, err := b.runCached(ctx, "image", inputs, func(ctx context.Context, dir string) error {
		build := &build{Builder: b, base: filepath.Join(base, "rootfs"), dir: dir, programs: programs, images: names}
		if err := build.runSteps(ctx); err != nil {
			return err
		}

		return Image{
			dir:        dir,
			Kubernetes: versionOf(names),
			Pause:      nameOf(names, "pause"),
			CoreDNS:    nameOf(names, "coredns"),
			Ignition:   programs["ignition"] != "",
		}.writeRecord()
	})
	if err != nil {
		return Image{}, err
	}

	return Open(dir)
}

// runCached creates a folder of the cache if it does not exist. The inputs of the step determine the folder's name. An
// interrupted step leaves no folder under the final name.
func (b *Builder) runCached(
	ctx context.Context, name string, inputs []string, make func(ctx context.Context, dir string) error,
) (string, error) {
	sum := sha256.Sum256([]byte(strings.Join(inputs, "\n")))
	dir := filepath.Join(toolchain.CacheDir(), "node", name+"-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, os.Chtimes(dir, time.Now(), time.Now()) // pruneCache uses this time
	}

	temporary := fmt.Sprintf("%s.%d", dir, os.Getpid())
	defer os.RemoveAll(temporary)

	if err := os.MkdirAll(temporary, 0o755); err != nil {
		return "", fmt.Errorf("failed to make a folder for images of machines: %w", err)
	}

	begin := time.Now()
	b.Say("making %s", filepath.Base(dir))
	if err := make(ctx, temporary); err != nil {
		return "", fmt.Errorf("failed to make %s: %w", filepath.Base(dir), err)
	}

	if err := os.Rename(temporary, dir); err != nil {
		return "", fmt.Errorf("failed to keep %s: %w", filepath.Base(dir), err)
	}

	b.Say("made %s in %.0f s", filepath.Base(dir), time.Since(begin).Seconds())

	return dir, pruneCache(filepath.Dir(dir), name)
}

// kept is the number of results that the cache keeps for each step, regardless of their age. It removes other results
// after they were unused for the time unused. An image has more than a gigabyte, and machines may run on it for up to a
// day.
const (
	kept   = 4
	unused = 24 * time.Hour
)

// pruneCache removes the least recently used results of a step.
func pruneCache(cache, name string) error {
	found, err := filepath.Glob(filepath.Join(cache, name+"-*"))
	if err != nil {
		return err
	}

	used := func(path string) time.Time {
		info, err := os.Stat(path)
		if err != nil {
			return time.Time{}
		}

		return info.ModTime()
	}
	slices.SortFunc(found, func(a, b string) int { return used(b).Compare(used(a)) })

	for _, path := range found[min(kept, len(found)):] {
		if time.Since(used(path)) < unused {
			continue
		}

		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("failed to remove what is no longer used: %w", err)
		}
	}

	return nil
}

// bootstrapDebian unpacks and configures the packages in new namespaces. The processes and mounts of a package end with
// the namespaces.
func (b *Builder) bootstrapDebian(ctx context.Context, dir string) error {
	return runProgram(ctx, "unshare", "--mount", "--pid", "--fork", "--mount-proc", "debootstrap", "--variant=minbase",
		"--include="+strings.Join(packages, ","), suite, filepath.Join(dir, "rootfs"))
}

// programs maps the names of programs to the paths of their executables.
type programs map[string]string

// programDirs returns the folders of the programs. The names of these folders change with the programs' versions.
func (p programs) programDirs() []string {
	var out []string
	for _, name := range []string{
		"kubelet", "containerd", "coredns", "etcd", "kube-vip", "kube-vip-cloud-provider", "ignition", "pause", "hello",
	} {
		out = append(out, p[name])
	}

	return out
}

const (
	// bin and plugins are folders of the root file system.
	bin     = "/usr/bin"
	plugins = "/opt/cni/bin"
	// contained is the place of programs that are only in container images.
	contained = ""
)

// nodePrograms are the programs of a node with their places, by the tools module that contains them. The key "" is the
// module of Kubernetes.
var nodePrograms = map[string]map[string]string{
	"": {
		"kube-apiserver":          contained,
		"kube-controller-manager": contained,
		"kube-proxy":              contained,
		"kube-scheduler":          contained,
		"kubeadm":                 bin,
		"kubectl":                 bin,
		"kubelet":                 bin,
	},
	"containerd": {
		"containerd":              bin,
		"containerd-shim-runc-v2": bin,
		"ctr":                     bin,
		"bridge":                  plugins,
		"host-local":              plugins,
		"loopback":                plugins,
		"portmap":                 plugins,
	},
	"dns":          {"coredns": contained},
	"plane":        {"etcd": contained},
	"kubevip":      {"kube-vip": contained},
	"kubevipcloud": {"kube-vip-cloud-provider": contained},
	"ignition":     {"ignition": bin},
}

// canBuildIgnition reports whether this host has the C library that Ignition requires.
func canBuildIgnition() bool {
	_, header := os.Stat("/usr/include/blkid/blkid.h")
	_, compiler := exec.LookPath("cc")

	return header == nil && compiler == nil
}

// ensurePrograms builds the programs that Debian does not have.
func (b *Builder) ensurePrograms(ctx context.Context) (programs, error) {
	out := programs{}

	for module, places := range nodePrograms {
		if module == "" {
			module = cmp.Or(b.Kubernetes, "node")
		}

		if module == "ignition" && !canBuildIgnition() {
			b.Say("without libblkid-dev and a C compiler the image has no Ignition")
			continue
		}

		if err := b.Tools.Build(ctx, module, slices.Collect(maps.Keys(places))...); err != nil {
			return nil, err
		}

		for name := range places {
			path, err := b.Tools.Path(module, name)
			if err != nil {
				return nil, err
			}

			out[name] = path
		}
	}

	for _, name := range ownPrograms {
		path, err := b.ensureOwnProgram(ctx, name)
		if err != nil {
			return nil, err
		}

		out[name] = path
	}

	return out, nil
}

// ownPrograms are programs of container images. Their source is next to this file.
var ownPrograms = []string{"pause", "hello"}

// ensureOwnProgram builds one of ownPrograms.
func (b *Builder) ensureOwnProgram(ctx context.Context, name string) (string, error) {
	source, err := os.ReadFile(filepath.Join(b.Tools.Root(), "internal", "ovirtsim", "nodeimage", name, "main.go"))
	if err != nil {
		return "", fmt.Errorf("failed to read the source of %s: %w", name, err)
	}

	dir, err := b.runCached(ctx, name, []string{string(source)}, func(ctx context.Context, dir string) error {
		command := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, name),
			"./internal/ovirtsim/nodeimage/"+name)
		command.Dir, command.Env = b.Tools.Root(), append(os.Environ(), "CGO_ENABLED=0")

		return runChecked(command)
	})

	return filepath.Join(dir, name), err
}

// queryImageNames returns the names of the container images that kubeadm requires.
func queryImageNames(ctx context.Context, p programs) ([]string, error) {
	version, err := exec.CommandContext(ctx, p["kubeadm"], "version", "-o", "short").Output()
	if err != nil {
		return nil, fmt.Errorf("failed to ask kubeadm for its version: %w", err)
	}

	list, err := exec.CommandContext(ctx, p["kubeadm"], "config", "images", "list", "--kubernetes-version",
		strings.TrimSpace(string(version))).Output()
	if err != nil {
		return nil, fmt.Errorf("failed to ask kubeadm for its images: %w", err)
	}

	return strings.Fields(string(list)), nil
}

// versionOf returns the Kubernetes version in the names of images.
func versionOf(names []string) string {
	_, tag, _ := strings.Cut(nameOf(names, "kube-apiserver"), ":")
	return tag
}

// nameOf returns the full name of a program's container image, or "" if it is not listed.
func nameOf(names []string, program string) string {
	for _, name := range names {
		if repository, _, _ := strings.Cut(name, ":"); filepath.Base(repository) == program {
			return name
		}
	}

	return ""
}

// contentOf returns the contents of all files as one text.
func contentOf(of fs.FS) string {
	var out strings.Builder

	_ = fs.WalkDir(of, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		content, err := fs.ReadFile(of, path)
		fmt.Fprintf(&out, "%s\n%s\n", path, content)

		return err
	})

	return out.String()
}

// runProgram runs a program, and includes its output in the error.
func runProgram(ctx context.Context, name string, args ...string) error {
	return runChecked(exec.CommandContext(ctx, name, args...))
}

func runChecked(command *exec.Cmd) error {
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, output[max(0, len(output)-2000):])
	}

	return nil
}
