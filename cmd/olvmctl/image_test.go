package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image"
	"github.com/capolvm/cluster-api-provider-olvm/internal/ovirtsim"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/wait"
)

// rawImage returns a file with a raw image of 3 MiB.
func rawImage(t *testing.T) (path, sum string) {
	t.Helper()
	content := make([]byte, 3<<20)
	copy(content, "an image of nodes")
	content[510], content[511] = 0x55, 0xaa // a boot sector
	path = filepath.Join(t.TempDir(), "node.raw")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}

	whole := sha256.Sum256(content)

	return path, hex.EncodeToString(whole[:])
}

// uploadOf returns the arguments to upload a file to the disk "node".
func (s *site) uploadOf(path string) []string {
	return []string{"image", "upload", path, "--storage-domain", "olvm-data", "--disk", "node",
		"--server", s.sim.URL(), "--ca-file", s.caFile}
}

// leftovers returns the names of all disks and VMs in the engine.
func (s *site) leftovers() string {
	s.t.Helper()

	var out []string
	for _, vm := range s.sim.ListVMs() {
		out = append(out, "VM "+vm.Name)
	}

	for _, disk := range s.sim.ListDisks() {
		out = append(out, "disk "+disk.Name)
	}

	return strings.Join(out, ", ")
}

func TestAnImageBecomesATemplate(t *testing.T) {
	s := newSite(t)
	t.Setenv("OCNE_DEFAULTS", "")
	path, sum := rawImage(t)
	server := []string{"--server", s.sim.URL(), "--ca-file", s.caFile}
	code, id, problems := s.run(
		"",
		append(
			[]string{
				"image", "template", "--file", path, "--sha256", sum, "--name", "mine-1.36", "--cluster", "Default",
				"--storage-domain", "olvm-data", "--os-type", "other_linux", "--size", "25GB",
			},
			server...)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, problems)
	}

	for _, want := range []string{"uploading node.raw: 3 of 3 MiB", "creating the template mine-1.36"} {
		if !strings.Contains(problems, want) {
			t.Errorf("no %q in\n%s", want, problems)
		}
	}

	if left := s.leftovers(); left != "" {
		t.Errorf("left in the engine: %s", left)
	}

	code, out, problems := s.run("", append([]string{"image", "list", "-o", "json"}, server...)...)
	var list []image.ListedTemplate
	err := json.Unmarshal([]byte(out), &list)
	check.Equal(t, "exit code, after "+problems, code, 0)
	check.Error(t, err, "")
	check.Length(t, "list", list, 3)
	check.Equal(t, "list[0].Name", list[0].Name, "mine-1.36")
	check.Equal(t, "list[0].ID", list[0].ID, strings.TrimSpace(id))
	check.Equal(t, "list[0].UserData", list[0].UserData, "cloud-init")
	if t.Failed() {
		t.FailNow()
	}

	if code, out, _ := s.run("", append([]string{"image", "list"}, server...)...); code != 0 ||
		!strings.Contains(out, "NAME        VERSION   USER DATA    OS TYPE") ||
		!strings.Contains(out, "ock-1.36    1         Ignition") {
		t.Errorf("the table:\n%s", out)
	}

	// Machines can be created from the template.
	if code, _, problems := s.run(strings.ReplaceAll(s.manifests, "ol9-k8s", "mine-1.36"), "plan", "-f", "-",
		"--ca-file", s.caFile); code != 2 {
		t.Errorf("machines of it: exit code %d: %s", code, problems)
	}

	if code, _, problems := s.run(
		"",
		append(
			[]string{
				"image", "template", "--file", path, "--name", "mine-1.36", "--cluster", "Default",
				"--storage-domain", "olvm-data",
			},
			server...)...); code != 1 || !strings.Contains(problems, `template "mine-1.36" already exists`) ||
		s.leftovers() != "" {
		t.Errorf("a second one: exit code %d: %s, left %s", code, problems, s.leftovers())
	}
}

