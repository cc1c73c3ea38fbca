package toolchain

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"golang.org/x/sync/errgroup"
)

const (
	// connectTimeout is how long a publisher may take to be reached: a machine without the internet shall build soon.
	connectTimeout = 5 * time.Second
	// headerTimeout is how long a publisher may take to begin its answer.
	headerTimeout = 15 * time.Second
	// downloadTimeout is how long all downloads of a module may take. Building takes no longer on two cores.
	downloadTimeout = 5 * time.Minute
	// downloadsAtOnce is how many tools are downloaded at the same time.
	downloadsAtOnce = 4
	// maxChecksumBytes bounds the answer to a question for checksums.
	maxChecksumBytes = 1 << 20
)

// publishers are where projects publish their executables.
type publishers struct {
	// kubernetes and etcd are addresses of folders with a folder per version.
	kubernetes, etcd string
	// registry of container images.
	registry string
	// transport reaches all of them.
	transport http.RoundTripper
}

// defaultPublishers are those of the projects themselves, reached as the environment says (HTTPS_PROXY).
func defaultPublishers() *publishers {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	transport.TLSHandshakeTimeout = connectTimeout
	transport.ResponseHeaderTimeout = headerTimeout

	return &publishers{
		kubernetes: "https://dl.k8s.io/release",
		etcd:       "https://github.com/etcd-io/etcd/releases/download",
		registry:   "registry.k8s.io",
		transport:  transport,
	}
}

// published says how a tool gets from its publisher to a file.
type published func(ctx context.Context, from *publishers, t tool, version, target string) error

// download gets tools from their publishers, and returns those that are left to build: all that have no publisher, and
// after the first failure all that were not there by then.
func (t *Toolchain) download(ctx context.Context, dir string, missing []tool, versions map[string]string) []tool {
	if !slices.ContainsFunc(missing, func(t tool) bool { return t.published != nil }) {
		return missing
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return missing
	}

	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(downloadsAtOnce)

	for _, tool := range missing {
		if tool.published == nil {
			continue
		}

		group.Go(func() error { return t.downloadTool(ctx, dir, tool, versions[tool.module]) })
	}

	if err := t.during("downloading tools", group.Wait); err != nil {
		t.say("building what cannot be downloaded: %v", err)
	}

	var left []tool

	for _, tool := range missing {
		if _, err := os.Stat(filepath.Join(dir, tool.name)); err != nil {
			left = append(left, tool)
		}
	}

	if got := len(missing) - len(left); got > 0 {
		t.say("downloaded %d tools in %.0f s", got, time.Since(begin).Seconds())
	}

	return left
}

// downloadTool writes a tool beside its place and renames it: an interrupted download leaves nothing that looks whole.
func (t *Toolchain) downloadTool(ctx context.Context, dir string, tool tool, version string) error {
	temporary := filepath.Join(dir, fmt.Sprintf(".download.%s.%d", tool.name, os.Getpid()))
	defer os.Remove(temporary)

	if err := tool.published(ctx, t.publishers, tool, version, temporary); err != nil {
		return fmt.Errorf("failed to download %s %s: %w", tool.name, version, err)
	}

	if err := os.Chmod(temporary, 0o755); err != nil {
		return fmt.Errorf("failed to make %s executable: %w", tool.name, err)
	}

	return os.Rename(temporary, filepath.Join(dir, tool.name))
}

// kubernetesRelease downloads one executable of Kubernetes. Its checksum is a file beside it.
func kubernetesRelease(ctx context.Context, from *publishers, t tool, version, target string) error {
	address := fmt.Sprintf("%s/%s/bin/linux/%s/%s", from.kubernetes, version, runtime.GOARCH, t.name)
	checksum, err := from.text(ctx, address+".sha256")
	if err != nil {
		return err
	}

	return from.file(ctx, address, strings.TrimSpace(checksum), target)
}

