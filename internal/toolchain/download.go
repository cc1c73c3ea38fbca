package toolchain

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

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
)

// publisher is where Kubernetes publishes its executables.
type publisher struct {
	// address of the folder with a folder per version.
	address string
	// checksums are those of the files, by the path below the address.
	checksums map[string]string
	transport http.RoundTripper
}

// checksumFile has the checksums of all files that may be downloaded, as sha256sum writes them.
//
//go:embed checksums.txt
var checksumFile string

// defaultPublisher is that of the project itself, reached as the environment says (HTTPS_PROXY).
func defaultPublisher() *publisher {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	transport.TLSHandshakeTimeout = connectTimeout
	transport.ResponseHeaderTimeout = headerTimeout

	return &publisher{
		address:   "https://dl.k8s.io/release",
		checksums: readChecksums(checksumFile),
		transport: transport,
	}
}

// readChecksums reads checksums by file.
func readChecksums(content string) map[string]string {
	out := map[string]string{}

	for line := range strings.Lines(content) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] != "#" {
			out[fields[1]] = fields[0]
		}
	}

	return out
}

// buildPath is the path of a tool below the address of its publisher.
func buildPath(t tool, version string) string {
	return fmt.Sprintf("%s/bin/linux/%s/%s", version, runtime.GOARCH, t.name)
}

// hasChecksum reports whether a tool may be downloaded.
func (p *publisher) hasChecksum(t tool, version string) bool {
	return t.published && p.checksums[buildPath(t, version)] != ""
}

// downloadTools gets tools from their publisher, and returns those that are left to build: all whose checksum is not
// known, and after the first failure all that were not there by then.
func (t *Toolchain) downloadTools(ctx context.Context, dir string, missing []tool, versions map[string]string) []tool {
	isKnown := func(tool tool) bool { return t.publisher.hasChecksum(tool, versions[tool.module]) }
	if !slices.ContainsFunc(missing, isKnown) {
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
		if !isKnown(tool) {
			continue
		}

		group.Go(func() error { return t.downloadTool(ctx, dir, tool, versions[tool.module]) })
	}

	if err := t.runWithHeartbeat("downloading tools", group.Wait); err != nil {
		t.reportProgress("building what cannot be downloaded: %v", err)
	}

	var left []tool

	for _, tool := range missing {
		if _, err := os.Stat(filepath.Join(dir, tool.name)); err != nil {
			left = append(left, tool)
		}
	}

	if got := len(missing) - len(left); got > 0 {
		t.reportProgress("downloaded %d tools in %.0f s", got, time.Since(begin).Seconds())
	}

	return left
}

// downloadTool writes a tool beside its place and renames it: an interrupted download leaves nothing that looks whole.
func (t *Toolchain) downloadTool(ctx context.Context, dir string, tool tool, version string) error {
	temporary := filepath.Join(dir, fmt.Sprintf(".download.%s.%d", tool.name, os.Getpid()))
	defer os.Remove(temporary)

	if err := t.publisher.downloadFile(ctx, buildPath(tool, version), temporary); err != nil {
		return fmt.Errorf("failed to download %s %s: %w", tool.name, version, err)
	}

	if err := os.Chmod(temporary, 0o755); err != nil {
		return fmt.Errorf("failed to make %s executable: %w", tool.name, err)
	}

	return os.Rename(temporary, filepath.Join(dir, tool.name))
}

// downloadFile gets a file whose checksum is known.
func (p *publisher) downloadFile(ctx context.Context, file, target string) error {
	body, err := p.openURL(ctx, p.address+"/"+file)
	if err != nil {
		return err
	}
	defer body.Close()

	sum := sha256.New()
	if err := writeFile(target, io.TeeReader(body, sum)); err != nil {
		return err
	}

	if got := hex.EncodeToString(sum.Sum(nil)); got != p.checksums[file] {
		return fmt.Errorf("%s/%s has the SHA-256 checksum %s, and not %s", p.address, file, got, p.checksums[file])
	}

	return nil
}

// openURL asks for an address. The caller closes the body.
func (p *publisher) openURL(ctx context.Context, address string) (io.ReadCloser, error) {
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

// writeFile writes all that a reader has.
func writeFile(target string, content io.Reader) error {
	file, err := os.Create(target)
	if err != nil {
		return err
	}

	_, err = io.Copy(file, content)

	return errors.Join(err, file.Close())
}
