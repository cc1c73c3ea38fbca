package image

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image/ocktest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// qcow2 returns an image with a valid header, followed by the given content.
func qcow2(what string) []byte {
	var header [104]byte
	copy(header[:], "QFI\xfb")
	binary.BigEndian.PutUint32(header[4:], 3)
	binary.BigEndian.PutUint32(header[20:], 16)
	binary.BigEndian.PutUint64(header[24:], 1<<20)

	return append(header[:], what...)
}

// quiet returns options for tests with the guestfish in testdata.
func quiet(t *testing.T, from string) Options {
	t.Helper()
	bin, err := filepath.Abs("testdata/bin")
	if err != nil {
		t.Fatal(err)
	}

	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))

	return Options{
		From:      from,
		Arch:      "amd64",
		Arguments: Arguments{Platform: "openstack"},
		Output:    filepath.Join(t.TempDir(), "node.qcow2"),
		Say:       t.Logf, Progress: func(string) func(int64, int64) { return func(int64, int64) {} },
	}
}

// alone fails if the folder has any file besides the output.
func (o Options) alone(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(o.Output))
	if err != nil {
		t.Fatal(err)
	}

	for _, entry := range entries {
		if entry.Name() != filepath.Base(o.Output) {
			t.Errorf("%s is left behind", entry.Name())
		}
	}
}

func TestDisksComeFromRegistries(t *testing.T) {
	host := ocktest.ServeRegistry(t, nil)
	boot := ocktest.File{Name: "disk/boot.qcow2", Content: qcow2("boot")}
	other := ocktest.File{Name: "./disk/node.qcow2", Content: qcow2("node")}
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise)
	ocktest.PushImage(t, host+"/olcne/ock:1.33", ocktest.NewImage(t, "amd64", ocktest.NewLayer(t, ocktest.File{
		Name: "etc/os-release",
	}), ocktest.NewLayer(t, boot, ocktest.File{
		Name:    "disk/readme",
		Content: noise,
	}), ocktest.NewLayer(t, ocktest.File{Name: "usr/disk/boot.qcow2", Content: noise})))
	ocktest.PushImage(
		t,
		host+"/olcne/ock:newer",
		ocktest.NewImage(t, "amd64", ocktest.NewLayer(t, boot), ocktest.NewLayer(t, ocktest.File{
			Name:    "disk/boot.qcow2",
			Content: qcow2("newer"),
		})),
	)
	ocktest.PushImage(t, host+"/olcne/ock:named", ocktest.NewImage(t, "amd64", ocktest.NewLayer(t, other)))
	ocktest.PushImage(t, host+"/olcne/ock:both", ocktest.NewImage(t, "amd64", ocktest.NewLayer(t, other, boot)))
	ocktest.PushImage(
		t,
		host+"/olcne/ock:several",
		ocktest.NewImage(t, "amd64", ocktest.NewLayer(t, other, ocktest.File{
			Name:    "disk/more.qcow2",
			Content: qcow2("more"),
		})),
	)
	ocktest.PushImage(t, host+"/olcne/ock:none", ocktest.NewImage(t, "amd64", ocktest.NewLayer(t, ocktest.File{
		Name: "etc/os-release",
	})))
	ocktest.PushImage(t, host+"/olcne/ock:no-disk", ocktest.NewImage(t, "amd64", ocktest.NewLayer(t, ocktest.File{
		Name:    "disk/boot.qcow2",
		Content: []byte("<html>"),
	})))
	index, err := name.ParseReference(host + "/olcne/ock:index")
	if err != nil {
		t.Fatal(err)
	}

	err = remote.WriteIndex(index, mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{
			Add: ocktest.NewImage(t, "arm64", ocktest.NewLayer(t, ocktest.File{
				Name:    "disk/boot.qcow2",
				Content: qcow2("arm64"),
			})),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}},
		},
		mutate.IndexAddendum{
			Add: ocktest.NewImage(t, "amd64", ocktest.NewLayer(t, ocktest.File{
				Name:    "disk/boot.qcow2",
				Content: qcow2("amd64"),
			})),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}},
		},
	))
	if err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct{ tag, arch, want, problem string }{
		"a disk in a layer":         {"1.33", "amd64", "boot", ""},
		"the topmost layer wins":    {"newer", "amd64", "newer", ""},
		"another name":              {"named", "amd64", "node", ""},
		"boot.qcow2 beside another": {"both", "amd64", "boot", ""},
		"two that are not boot.qcow2": {"several", "amd64", "", "node.qcow2 and more.qcow2 in disk/, but no " +
			"boot.qcow2; extract one of them"},
		"no disk":                      {"none", "amd64", "", "has neither disk/boot.qcow2"},
		"one of several architectures": {"index", "arm64", "arm64", ""},
		"the other":                    {"index", "amd64", "amd64", ""},
		"an architecture of none": {"index", "riscv64", "", "does not exist for riscv64, only for arm64, amd64; " +
			"use another --arch"},
		"one image, wrong architecture": {"1.33", "arm64", "", "does not exist for arm64, only for " +
			"amd64; use another --arch"},
		"a tag of nobody": {"9.99", "amd64", "", "image " + host + "/olcne/ock:9.99 not found in the registry; " +
			"use another version"},
	} {
		t.Run(name, func(t *testing.T) {
			o := quiet(t, host+"/olcne/ock:"+test.tag)
			o.Arch = test.arch
			err := o.fetchDisk(t.Context(), o.Output)
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Fatalf("got %v, want %s", err, test.problem)
				}

				return
			}

			if err != nil {
				t.Fatal(err)
			}

			if got, err := os.ReadFile(o.Output); err != nil || !bytes.Equal(got, qcow2(test.want)) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestImagesThatAreAltered(t *testing.T) {
	compressed := func(what string) (v1.Layer, []byte) {
		made := ocktest.NewLayer(t, ocktest.File{
			Name:    "disk/boot.qcow2",
			Content: qcow2(what),
		}, ocktest.File{Name: "padding", Content: make([]byte, 4096)})
		blob, err := made.Compressed()
		if err != nil {
			t.Fatal(err)
		}

		content, err := io.ReadAll(blob)
		if err != nil {
			t.Fatal(err)
		}

		return made, content
	}
	good, content := compressed("good")

	var evil []byte // it has the same length, and is valid in itself
	for i := 0; len(evil) != len(content); i++ {
		_, evil = compressed(fmt.Sprintf("ev%02d", i))
	}

	digest, err := good.Digest()
	if err != nil {
		t.Fatal(err)
	}

	host := ocktest.ServeRegistry(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, digest.String()) {
				_, _ = w.Write(evil)
				return
			}

			next.ServeHTTP(w, r)
		})
	})
	ocktest.PushImage(t, host+"/olcne/ock:1.33", ocktest.NewImage(t, "amd64", good))
	o := quiet(t, host+"/olcne/ock:1.33")
	if err := Create(t.Context(), o); err == nil || !strings.Contains(err.Error(), "error verifying") {
		t.Errorf("it is taken: %v", err)
	}

	if _, err := os.Stat(o.Output); err == nil {
		t.Error("there is an image")
	}

	o.alone(t)
}

