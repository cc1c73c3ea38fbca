package toolchain

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// planeVersions are versions of the modules of the plane for these tests.
var planeVersions = map[string]string{
	"k8s.io/kubernetes": "v1.36.3", "go.etcd.io/etcd/server/v3": "v3.6.16", "sigs.k8s.io/cluster-api": "v1.14.2",
}

// TestDownload gets the tools of the plane from publishers of this process. The last case of each kind is what cannot
// be trusted or is not there: it must not be installed, and must be left to build.
func TestDownload(t *testing.T) {
	all := []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kubectl",
		"capi-core", "capi-bootstrap-kubeadm", "capi-controlplane-kubeadm",
	}

	cases := map[string]struct {
		spoil func(files map[string][]byte)
		left  []string
		said  string
	}{
		"all are published": {spoil: func(map[string][]byte) {}},
		"a checksum differs": {
			spoil: func(files map[string][]byte) { files[kubernetesFile("kubectl")] = []byte("evil") },
			left:  []string{"kubectl"},
			said:  "has the SHA-256 checksum",
		},
		"etcd's archive differs": {
			spoil: func(files map[string][]byte) { files[etcdFile()] = archiveOf(t, "etcd", "evil") },
			left:  []string{"etcd"},
			said:  "has the SHA-256 checksum",
		},
		"etcd's checksum is not there": {
			spoil: func(files map[string][]byte) { files["/etcd/v3.6.16/SHA256SUMS"] = []byte("00  other.tar.gz\n") },
			left:  []string{"etcd"},
			said:  "the publisher has no checksum of etcd-v3.6.16",
		},
		"a version is not published": {
			spoil: func(files map[string][]byte) { delete(files, kubernetesFile("kube-apiserver")) },
			left:  []string{"kube-apiserver"},
			said:  "404 Not Found",
		},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			from, files := publish(t)
			c.spoil(files)
			var said []string
			tools := &Toolchain{publishers: from, Progress: func(format string, args ...any) {
				said = append(said, fmt.Sprintf(format, args...))
			}}
			dir := t.TempDir()

			left := tools.download(t.Context(), dir, modules["plane"], planeVersions)

			for _, tool := range left {
				if _, err := os.Stat(filepath.Join(dir, tool.name)); err == nil {
					t.Errorf("%s is left to build, and is there", tool.name)
				}
			}

			for _, name := range c.left {
				check.Equal(t, name+" is left to build", slices.ContainsFunc(left, func(t tool) bool {
					return t.name == name
				}), true)
			}

			check.Contains(t, "what it says", strings.Join(said, "\n"), c.said)
			if len(c.left) > 0 {
				return
			}

			check.Equal(t, "tools left to build", len(left), 0)

			for _, name := range all {
				checkExecutable(t, filepath.Join(dir, name), name)
			}

			rest, err := filepath.Glob(filepath.Join(dir, ".*"))
			check.Equal(t, "error", err, nil)
			check.Equal(t, "temporary files", len(rest), 0)
		})
	}
}

// TestDownloadOfALayerThatChangedOnItsWay has a registry that answers with other bytes than its manifest says.
func TestDownloadOfALayerThatChangedOnItsWay(t *testing.T) {
	from, _ := publish(t)
	inner := from.transport
	from.transport = roundTripper(func(request *http.Request) (*http.Response, error) {
		response, err := inner.RoundTrip(request)
		if err != nil || !strings.Contains(request.URL.Path, "/blobs/") {
			return response, err
		}

		content, err := io.ReadAll(response.Body)
		if bytes.HasPrefix(content, []byte{0x1f, 0x8b}) { // a layer
			evil := compressed(t, tarOf(t, "manager", "capi-evil"))
			check.Equal(t, "size of the changed layer", len(evil), len(content))
			content = evil
		}

		response.Body = io.NopCloser(bytes.NewReader(content))

		return response, err
	})
	tools := &Toolchain{publishers: from}
	target := filepath.Join(t.TempDir(), "capi-core")

	err := tools.downloadTool(t.Context(), filepath.Dir(target), capiManager("capi-core", "core",
		"cluster-api-controller"), "v1.14.2")

	check.Error(t, err, "failed to download capi-core v1.14.2: verifying layer: error verifying")
	_, err = os.Stat(target)
	check.Equal(t, "there is no file", os.IsNotExist(err), true)
}