func TestATemplateThatFailsLeavesNothing(t *testing.T) {
	s := newSite(t)
	t.Setenv("OCNE_DEFAULTS", "")
	path, _ := rawImage(t)

	for name, fault := range map[string]ovirtsim.Fault{
		"the template is refused": {
			Method: "POST",
			Path:   "/api/templates$",
			Status: 400,
			Reason: "Operation Failed",
			Detail: "Cannot add Template",
		},
		"the disk is not attached": {
			Method: "POST",
			Path:   "/diskattachments$",
			Status: 400,
			Reason: "Operation Failed",
			Detail: "Cannot attach Virtual Disk",
		},
		"the upload is not allowed": {
			Method: "POST",
			Path:   "/imagetransfers$",
			Status: 403,
			Reason: "Operation Failed",
			Detail: "User is not allowed",
		},
	} {
		s.sim.ClearFaults()
		if err := s.sim.Inject(fault); err != nil {
			t.Fatal(err)
		}

		code, _, problems := s.run(
			"", "image", "template", "--file", path, "-f",
			s.clusterFile(
				"ock-1.36", "mine", "olvmDatacenterName: Default",
				"olvmDatacenterName: Default\n    olvmOCK: {storageDomainName: olvm-data, diskName: mine}",
			),
		)
		check.Equal(t, name+": code", code, 1)
		check.Set(t, "problems", problems)

		check.Equal(t, name+": s.leftovers()", s.leftovers(), "")
	}
}

func TestAnUploadThatWasKilledGoesOn(t *testing.T) {
	s := newSite(t)
	t.Setenv("OCNE_DEFAULTS", "")
	content := make([]byte, 36<<20) // four chunks and a half, the second one of zeroes
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(content[:8<<20])
	_, _ = random.Read(content[16<<20:])
	content[510], content[511] = 0x55, 0xaa // a boot sector
	sum := sha256.Sum256(content)
	path := filepath.Join(t.TempDir(), "node.raw")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}

	args := s.uploadOf(path)
	if err := s.sim.Inject(ovirtsim.Fault{Method: "PUT", Path: "^/images/", Nth: 3, Action: "hang"}); err != nil {
		t.Fatal(err)
	}

	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	killed := exec.CommandContext(t.Context(), executable, args...)
	killed.Env = append(os.Environ(), asOlvmctl+"=1")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}

	puts := func() (bodies int64, methods string) {
		for _, request := range s.sim.ListRequests() {
			if strings.HasPrefix(request.Path, "/images/") {
				methods += request.Method + " "
				bodies++
			}
		}

		return bodies, methods
	}
	wait.Until(t, "the upload comes to its third part", func() bool {
		_, methods := puts()
		return strings.Count(methods, "PUT") == 3
	})

	if code, _, problems := s.run("", args...); code != 1 || !strings.Contains(problems, "another process is already uploading") {
		t.Errorf("two at once: exit code %d: %s", code, problems)
	}

	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}

	_ = killed.Wait()
	s.sim.ClearFaults()
	before, _ := puts()
	code, id, problems := s.run("", args...)
	if code != 0 || !strings.Contains(problems, "resuming an interrupted upload: 24 MiB already uploaded") {
		t.Fatalf("exit code %d: %s", code, problems)
	}

	after, methods := puts()
	check.Equal(t, "after-before", after-before, 3)
	check.Equal(
		t, `strings.HasSuffix(methods, "OPTIONS PUT PUT ")`, strings.HasSuffix(methods, "OPTIONS PUT PUT "), true,
	)
	check.Equal(t, `strings.Count(methods, "PATCH")`, strings.Count(methods, "PATCH"), 1)

	disks := s.sim.ListDisks()
	check.Length(t, "disks", disks, 1)
	check.Equal(t, "disks[0].SHA256", disks[0].SHA256, hex.EncodeToString(sum[:]))
	check.Equal(t, "disks[0].ID", disks[0].ID, strings.TrimSpace(id))

	if code, again, problems := s.run("", args...); code != 0 || again != id ||
		strings.Contains(problems, "uploading") {
		t.Errorf("a third time: exit code %d: %s, %s", code, again, problems)
	}

	// A template created from it keeps the disk, because the disk existed before.
	if code, _, problems := s.run(
		"", "image", "template", "--file", path, "--name", "of-it", "--cluster", "Default", "--disk", "node",
		"--storage-domain", "olvm-data", "--server", s.sim.URL(), "--ca-file", s.caFile,
	); code != 0 || !strings.Contains(problems, "the disk node already contains the image") ||
		s.leftovers() != "disk node" {
		t.Errorf("a template: exit code %d: %s, left %s", code, problems, s.leftovers())
	}

	// A different image must not be mistaken for this disk.
	if err := os.WriteFile(path, content[:8<<20], 0o600); err != nil {
		t.Fatal(err)
	}

	if code, _, problems := s.run("", args...); code != 1 ||
		!strings.Contains(problems, `disk "node" already exists`) {
		t.Errorf("another image: exit code %d: %s", code, problems)
	}
}

