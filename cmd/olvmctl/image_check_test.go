package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/capolvm/cluster-api-provider-olvm/internal/test/check"
)

// TestAnImageFileIsCheckedWithoutBooting uses a stand-in for guestfish. Its filesystem lacks nearly everything.
func TestAnImageFileIsCheckedWithoutBooting(t *testing.T) {
	t.Setenv("OCNE_DEFAULTS", "")
	bin, err := filepath.Abs("../../internal/olvmctl/image/testdata/tree")
	check.Error(t, err, "")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Chdir(t.TempDir())
	t.Setenv("GUESTFISH_TREE", ".")

	disk := make([]byte, 1<<20)
	copy(disk, "QFI\xfb\x00\x00\x00\x03")
	disk[23], disk[29] = 16, 1

	for name, content := range map[string]string{
		"node.qcow2": string(disk), "filesystems": "/dev/sda1: xfs\n", "dev/sda1/usr/bin/cloud-init": "",
		"dev/sda1/usr/lib/os-release": "ID=ol\nVERSION_ID=9.4\n", "dev/sda1/usr/bin/kubeadm": "",
		"dev/sda1/usr/bin/kubelet": "", "dev/sda1/var/lib/rpm/rpmdb.sqlite": "kubeadm\x001.36.1\x001\x00",
		"cluster.yaml": "provider: olvm\nkubernetesVersion: 1.33.5\n",
	} {
		check.Error(t, os.MkdirAll(filepath.Dir(name), 0o700), "")
		check.Error(t, os.WriteFile(name, []byte(content), 0o600), "")
	}

	s := &site{t: t}
	code, out, _ := s.run("", "image", "check", "node.qcow2", "-f", "cluster.yaml")
	check.Equal(t, "exit code", code, 1)
	check.Contains(t, "output", out, "failed   kubeadm      version 1.36.1, not 1.33.5\n"+
		"                   -> install kubeadm 1.33.5, or use version v1.36.1\n")
	check.Contains(t, "output", out, "ok       system       ol 9.4\n")

	code, out, _ = s.run("", "image", "check", "node.qcow2", "--version", "v1.36", "-o", "json")
	check.Equal(t, "exit code", code, 1)
	check.Contains(t, "output", out, `"message": "version 1.36.1"`)
	check.Contains(t, "output", out, `"message": "no container runtime is installed"`)

	code, _, problems := s.run("", "image", "check", "other.qcow2")
	check.Equal(t, "exit code", code, 1)
	check.Contains(t, "problems", problems, "other.qcow2: no such file")
}