func TestRegistriesWithALogin(t *testing.T) {
	const user, password = "someone", "pass-of-someone"
	host := ocktest.ServeRegistry(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if u, p, _ := r.BasicAuth(); r.Method == http.MethodGet && (u != user || p != password) {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}

			next.ServeHTTP(w, r)
		})
	})
	config := filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json")
	login := func(password string) {
		err := os.WriteFile(
			config,
			fmt.Appendf(nil, `{"auths": {%q: {"username": %q, "password": %q}}}`, host, user, password),
			0o600,
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	login(password)
	o := quiet(t, host+"/olcne/ock:1.33")
	ocktest.PushImage(t, o.From, ocktest.NewImage(t, "amd64", ocktest.NewLayer(t, ocktest.File{
		Name:    "disk/boot.qcow2",
		Content: qcow2("boot"),
	})), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err := Create(t.Context(), o); err != nil {
		t.Errorf("with the login: %v", err)
	}

	login("wrong-" + password)
	o.Force = true
	err := Create(t.Context(), o)
	check.Error(t, err, "log in with podman login "+host)
	check.Lacks(t, "err.Error()", err.Error(), password)
}

func TestDisksComeFromFiles(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "ock.tar")
	tag, err := name.NewTag("example.com/olcne/ock:1.33")
	if err != nil {
		t.Fatal(err)
	}

	err = tarball.WriteToFile(archive, tag, ocktest.NewImage(t, "amd64", ocktest.NewLayer(t, ocktest.File{
		Name:    "disk/boot.qcow2",
		Content: qcow2("saved"),
	})))
	if err != nil {
		t.Fatal(err)
	}

	disk := filepath.Join(dir, "boot.qcow2")
	raw := filepath.Join(dir, "boot.raw")
	backed := filepath.Join(dir, "backed.qcow2")
	empty := filepath.Join(dir, "empty.qcow2")
	withBacking := qcow2("")

	withBacking[15] = 1
	for path, content := range map[string][]byte{
		disk:   qcow2("disk"),
		raw:    make([]byte, 4096),
		backed: withBacking,
		empty:  nil,
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	for name, test := range map[string]struct{ from, problem string }{
		"an archive of docker save": {archive, ""},
		"a qcow2 image":             {disk, ""},
		"a raw image":               {raw, ""},
		"one with a backing file":   {backed, "has a backing file"},
		"one without anything":      {empty, "the image is empty"},
		"a folder":                  {dir, "is a folder"},
		"a file that is not there": {filepath.Join(dir, "absent.qcow2"), "is neither an existing file " +
			"nor the full reference of a container image"},
		"a reference without a registry": {"olcne/ock:1.33", "is neither an existing file"},
		"a reference without a tag":      {"registry.example.com/olcne/ock", "is neither an existing file"},
	} {
		t.Run(name, func(t *testing.T) {
			o := quiet(t, test.from)
			err := Create(t.Context(), o)
			o.alone(t)
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Errorf("got %v, want %s", err, test.problem)
				}

				return
			}

			if err != nil {
				t.Fatal(err)
			}

			entry, err := os.ReadFile(o.Output) // the guestfish in testdata has written it
			if err != nil ||
				!strings.Contains(
					string(entry),
					"rd.neednet=1 ignition.platform.id=openstack ignition.firstboot=1 "+
						"crashkernel=auto console=tty0 root=",
				) {
				t.Errorf("%q, %v", entry, err)
			}
		})
	}

	if content, err := os.ReadFile(disk); err != nil || !bytes.Equal(content, qcow2("disk")) {
		t.Errorf("the original is %q now, %v", content, err)
	}
}

