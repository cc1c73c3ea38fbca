package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/olvmctl/image/ocktest"
	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

func TestImagesOfOCKAreMade(t *testing.T) {
	t.Setenv("OCNE_DEFAULTS", "")
	disk := make([]byte, 3<<20) // only the header has content
	copy(disk, "QFI\xfb\x00\x00\x00\x03")
	disk[23], disk[29] = 16, 1
	host := ocktest.ServeRegistry(t, nil)
	ocktest.PushImage(t, host+"/olcne/ock:1.33", ocktest.NewImage(t, "amd64", ocktest.NewLayer(t, ocktest.File{
		Name:    "disk/boot.qcow2",
		Content: disk,
	})))

	// This guestfish knows one boot entry, and replaces the disk by the edited entry. The test in e2e/image uses a real
	// guestfish.
	bin, err := filepath.Abs("../../internal/olvmctl/image/testdata/bin")
	if err != nil {
		t.Fatal(err)
	}

	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Chdir(t.TempDir())
	err = os.WriteFile("cluster.yaml", []byte("provider: olvm\nkubernetesVersion: 1.33.5\nregistry: "+host+"\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}

	s := &site{t: t}
	code, out, problems := s.run("", "image", "create", "-f", "cluster.yaml", "--kernel-arg", "nosmt", "--kernel-arg",
		"a=1,2")
	if code != 0 || out != "ock-1.33-amd64.qcow2\n" {
		t.Fatalf("exit code %d: %q, %s", code, out, problems)
	}

	for _, want := range []string{"looking for " + host + "/olcne/ock:1.33\n", "downloading boot.qcow2: 3 of 3 MiB",
		"editing the boot loader entries", "/loader.1/entries/ostree-1-ock.conf: setting the kernel arguments"} {
		if !strings.Contains(problems, want) {
			t.Errorf("no %q in\n%s", want, problems)
		}
	}

	content, err := os.ReadFile("ock-1.33-amd64.qcow2")
	check.Error(t, err, "")
	check.Contains(t, "string(content)", string(content), "ignition.platform.id=openstack")
	check.Contains(t, "string(content)", string(content), " rd.timeout=120 nosmt a=1,2\n")

	for _, args := range [][]string{
		{"-f", "cluster.yaml", "--provider", "oci", "--force"},
		{"-f", "oci.yaml", "--force"},
	} {
		file := []byte("provider: oci\nkubernetesVersion: 1.33.5\nregistry: " + host + "\n")
		check.Error(t, os.WriteFile("oci.yaml", file, 0o600), "")

		code, out, problems := s.run("", append([]string{"image", "create"}, args...)...)
		check.Equal(t, "exit code, after "+problems, code, 0)
		check.Equal(t, "the file for Oracle Cloud", out, "ock-1.33-amd64-oci.qcow2\n")

		content, err := os.ReadFile("ock-1.33-amd64-oci.qcow2")
		check.Error(t, err, "")
		check.Contains(t, "the image for Oracle Cloud", string(content), "ignition.platform.id=oraclecloud")
		check.Contains(t, "the image for Oracle Cloud", string(content), "console=ttyS0")
	}

	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"another provider": {[]string{"--provider", "aws"}, `--provider "aws" is not supported; use oci or olvm`},
		"a second time": {[]string{"-f", "cluster.yaml"}, "ock-1.33-amd64.qcow2 " +
			"already exists; use another name, or overwrite it with --force"},
		"a version of nobody": {[]string{"-f", "cluster.yaml", "--version", "1.99"}, "image " +
			host + "/olcne/ock:1.99 not found in the registry"},
		"a version that is none": {[]string{"--version", "latest"},
			`--version: invalid Kubernetes version "latest"; use for example 1.33`},
		"an unknown architecture": {[]string{"--arch", "x86_64"},
			`--arch "x86_64" is not supported; use amd64 or arm64`},
		"no name for another": {[]string{"--from", host + "/olcne/ock:1.33"},
			"--from requires --out"},
		"two sources":                      {[]string{"--from", "a", "--version", "1.33"}, "none of the others can be"},
		"two arguments in one":             {[]string{"--kernel-arg", "a b"}, `"a b" is not a single kernel argument`},
		"a platform that is none":          {[]string{"--ignition-platform", ""}, `invalid Ignition platform ""`},
		"a cluster file that is not there": {[]string{"-f", "other.yaml"}, "other.yaml"},
	} {
		code, out, problems := s.run("", append([]string{"image", "create"}, test.args...)...)
		check.Equal(t, name+": code", code, 1)
		check.Equal(t, name+": out", out, "")
		check.Contains(t, name+": problems", problems, test.want)
	}

	if left, err := filepath.Glob(".olvmctl*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