// TestDownloadWithoutNetwork leaves all tools to build when the first publisher cannot be reached.
func TestDownloadWithoutNetwork(t *testing.T) {
	var said []string
	from := defaultPublishers()
	from.transport = roundTripper(func(*http.Request) (*http.Response, error) { return nil, os.ErrDeadlineExceeded })
	tools := &Toolchain{publishers: from, Progress: func(format string, args ...any) {
		said = append(said, fmt.Sprintf(format, args...))
	}}

	left := tools.download(t.Context(), t.TempDir(), modules["plane"], planeVersions)

	check.Equal(t, "tools left to build", len(left), len(modules["plane"]))
	check.Equal(t, "lines", len(said), 1)
	check.Contains(t, "what it says", said[0], "building what cannot be downloaded")
	check.Equal(t, "a module without publishers", len(tools.download(t.Context(), "", modules["dev"], nil)), 1)
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func checkExecutable(t *testing.T, path, want string) {
	t.Helper()
	content, err := os.ReadFile(path)
	check.Equal(t, "error", err, nil)
	check.Equal(t, "content of "+want, string(content), want)
	info, err := os.Stat(path)
	check.Equal(t, "error", err, nil)
	check.Equal(t, "mode of "+want, info.Mode().Perm(), os.FileMode(0o755))
}

func kubernetesFile(name string) string {
	return "/kubernetes/v1.36.3/bin/linux/" + runtime.GOARCH + "/" + name
}

func etcdFile() string {
	return "/etcd/v3.6.16/etcd-v3.6.16-linux-" + runtime.GOARCH + ".tar.gz"
}

// publish serves files and images whose content is the name of the tool. The files may be changed.
func publish(t *testing.T) (*publishers, map[string][]byte) {
	t.Helper()
	files := map[string][]byte{etcdFile(): archiveOf(t, "etcd", "etcd")}
	sums := fmt.Sprintf("%x  %s\n", sha256.Sum256(files[etcdFile()]), filepath.Base(etcdFile()))
	files["/etcd/v3.6.16/SHA256SUMS"] = []byte("00  etcd-v3.6.16-linux-s390x.tar.gz\n" + sums)

	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kubectl"} {
		files[kubernetesFile(name)] = []byte(name)
		files[kubernetesFile(name)+".sha256"] = fmt.Appendf(nil, "%x", sha256.Sum256([]byte(name)))
	}

	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[r.URL.Path]

		switch {
		case strings.HasPrefix(r.URL.Path, "/v2/"):
			images.ServeHTTP(w, r)
		case ok:
			_, _ = w.Write(content)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	from := &publishers{
		kubernetes: server.URL + "/kubernetes",
		etcd:       server.URL + "/etcd",
		registry:   strings.TrimPrefix(server.URL, "https://"),
		transport:  server.Client().Transport,
	}

	for image, content := range map[string]string{
		"cluster-api-controller":           "capi-core",
		"kubeadm-bootstrap-controller":     "capi-bootstrap-kubeadm",
		"kubeadm-control-plane-controller": "capi-controlplane-kubeadm",
	} {
		pushManager(t, from, "cluster-api/"+image, content)
	}

	return from, files
}

// pushManager pushes an image for two architectures. That of another architecture has another content.
func pushManager(t *testing.T, from *publishers, repository, content string) {
	t.Helper()
	reference, err := name.NewTag(from.registry + "/" + repository + ":v1.14.2")
	check.Equal(t, "error", err, nil)
	index := v1.ImageIndex(empty.Index)

	for architecture, content := range map[string]string{runtime.GOARCH: content, "s390x": "another architecture"} {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(tarOf(t, "manager", content))), nil
		})
		check.Equal(t, "error", err, nil)
		image, err := mutate.AppendLayers(empty.Image, layer)
		check.Equal(t, "error", err, nil)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}

	check.Equal(t, "error", remote.WriteIndex(reference, index, remote.WithTransport(from.transport)), nil)
}

// archiveOf is the archive of a release of etcd.
func archiveOf(t *testing.T, name, content string) []byte {
	t.Helper()
	return compressed(t, tarOf(t, "etcd-v3.6.16-linux-"+runtime.GOARCH+"/"+name, content))
}

func compressed(t *testing.T, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	writer, err := gzip.NewWriterLevel(&out, gzip.BestSpeed) // as layers of images are compressed
	check.Equal(t, "error", err, nil)
	_, err = writer.Write(content)
	check.Equal(t, "error", err, nil)
	check.Equal(t, "error", writer.Close(), nil)

	return out.Bytes()
}

// tarOf is an archive with one file.
func tarOf(t *testing.T, file, content string) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	check.Equal(t, "error", writer.WriteHeader(&tar.Header{Name: file, Size: int64(len(content)), Mode: 0o755}), nil)
	_, err := writer.Write([]byte(content))
	check.Equal(t, "error", err, nil)
	check.Equal(t, "error", writer.Close(), nil)

	return out.Bytes()
}