func TestTwoUploadsAtOnceMakeOneDisk(t *testing.T) {
	s := newSite(t)
	t.Setenv("OCNE_DEFAULTS", "")
	path, sum := rawImage(t)
	args := s.uploadOf(path)

	// Both commands look for the disk before one of them creates it.
	if err := s.sim.Inject(ovirtsim.Fault{Method: "POST", Path: "/api/disks$", Action: "hold"}); err != nil {
		t.Fatal(err)
	}

	made := make(chan bool, 2)
	for range cap(made) {
		go func() {
			var said bytes.Buffer
			command := newCommand(streams{out: io.Discard, err: &said})
			command.SetArgs(args)
			code := exitCode(command.ExecuteContext(t.Context()))
			made <- code == 0 && !strings.Contains(said.String(), "already contains the image")
		}()
	}

	wait.Until(
		t, "each of them makes its disk or has given up", func() bool { return s.sim.CountHits()+len(made) == 2 },
	)
	s.sim.ClearFaults()

	if first, second := <-made, <-made; first && second {
		t.Error("both say that they have made a disk")
	}

	if code, _, problems := s.run("", args...); code != 0 {
		t.Errorf("after that: exit code %d: %s", code, problems)
	}

	if disks := s.sim.ListDisks(); len(disks) != 1 || disks[0].SHA256 != sum {
		t.Errorf("%+v", disks)
	}
}

// TestAnUploadThatSomebodyElseEnds pauses one process while another process ends its transfer.
func TestAnUploadThatSomebodyElseEnds(t *testing.T) {
	s := newSite(t)
	t.Setenv("OCNE_DEFAULTS", "")
	path, sum := rawImage(t)
	if err := s.sim.Inject(ovirtsim.Fault{Method: "PUT", Path: "^/images/", Action: "hold", Count: 1}); err != nil {
		t.Fatal(err)
	}

	slow := make(chan string)
	go func() {
		var said bytes.Buffer
		command := newCommand(streams{out: io.Discard, err: &said})
		command.SetArgs(s.uploadOf(path))
		slow <- fmt.Sprintf("exit code %d: %s", exitCode(command.ExecuteContext(t.Context())), &said)
	}()

	wait.Until(t, "the slow one sends something", func() bool { return s.sim.CountHits() == 1 })

	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	elsewhere := filepath.Join(t.TempDir(), "copy.raw") // as on another machine, with other locks
	if err := os.WriteFile(elsewhere, content, 0o600); err != nil {
		t.Fatal(err)
	}

	if code, _, problems := s.run("", s.uploadOf(elsewhere)...); code != 0 {
		t.Errorf("the other one: exit code %d: %s", code, problems)
	}

	s.sim.ClearFaults()
	said := wait.Receive(t, "the slow one ends", slow)
	if !strings.HasPrefix(said, "exit code 0") || !strings.Contains(said, "the disk node already contains the image") {
		t.Errorf("the slow one: %s", said)
	}

	if disks := s.sim.ListDisks(); len(disks) != 1 || disks[0].SHA256 != sum || disks[0].Status != "ok" {
		t.Errorf("%+v", disks)
	}
}

// TestACompressedImageIsDecompressed uploads the same image in each compression. The first upload creates the disk, and
// the others find it.
func TestACompressedImageIsDecompressed(t *testing.T) {
	s := newSite(t)
	t.Setenv("OCNE_DEFAULTS", "")
	path, sum := rawImage(t)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		ending string
		writer func(io.Writer) (io.WriteCloser, error)
	}{
		{".gz", func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }},
		{".xz", func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) }},
		{".zst", func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }},
	} {
		var compressed bytes.Buffer
		writer, err := c.writer(&compressed)
		if err == nil {
			_, err = writer.Write(content)
		}

		if err := errors.Join(err, writer.Close()); err != nil {
			t.Fatal(err)
		}

		dir := t.TempDir()
		file := filepath.Join(dir, "node.raw"+c.ending)
		if err := os.WriteFile(file, compressed.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}

		whole := sha256.Sum256(compressed.Bytes())
		code, _, problems := s.run("", append(s.uploadOf(file), "--sha256", hex.EncodeToString(whole[:]))...)
		check.Equal(t, c.ending+": the exit code, after "+problems, code, 0)
		check.Contains(t, c.ending, problems, "decompressing node.raw"+c.ending)

		left, err := os.ReadDir(dir)
		check.Error(t, err, "")
		check.Length(t, c.ending+": files beside the image and itself", left, 1)
	}

	disks := s.sim.ListDisks()
	check.Length(t, "disks", disks, 1)
	check.Equal(t, "what is in the disk", disks[0].SHA256, sum)
}

