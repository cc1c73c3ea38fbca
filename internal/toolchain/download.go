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
	// connectTimeout is the maximum time for connecting to a publisher. It is short, because a machine without internet
	// access should start to build soon.
	connectTimeout = 5 * time.Second
	// headerTimeout is the maximum time until a publisher starts to answer.
	headerTimeout = 15 * time.Second
	// downloadTimeout is the maximum time for all downloads of a module. On two cores, building takes no longer.
	downloadTimeout = 5 * time.Minute
	// downloadsAtOnce is the number of simultaneous downloads.
	downloadsAtOnce = 4
)

// publisher is the place where Kubernetes publishes its executables.
type publisher struct {
	// address is the URL of a folder with a subfolder for each version.
	address string
	// checksums holds the checksums of the files, by their paths below the address.
	checksums map[string]string
	transport http.RoundTripper
}

// checksumFile contains the checksums of all files that may be downloaded, in the format of sha256sum.
//
//go:embed checksums.txt
var checksumFile string

// defaultPublisher returns the publisher of Kubernetes itself. Connections use the proxy of the environment
// (HTTPS_PROXY).
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

// readChecksums returns the checksums in a text by the names of the files.
func readChecksums(content string) map[string]string {
	out := map[string]string{}

	for line := range strings.Lines(content) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] != "#" {
			out[fields[1]] = fields[0]
		}
	}

	return out
}

// buildPath returns the path of a tool below the address of its publisher.
func buildPath(t tool, version string) string {
	return fmt.Sprintf("%s/bin/linux/%s/%s", version, runtime.GOARCH, t.name)
}

// hasChecksum reports whether the checksum of a tool is known, so that it may be downloaded.
func (p *publisher) hasChecksum(t tool, version string) bool {
	return t.published && p.checksums[buildPath(t, version)] != ""
}

// downloadTools downloads tools from their publisher, and returns the tools that remain to be built. These are all
// tools without a known checksum. After the first failure, they also include all tools that are not downloaded yet.
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

// downloadTool writes a tool next to its final place and then renames it. Therefore, an interrupted download leaves
// nothing that looks complete.
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

// downloadFile downloads a file and verifies its checksum.
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

// openURL requests a URL and returns the body of the response. The caller must close the body.
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

// writeFile writes the whole content of a reader to a file.
func writeFile(target string, content io.Reader) error {
	file, err := os.Create(target)
	if err != nil {
		return err
	}

	_, err = io.Copy(file, content)

	return errors.Join(err, file.Close())
}