// etcdRelease downloads the archive of a release of etcd, and takes the server out of it. One file has the checksums of
// all archives.
func etcdRelease(ctx context.Context, from *publishers, t tool, version, target string) error {
	folder := from.etcd + "/" + version
	release := fmt.Sprintf("etcd-%s-linux-%s", version, runtime.GOARCH)
	checksums, err := from.text(ctx, folder+"/SHA256SUMS")
	if err != nil {
		return err
	}

	checksum, err := checksumOf(checksums, release+".tar.gz")
	if err != nil {
		return err
	}

	archive := target + ".tar.gz"
	defer os.Remove(archive)

	if err := from.file(ctx, folder+"/"+release+".tar.gz", checksum, archive); err != nil {
		return err
	}

	compressed, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer compressed.Close()

	content, err := gzip.NewReader(compressed)
	if err != nil {
		return fmt.Errorf("failed to read %s.tar.gz: %w", release, err)
	}

	return extract(content, release+"/"+t.name, target)
}

// managerImage takes the executable of a manager of Cluster API out of the container image of that repository.
func managerImage(repository string) published {
	return func(ctx context.Context, from *publishers, _ tool, version, target string) error {
		reference, err := name.NewTag(from.registry + "/" + repository + ":" + version)
		if err != nil {
			return err
		}

		image, err := remote.Image(reference,
			remote.WithContext(ctx),
			remote.WithTransport(from.transport),
			remote.WithRetryBackoff(remote.Backoff{Steps: 1}), // what cannot be downloaded is built
			remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
		if err != nil {
			return err
		}

		// The library compares the digest of a layer when it has been read to its end.
		content := mutate.Extract(image)
		defer content.Close()

		return extract(content, "manager", target)
	}
}

// checksumOf finds the checksum of a file in lines of sha256sum.
func checksumOf(lines, file string) (string, error) {
	for scanner := bufio.NewScanner(strings.NewReader(lines)); scanner.Scan(); {
		fields := strings.Fields(scanner.Text())
		if len(fields) == 2 && strings.TrimPrefix(fields[1], "*") == file {
			return fields[0], nil
		}
	}

	return "", fmt.Errorf("the publisher has no checksum of %s", file)
}

// text gets a short file.
func (p *publishers) text(ctx context.Context, address string) (string, error) {
	body, err := p.get(ctx, address)
	if err != nil {
		return "", err
	}
	defer body.Close()

	content, err := io.ReadAll(io.LimitReader(body, maxChecksumBytes))

	return string(content), err
}

// file gets a file whose SHA-256 checksum is known, in hexadecimal digits.
func (p *publishers) file(ctx context.Context, address, checksum, target string) error {
	body, err := p.get(ctx, address)
	if err != nil {
		return err
	}
	defer body.Close()

	sum := sha256.New()
	if err := writeFile(target, io.TeeReader(body, sum)); err != nil {
		return err
	}

	if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, checksum) {
		return fmt.Errorf("%s has the SHA-256 checksum %s, and its publisher says %s", address, got, checksum)
	}

	return nil
}

// get asks for an address. The caller closes the body.
func (p *publishers) get(ctx context.Context, address string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}

	response, err := (&http.Client{Transport: p.transport}).Do(request)
	if err != nil {
		return nil, err
	}

	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("%s answered %s", address, response.Status)
	}

	return response.Body, nil
}

// extract writes one file of a tar archive, and reads the archive to its end.
func extract(content io.Reader, member, target string) error {
	found := false

	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			return err
		}

		if header.Typeflag != tar.TypeReg || path.Clean("/"+header.Name) != "/"+member {
			continue
		}

		found = true
		if err := writeFile(target, archive); err != nil {
			return err
		}
	}

	if !found {
		return fmt.Errorf("the archive has no %s", member)
	}

	_, err := io.Copy(io.Discard, content)

	return err
}

// writeFile writes all that a reader has.
func writeFile(target string, content io.Reader) error {
	file, err := os.Create(target)
	if err != nil {
		return err
	}

	_, err = io.Copy(file, content)

	return errors.Join(err, file.Close())
}