// TestAFileThatIsNoDiskIsRefused has files that an engine would accept as raw disks.
func TestAFileThatIsNoDiskIsRefused(t *testing.T) {
	s := newSite(t)
	t.Setenv("OCNE_DEFAULTS", "")

	var empty bytes.Buffer
	if err := gzip.NewWriter(&empty).Close(); err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct{ content, want string }{
		"cluster.yaml":      {"name: prod\nprovider: olvm\n", "too small for the disk of a node (512 bytes)"},
		"filesystem.img":    {strings.Repeat("\x00", 2<<20), "its first sector is not a boot sector"},
		"broken.raw.gz":     {"\x1f\x8b\x08\x00 and nothing more", "failed to decompress"},
		"broken.qcow2.xz":   {"\xfd7zXZ\x00 and nothing more", "failed to decompress"},
		"nothing.raw.gz":    {empty.String(), "nothing.raw: the image is empty"},
		"disk.vmdk":         {"KDMV" + strings.Repeat("\x00", 2<<20), "convert it with qemu-img convert -O qcow2"},
		"ubuntu-server.iso": {strings.Repeat("\x00", 1<<20) + "CD001" + strings.Repeat("\x00", 1<<20), "not a boot sector"},
	} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}

		code, _, problems := s.run("", s.uploadOf(path)...)
		check.Equal(t, name+": the exit code", code, 1)
		check.Contains(t, name, problems, test.want)
	}

	check.Equal(t, "what is left in the engine", s.leftovers(), "")
}

func TestImagesOfBadInput(t *testing.T) {
	s := newSite(t)
	t.Setenv("OCNE_DEFAULTS", "")
	path, sum := rawImage(t)
	damaged := filepath.Join(t.TempDir(), "damaged.qcow2")
	if err := os.WriteFile(damaged, []byte("QFI\xfb"), 0o600); err != nil {
		t.Fatal(err)
	}

	server := []string{"--server", s.sim.URL(), "--ca-file", s.caFile}

	whole := append([]string{"image", "upload", path, "--storage-domain", "olvm-data", "--disk", "d"}, server...)
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no engine":         {[]string{"image", "list"}, "use --server, or specify a cluster file with -f"},
		"no storage domain": {append([]string{"image", "upload", path}, server...), "missing --disk, --storage-domain; use these flags"},
		"another checksum": {slices.Concat(whole, []string{"--sha256", strings.Repeat("0", 64)}),
			"has the SHA-256 checksum " + sum},
		"too small": {slices.Concat(whole, []string{"--size", "1MB"}), `--size: "1MB" is less than 256MB`},
		"a damaged image": {append([]string{"image", "upload", damaged, "--storage-domain", "olvm-data", "--disk",
			"d"}, server...), "ends within its header"},
		"an unknown domain": {append([]string{"image", "upload", path, "--storage-domain", "none", "--disk", "d"},
			server...), `"none"`},
		"a disk that is none": {append([]string{"image", "template", "--disk", "none", "--name", "x", "--cluster",
			"Default"}, server...), `0 disks named "none"`},
		"an unknown output": {append([]string{"image", "list", "-o", "xml"}, server...), "use table, wide, name, json or yaml"},
	} {
		if code, _, problems := s.run("", test.args...); code != 1 || !strings.Contains(problems, test.want) {
			t.Errorf("%s: exit code %d: %s", name, code, problems)
		}
	}

	if left := s.leftovers(); left != "" {
		t.Errorf("left in the engine: %s", left)
	}

	code, _, problems := s.run("", append(whole, "--sha256", sum, "--size", "1GB")...)
	if code != 0 || s.leftovers() != "disk d" {
		t.Errorf("exit code %d: %s, %s", code, problems, s.leftovers())
	}
}
