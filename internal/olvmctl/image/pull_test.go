package image

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image/ocktest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// pullAsItIs pulls an image as it is, and returns the content of the disk and its file.
func pullAsItIs(t *testing.T, from, arch, folder string) (content, file string) {
	t.Helper()
	o := quiet(t, from)
	o.Arch, o.Arguments = arch, Arguments{}
	file, err := o.Pull(t.Context(), folder)
	check.Error(t, err, "")

	disk, err := os.ReadFile(file)
	check.Error(t, err, "")

	return string(disk), file
}

// pushBootDisk pushes an image with a boot disk, and returns its reference.
func pushBootDisk(t *testing.T, host, tag, arch, disk string) string {
	t.Helper()
	reference := host + "/nodes/" + tag
	ocktest.PushImage(t, reference, ocktest.NewImage(t, arch, ocktest.NewLayer(t, ocktest.File{
		Name: "disk/boot.qcow2", Content: qcow2(disk),
	})))

	return reference
}

// TestADiskIsPulledOnceForEachDigest has a registry that counts the downloads of layers.
func TestADiskIsPulledOnceForEachDigest(t *testing.T) {
	var downloads atomic.Int32
	host := ocktest.ServeRegistry(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
				downloads.Add(1)
			}

			next.ServeHTTP(w, r)
		})
	})
	folder := filepath.Join(t.TempDir(), "images")
	from := pushBootDisk(t, host, "node:1.36", "arm64", "first")

	disk, first := pullAsItIs(t, from, "arm64", folder)
	check.Equal(t, "the disk", disk, string(qcow2("first")))

	before := downloads.Load()
	_, again := pullAsItIs(t, from, "arm64", folder)
	check.Equal(t, "the file", again, first)
	check.Equal(t, "downloads of an image that is there, but for its configuration", downloads.Load()-before, int32(1))

	pushBootDisk(t, host, "node:1.36", "arm64", "second")
	disk, second := pullAsItIs(t, from, "arm64", folder)
	check.Equal(t, "the disk of a tag that has moved", disk, string(qcow2("second")))
	check.Equal(t, "it is another file", second != first, true)

	entries, err := os.ReadDir(folder)
	check.Error(t, err, "")
	check.Length(t, "files", entries, 2)
}

func TestADiskIsPulledForItsArchitectureAlone(t *testing.T) {
	host := ocktest.ServeRegistry(t, nil)
	o := quiet(t, pushBootDisk(t, host, "node:1.36", "amd64", "disk"))
	o.Arch, o.Arguments = "arm64", Arguments{}

	folder := filepath.Join(t.TempDir(), "images")
	_, err := o.Pull(t.Context(), folder)
	check.Error(t, err, "does not exist for arm64, only for amd64")

	o.Arch = "amd64"
	o.From = host + "/nodes/node:none"
	_, err = o.Pull(t.Context(), folder)
	check.Error(t, err, "image "+o.From+" not found in the registry")

	_, err = os.Stat(folder)
	check.Equal(t, "nothing is written", os.IsNotExist(err), true)
}

// TestAPulledImageOfOCKGetsItsPlatform has guestfish edit the disk, beside one that stays as it is.
func TestAPulledImageOfOCKGetsItsPlatform(t *testing.T) {
	host := ocktest.ServeRegistry(t, nil)
	from := pushBootDisk(t, host, "ock:1.33", "amd64", "disk")
	folder := t.TempDir()
	plain, _ := pullAsItIs(t, from, "amd64", folder)

	o := quiet(t, from)
	o.Arguments = Arguments{Platform: OracleCloud, KeepConsole: true}
	file, err := o.Pull(t.Context(), folder)
	check.Error(t, err, "")
	check.Contains(t, "the file", filepath.Base(file), "-amd64-oraclecloud.qcow2")

	edited, err := os.ReadFile(file)
	check.Error(t, err, "")
	check.Equal(t, "guestfish has edited it", string(edited) != plain, true)
}

func TestWhatIsAReference(t *testing.T) {
	t.Chdir(t.TempDir())
	check.Error(t, os.MkdirAll("registry.example.com", 0o755), "")
	check.Error(t, os.WriteFile("registry.example.com/ock:1.33", nil, 0o600), "")

	for text, want := range map[string][2]bool{
		"container-registry.oracle.com/olcne/ock:1.33":        {true, true},
		"container-registry.oracle.com/olcne/ock-ostree:1.33": {true, true},
		"registry.example.com:5000/nodes/ubuntu:1.36":         {true, false},
		"registry.example.com/stock:1.33":                     {true, false},
		"registry.example.com/ock:1.33":                       {false, true}, // it is a file here
		"node-arm.qcow2":                                      {false, false},
		"/images/node.qcow2":                                  {false, false},
		"olcne/ock":                                           {false, false},
		"":                                                    {false, false},
	} {
		check.Equal(t, text, [2]bool{IsReference(text), IsOCK(text)}, want)
	}
}

// TestRegistriesAreReachedThroughTheProxyOfTheEnvironment looks at the library: a proxy never serves loopback.
func TestRegistriesAreReachedThroughTheProxyOfTheEnvironment(t *testing.T) {
	transport, ok := remote.DefaultTransport.(*http.Transport)
	check.Equal(t, "the library has a transport of HTTP", ok, true)
	check.Equal(t, "its proxy is that of the environment", reflect.ValueOf(transport.Proxy).Pointer(),
		reflect.ValueOf(http.ProxyFromEnvironment).Pointer())
}