func TestWhatIsThereStays(t *testing.T) {
	o := quiet(t, "/nowhere")
	if err := os.WriteFile(o.Output, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}

	err := Create(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "already exists; use another name, or overwrite it with --force") {
		t.Errorf("without --force: %v", err)
	}

	o.Force = true
	if err := Create(t.Context(), o); err == nil {
		t.Error("it is made of nothing")
	}

	if content, err := os.ReadFile(o.Output); err != nil || string(content) != "mine" {
		t.Errorf("it is %q, %v", content, err)
	}

	o.alone(t)
}

// program puts a guestfish on PATH. Otherwise PATH has only the programs of the system.
func program(t *testing.T, script string) {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "guestfish"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}

	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
}

func TestGuestfishThatDoesNot(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "boot.qcow2")
	if err := os.WriteFile(disk, qcow2(""), 0o600); err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct{ script, problem string }{
		"it fails at once":        {"echo no appliance here >&2; exit 1", "no appliance here"},
		"it ends without a word":  {"exit 3", "exit status 3"},
		"it fails at its end":     {`while read -r c rest; do case $c in echo) echo "$rest" ;; list-filesystems) exit 0;; esac; done`, "guestfish exited during list-filesystems"},
		"an image of other kinds": {`while read -r c rest; do case $c in echo) echo "$rest" ;; list-filesystems) echo "/dev/sda1: ext4"; echo "/dev/sda2: swap" ;; esac; done`, "no boot loader entries"},
	} {
		t.Run(name, func(t *testing.T) {
			o := quiet(t, disk)
			program(t, test.script)
			if err := Create(t.Context(), o); err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("got %v, want %s", err, test.problem)
			}

			if _, err := os.Stat(o.Output); err == nil {
				t.Error("there is an image")
			}

			o.alone(t)
		})
	}

	t.Run("it is not there", func(t *testing.T) {
		o := quiet(t, "registry.invalid/olcne/ock:1.33")
		t.Setenv("PATH", t.TempDir())
		err := Create(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), "dnf install /usr/bin/guestfish, or apt install guestfish") {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnInterruptLeavesNothing(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "boot.qcow2")
	if err := os.WriteFile(disk, qcow2(""), 0o600); err != nil {
		t.Fatal(err)
	}

	t.Run("while a file is copied", func(t *testing.T) {
		o := quiet(t, disk)
		ctx, cancel := context.WithCancel(t.Context())
		o.Progress = func(string) func(int64, int64) { return func(int64, int64) { cancel() } }
		if err := Create(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}

		o.alone(t)
	})
	t.Run("while guestfish works", func(t *testing.T) {
		o := quiet(t, disk)
		program(
			t,
			`while read -r c rest; do case $c in run) touch "$BUSY"; cat >/dev/null; touch "$ENDED"; exit ;; esac; done`,
		)
		busy, ended := filepath.Join(t.TempDir(), "busy"), filepath.Join(t.TempDir(), "ended")
		t.Setenv("BUSY", busy)
		t.Setenv("ENDED", ended)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			wait.For(t, "guestfish works", func() error {
				_, err := os.Stat(busy)
				return err
			})
			cancel()
		}()
		if err := Create(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}

		if _, err := os.Stat(ended); err != nil {
			t.Error("guestfish was not let to its end")
		}

		o.alone(t)
	})
}
