package nodeimage

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// binDir is the folder of programs in container images. kubeadm's manifests call the programs by name.
const binDir = "/usr/local/bin/"

// proxyPrograms are the programs that kube-proxy calls. proxyLibraries are libraries that these programs load at run
// time.
var (
	proxyPrograms  = []string{"/usr/sbin/nft", "/usr/sbin/xtables-nft-multi", "/usr/sbin/conntrack"}
	proxyLibraries = "/usr/lib/*/xtables/*.so"
	// proxyNames are other names of the second program in proxyPrograms.
	proxyNames = []string{
		"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore",
	}
)

// writeImages writes an archive with all images that kubeadm requires. Each image contains one program with its
// dependencies.
func (b *build) writeImages(ctx context.Context, archive string) error {
	images := map[name.Reference]v1.Image{}

	for _, whole := range b.images {
		reference, err := name.NewTag(whole)
		if err != nil {
			return fmt.Errorf("image %s: %w", whole, err)
		}

		repository, _, _ := strings.Cut(whole, ":")
		if images[reference], err = b.containerImage(ctx, filepath.Base(repository)); err != nil {
			return fmt.Errorf("image %s: %w", whole, err)
		}
	}

	return tarball.MultiRefWriteToFile(archive, images)
}

// containerImage returns the image of one program.
func (b *build) containerImage(ctx context.Context, program string) (v1.Image, error) {
	t := newTree()
	if err := t.addFile(binDir+program, b.programs[program]); err != nil {
		return nil, err
	}

	if err := t.addLink("/"+program, binDir+program); err != nil { // in published images, some programs have this path
		return nil, err
	}

	if program == "kube-proxy" {
		if err := b.addProxyPrograms(ctx, t); err != nil {
			return nil, err
		}
	}

	return t.toImage(v1.Config{Entrypoint: []string{binDir + program}})
}

// ContainerImage returns an image with executables. The map holds the files of this host by their paths in the image.
func ContainerImage(config v1.Config, executables map[string]string) (v1.Image, error) {
	t := newTree()

	for _, path := range slices.Sorted(maps.Keys(executables)) {
		if err := t.addFile(path, executables[path]); err != nil {
			return nil, err
		}
	}

	return t.toImage(config)
}

// addProxyPrograms adds the programs that kube-proxy calls, with their libraries.
func (b *build) addProxyPrograms(ctx context.Context, t *tree) error {
	loaded, err := filepath.Glob(b.rootPath(proxyLibraries))
	if err != nil {
		return err
	}

	needed := slices.Clone(proxyPrograms)
	for _, path := range loaded {
		needed = append(needed, strings.TrimPrefix(path, b.rootPath("")))
	}

	libraries, err := b.librariesOf(ctx, needed)
	if err != nil {
		return err
	}

	for _, path := range append(needed, libraries...) {
		real, err := filepath.EvalSymlinks(b.rootPath(path))
		if err != nil {
			return err
		}

		if err := t.addFile(path, real); err != nil {
			return err
		}
	}

	for _, other := range proxyNames {
		if err := t.addLink("/usr/sbin/"+other, "xtables-nft-multi"); err != nil {
			return err
		}
	}

	return nil
}

// librariesOf returns the shared libraries that executables in the root file system need, and the loader.
func (b *build) librariesOf(ctx context.Context, paths []string) ([]string, error) {
	command := exec.CommandContext(ctx, "chroot", append([]string{b.rootPath(""), "ldd"}, paths...)...)
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("failed to ask for libraries: %w", err)
	}

	var out []string

	for _, line := range strings.Split(string(output), "\n") {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/lib") && !strings.HasSuffix(word, ":") && !slices.Contains(out, word) {
				out = append(out, word)
			}
		}
	}

	return out, nil
}

// tree is a directory tree in the format of a layer.
type tree struct {
	content bytes.Buffer
	tar     *tar.Writer
	dirs    map[string]bool
}

func newTree() *tree {
	t := &tree{dirs: map[string]bool{}}
	t.tar = tar.NewWriter(&t.content)

	return t
}

// addFile adds an executable.
func (t *tree) addFile(path, from string) error {
	content, err := os.ReadFile(from)
	if err == nil {
		err = t.addParents(path)
	}

	if err != nil {
		return err
	}

	err = t.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Mode: 0o755, Size: int64(len(content)),
	})
	_, failed := t.tar.Write(content)

	return errors.Join(err, failed)
}

func (t *tree) addLink(path, target string) error {
	return errors.Join(t.addParents(path), t.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(path, "/"), Linkname: target, Mode: 0o777,
	}))
}

// addParents adds the parent folders of a path.
func (t *tree) addParents(path string) error {
	parts := strings.Split(strings.Trim(filepath.Dir(path), "/"), "/")

	for i := range parts {
		dir := strings.Join(parts[:i+1], "/")
		if dir == "" || t.dirs[dir] { // the root exists
			continue
		}

		t.dirs[dir] = true
		header := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: int64(fs.FileMode(0o755))}
		if err := t.tar.WriteHeader(header); err != nil {
			return err
		}
	}

	return nil
}

// toImage returns an image with the tree as its only layer, for this machine's architecture.
func (t *tree) toImage(config v1.Config) (v1.Image, error) {
	if err := t.tar.Close(); err != nil {
		return nil, err
	}

	layer := static.NewLayer(t.content.Bytes(), types.DockerUncompressedLayer)
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}

	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}

	config.Env = append(config.Env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config

	return mutate.ConfigFile(image, file)
}
