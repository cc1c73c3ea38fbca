package toolchain

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// planeVersions are the versions of the plane's modules in these tests.
var planeVersions = map[string]string{
	"k8s.io/kubernetes": "v1.36.3", "go.etcd.io/etcd/server/v3": "v3.6.16", "sigs.k8s.io/cluster-api": "v1.14.2",
}

// TestDownload downloads the tools of the plane from a publisher in this process. Tools that are missing or not
// trustworthy are not installed, and remain to be built.
func TestDownload(t *testing.T) {
	published := []string{"kube-apiserver", "kube-controller-manager", "kubectl"}

	cases := map[string]struct {
		spoil func(files map[string]string, from *publisher)
		left  []string
		said  string
	}{
		"all are published": {spoil: func(map[string]string, *publisher) {}},
		"a checksum differs": {
			spoil: func(files map[string]string, _ *publisher) { files[kubernetesFile("kubectl")] = "evil" },
			left:  []string{"kubectl"},
			said:  "has the SHA-256 checksum",
		},
		"a checksum is not known, and the publisher has one": {
			spoil: func(files map[string]string, from *publisher) {
				files[kubernetesFile("kubectl")] = "evil"
				files[kubernetesFile("kubectl")+".sha256"] = fmt.Sprintf("%x", sha256.Sum256([]byte("evil")))
				delete(from.checksums, strings.TrimPrefix(kubernetesFile("kubectl"), "/"))
			},
			left: []string{"kubectl"},
		},
		"a version is not published": {
			spoil: func(files map[string]string, _ *publisher) { delete(files, kubernetesFile("kube-apiserver")) },
			left:  []string{"kube-apiserver"},
			said:  "404 Not Found",
		},
	}

	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			from, files := publish(t, published)
			c.spoil(files, from)
			var said []string
			tools := &Toolchain{publisher: from, Progress: func(format string, args ...any) {
				said = append(said, fmt.Sprintf(format, args...))
			}}
			dir := t.TempDir()

			left := tools.downloadTools(t.Context(), dir, modules["plane"], planeVersions)

			for _, tool := range left {
				_, err := os.Stat(filepath.Join(dir, tool.name))
				check.Equal(t, tool.name+" is left to build, and not there", os.IsNotExist(err), true)
			}

			isLeft := func(name string) bool {
				return slices.ContainsFunc(left, func(t tool) bool { return t.name == name })
			}

			for _, name := range append([]string{"etcd", "capi-core"}, c.left...) {
				check.Equal(t, name+" is left to build", isLeft(name), true)
			}

			check.Contains(t, "what it says", strings.Join(said, "\n"), c.said)
			if len(c.left) > 0 {
				return
			}

			for _, name := range published {
				check.Equal(t, name+" is left to build", isLeft(name), false)
				checkExecutable(t, filepath.Join(dir, name), name)
			}

			rest, err := filepath.Glob(filepath.Join(dir, ".*"))
			check.Equal(t, "error", err, nil)
			check.Equal(t, "temporary files", len(rest), 0)
		})
	}
}

// TestDownloadWithoutNetwork verifies that all tools remain to be built if the publisher is unreachable.
func TestDownloadWithoutNetwork(t *testing.T) {
	var said []string
	from := defaultPublisher()
	from.transport = roundTripper(func(*http.Request) (*http.Response, error) { return nil, os.ErrDeadlineExceeded })
	tools := &Toolchain{publisher: from, Progress: func(format string, args ...any) {
		said = append(said, fmt.Sprintf(format, args...))
	}}

	left := tools.downloadTools(t.Context(), t.TempDir(), modules["plane"], planeVersions)

	check.Equal(t, "tools left to build", len(left), len(modules["plane"]))
	check.Equal(t, "lines", len(said), 1)
	check.Contains(t, "what it says", said[0], "building what cannot be downloaded")
	check.Equal(t, "a module without a publisher", len(tools.downloadTools(t.Context(), "", modules["dev"], nil)), 1)
}

// TestWhatIsDownloadedHasAChecksum compares checksums.txt with the versions of Kubernetes in the tools modules.
func TestWhatIsDownloadedHasAChecksum(t *testing.T) {
	known, digest := readChecksums(checksumFile), regexp.MustCompile("^[0-9a-f]{64}$")
	used := map[string]bool{}

	for module, tools := range modules {
		if !slices.ContainsFunc(tools, func(t tool) bool { return t.published }) {
			continue
		}

		version := requiredVersion(t, module, "k8s.io/kubernetes")

		for _, tool := range tools {
			for _, architecture := range []string{"amd64", "arm64"} {
				if !tool.published {
					continue
				}

				file := fmt.Sprintf("%s/bin/linux/%s/%s", version, architecture, tool.name)
				used[file] = true

				if !digest.MatchString(known[file]) {
					t.Errorf("checksums.txt has no SHA-256 checksum of %s, but %q", file, known[file])
				}
			}
		}
	}

	for file := range known {
		if !used[file] {
			t.Errorf("checksums.txt has %s, which nothing downloads", file)
		}
	}
}

// requiredVersion returns the version of a Go module that a tools module requires.
func requiredVersion(t *testing.T, module, path string) string {
	t.Helper()
	name := filepath.Join("..", "..", "hack", "tools", module, "go.mod")
	content, err := os.ReadFile(name)
	check.Error(t, err, "")
	file, err := modfile.Parse(name, content, nil)
	check.Error(t, err, "")

	for _, require := range file.Require {
		if require.Mod.Path == path {
			return require.Mod.Version
		}
	}

	t.Fatalf("%s does not require %s", name, path)

	return ""
}

// TestImagesOfTheDockerfileHaveDigests reads the images from which the manager's image is built.
func TestImagesOfTheDockerfileHaveDigests(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	check.Error(t, err, "")

	pinned := regexp.MustCompile(`^ARG [A-Z]+_IMAGE=[^@ ]+:[^@ ]+@sha256:[0-9a-f]{64}$`)
	inArgument := regexp.MustCompile(`^FROM (--platform=\$BUILDPLATFORM )?(\$\{[A-Z]+_IMAGE\}|source|scratch|executor-\$\{EXECUTOR\})( AS [a-z-]+)?$`)
	arguments := 0

	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)

		switch {
		case strings.HasPrefix(line, "ARG ") && strings.Contains(line, "_IMAGE"):
			arguments++

			if !pinned.MatchString(line) {
				t.Errorf("%s has no digest", line)
			}
		case strings.HasPrefix(line, "FROM ") && !inArgument.MatchString(line):
			t.Errorf("%s names an image; use an argument with a digest", line)
		}
	}

	check.Equal(t, "images", arguments, 3)
	check.Contains(t, "the Dockerfile's Terraform", string(content), "hashicorp/terraform:"+terraformVersion+"@")
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
	return "/v1.36.3/bin/linux/" + runtime.GOARCH + "/" + name
}

// publish serves files whose content is the name of their tool. Tests may change the files.
func publish(t *testing.T, names []string) (*publisher, map[string]string) {
	t.Helper()
	files, checksums := map[string]string{}, map[string]string{}

	for _, name := range names {
		files[kubernetesFile(name)] = name
		checksums[strings.TrimPrefix(kubernetesFile(name), "/")] = fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
	}

	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if content, ok := files[r.URL.Path]; ok {
			_, _ = w.Write([]byte(content))
			return
		}

		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)

	return &publisher{address: server.URL, checksums: checksums, transport: server.Client().Transport}, files
}
